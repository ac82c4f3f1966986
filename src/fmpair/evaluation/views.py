"""Results by group: popularity and events of the item, activity of the user, warmth, context.

A context column with many values becomes few groups: ranges of numbers and times, or its most
frequent values and the others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import polars as pl

from fmpair.data import Dataset
from fmpair.data.columns.roles import is_missing
from fmpair.errors import DataError, OptionError, UnknownError, named, unknown
from fmpair.evaluation.evaluation import Evaluation, mean_of
from fmpair.threads import check_process

MAX_GROUPS = 12  # columns with at most this many values stay as they are
RANGES = 5  # groups of numbers and times, each with about as many events
OTHERS = "others"
NUMBER = re.compile(r"-?[\d,]+(\.\d+)?")


def binned(values: pl.Series, known: pl.Series) -> pl.Series:
    """Return the group of each value, null if it is missing.

    known: all values of the column, which define the groups.
    """
    known = known.drop_nulls()
    if known.dtype.is_float():
        known = known.drop_nans()
    if known.n_unique() <= MAX_GROUPS:
        return values
    if known.dtype.is_numeric() or known.dtype.is_temporal():
        return _ranges(values, known)
    common = known.value_counts(sort=True).sort("count", known.name, descending=[True, False])
    frequent = common[known.name].head(MAX_GROUPS - 1).implode()
    named = pl.when(values.is_in(frequent) | values.is_null()).then(values.cast(pl.String))
    return pl.select(named.otherwise(pl.lit(OTHERS)).alias(values.name)).to_series()


def in_order(groups: Iterable[str]) -> list[str]:
    """Sort groups: numbers and ranges by size, text alphabetically, the rest last."""
    return sorted(groups, key=_sort_key)


def _ranges(values: pl.Series, known: pl.Series) -> pl.Series:
    """Ranges `up to a`, `a to b`, ..., `above z` with about equally many known values each."""
    times = known.dtype.is_temporal()
    numbers = known.to_physical() if times else known
    cuts = np.quantile(numbers.to_numpy(), np.arange(1, RANGES) / RANGES, method="lower")
    cuts = np.unique(cuts[cuts < numbers.max()])
    names = _times(known, cuts) if times else _numbers(cuts)
    labels = [f"up to {names[0]}", *(f"{a} to {b}" for a, b in pairwise(names))]
    labels.append(f"above {names[-1]}")
    index = np.searchsorted(cuts, (values.to_physical() if times else values).fill_null(0))
    groups = pl.Series(values.name, np.array(labels)[index])
    return pl.select(pl.when(~is_missing(values)).then(groups).alias(values.name)).to_series()


def _numbers(cuts: np.ndarray) -> list[str]:
    """Format numbers with as few digits as distinguish them, at least three."""
    for digits in range(3, 17):
        names = [_number(float(cut), digits) for cut in cuts]
        if len(set(names)) == len(names):
            return names
    return [repr(float(cut)) for cut in cuts]


def _number(value: float, digits: int) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _times(known: pl.Series, cuts: np.ndarray) -> list[str]:
    """Format times as days, or with seconds if days are not distinct."""
    times = [pl.Series([int(cut)]).cast(known.dtype).item() for cut in cuts]
    days = [f"{time:%Y-%m-%d}" if hasattr(time, "year") else str(time) for time in times]
    if len(set(days)) == len(days):
        return days
    return [f"{time:%Y-%m-%d %H:%M:%S}" if hasattr(time, "hour") else str(time) for time in times]


def _sort_key(group: str) -> tuple[int, float, str]:
    if group in (OTHERS, "(none)", "unknown"):
        return 2, 0.0, group
    if group.startswith("up to "):
        return -1, 0.0, group
    if group.startswith("above "):
        return 1, 0.0, group
    number = NUMBER.match(group)
    ranged = number and (number.end() == len(group) or group[number.end() :].startswith(" to "))
    return 0, float(number[0].replace(",", "")) if number and ranged else math.inf, group


THIRDS = ("head", "mid", "tail")
CONTEXT = "context:"
BY_ITEM = ("popularity", "events")  # views of units with one relevant item
VIEWS = ("popularity", "activity", "warmth", "events", f"{CONTEXT}COLUMN")
FEW = (0, 3, 10, 100)  # upper bounds of the groups of `item_events`
SPARSE = ("0", "1 to 3")  # groups of `item_events` with little training data


def view(evaluation: Evaluation, groups: pl.Series) -> pl.DataFrame:
    """Return (group, units, mean of each metric), groups in order of first appearance.

    groups: one value per unit, from a function below or your own.
    """
    check_process()
    if len(groups) != len(evaluation.units):
        raise DataError(
            f"groups needs one value per unit, got {len(groups)} for {len(evaluation.units)}"
        )
    frame = evaluation.units.with_columns(groups.rename("group"))
    rows = []
    for (name,), part in frame.group_by("group", maintain_order=True):
        means = {metric: mean_of(metric, part[metric]) for metric in evaluation.metrics}
        rows.append({"group": name, "units": len(part), **means})
    return pl.DataFrame(rows, infer_schema_length=None)


def groups(
    name: str, evaluation: Evaluation, train: Dataset, test: Dataset, every: Dataset | None = None
) -> pl.Series:
    """Return the groups of a view by its name, one of VIEWS.

    Groups of a context column follow from all events of `every`, so that they are the same for all
    folds; by default from the training and test events.
    """
    check_process()
    if name.startswith(CONTEXT):
        column = name.removeprefix(CONTEXT)
        values = context(evaluation, test, column)
        parts = [train, test] if every is None else [every]
        seen = [part.columns[column] for part in parts if column in part.columns.columns]
        return binned(values, pl.concat([part.cast(values.dtype) for part in seen]))
    views = {
        "popularity": item_popularity,
        "activity": user_activity,
        "warmth": warmth,
        "events": item_events,
    }
    if name not in views:
        raise UnknownError(unknown("view", name, VIEWS))
    return views[name](evaluation, train)


def item_popularity(evaluation: Evaluation, train: Dataset) -> pl.Series:
    """Return head, mid or tail by number of training events, each with a third of all events.

    unseen: an item without training events.
    """
    number = train.items.numbers(_items(evaluation))
    return _thirds(np.bincount(train.item, minlength=len(train.items)), number)


def item_events(evaluation: Evaluation, train: Dataset) -> pl.Series:
    """Return the range of the item's number of training events: 0, 1 to 3, 4 to 10 and so on."""
    times = np.append(np.bincount(train.item, minlength=len(train.items)), 0)
    number = train.items.numbers(_items(evaluation))  # -1 selects the 0 at the end
    ranges = (f"{low + 1} to {high}" for low, high in pairwise(FEW))
    labels = np.array([f"{FEW[0]}", *ranges, f"above {FEW[-1]}"])
    return pl.Series(labels[np.searchsorted(FEW, times[number])])


def user_activity(evaluation: Evaluation, train: Dataset) -> pl.Series:
    """Return head, mid or tail by the user's number of training events, as `item_popularity`."""
    number = train.users.numbers(evaluation.units["user"])
    return _thirds(np.bincount(train.user, minlength=len(train.users)), number)


def warmth(evaluation: Evaluation, train: Dataset) -> pl.Series:
    """Whether training has events of the user and, if units have one item, of the item."""
    user = _warm(train.users.numbers(evaluation.units["user"]), train.user)
    text = np.where(user, "warm user", "cold user")
    if evaluation.units["item"].null_count() < len(evaluation.units):
        item = _warm(train.items.numbers(_items(evaluation)), train.item)
        text = np.strings.add(text, np.where(item, ", warm item", ", cold item"))
    return pl.Series(text)


def context(evaluation: Evaluation, test: Dataset, column: str) -> pl.Series:
    """Return the value of a test column at the first event of each unit."""
    if column not in test.columns.columns:
        raise OptionError(unknown("column of the test events", column, test.columns.columns))
    return test.columns[column].gather(evaluation.units["row"])


def _items(evaluation: Evaluation) -> pl.Series:
    items = evaluation.units["item"]
    if items.null_count():
        raise OptionError(
            f"view needs one relevant item per unit: evaluate with {named('unit', 'interaction')}"
        )
    return items


def _warm(number: np.ndarray, present: np.ndarray) -> np.ndarray:
    return (number >= 0) & np.isin(number, present)


def _thirds(times: np.ndarray, number: np.ndarray) -> pl.Series:
    """Return the third of all events that each number belongs to, the most frequent first."""
    order = np.argsort(-times, kind="stable")
    before = np.empty(len(times))
    before[order] = np.cumsum(times[order]) - times[order]
    third = np.minimum(before * 3 // max(times.sum(), 1), 2).astype(np.int64)
    known = (number >= 0) & (times[number] > 0)
    return pl.Series(np.where(known, np.array(THIRDS)[third[number]], "unseen"))
