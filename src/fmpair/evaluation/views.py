"""An evaluation by group: popularity of the item, activity of the user, warmth, context."""

from __future__ import annotations

import numpy as np
import polars as pl

from fmpair.data import Dataset
from fmpair.errors import DataError, OptionError, UnknownError, named, unknown
from fmpair.evaluation.bins import binned
from fmpair.evaluation.evaluate import Evaluation, mean_of
from fmpair.forked import check_process

THIRDS = ("head", "mid", "tail")
CONTEXT = "context:"
VIEWS = ("popularity", "activity", "warmth", f"{CONTEXT}COLUMN")


def view(evaluation: Evaluation, groups: pl.Series) -> pl.DataFrame:
    """A frame (group, units, mean of each metric), in order of first appearance of the groups.

    groups: one value per unit, from a function below or of your own.
    """
    check_process()
    if len(groups) != len(evaluation.units):
        raise DataError(f"{len(groups)} groups for {len(evaluation.units)} units: give one each")
    frame = evaluation.units.with_columns(groups.rename("group"))
    rows = []
    for (name,), part in frame.group_by("group", maintain_order=True):
        means = {metric: mean_of(metric, part[metric]) for metric in evaluation.metrics}
        rows.append({"group": name, "units": len(part), **means})
    return pl.DataFrame(rows, infer_schema_length=None)


def groups(
    name: str,
    evaluation: Evaluation,
    train: Dataset,
    test: Dataset,
    every: Dataset | None = None,
) -> pl.Series:
    """The groups of a view by its name, one of VIEWS.

    A column with many values becomes a few ranges, or its commonest values and the others: by all
    events of `every`, so that they are the same for all folds, else by training and test events.
    """
    check_process()
    if name.startswith(CONTEXT):
        column = name.removeprefix(CONTEXT)
        values = context(evaluation, test, column)
        parts = [train, test] if every is None else [every]
        seen = [part.columns[column] for part in parts if column in part.columns.columns]
        return binned(values, pl.concat([part.cast(values.dtype) for part in seen]))
    known = {"popularity": item_popularity, "activity": user_activity, "warmth": warmth}
    if name not in known:
        raise UnknownError(unknown("view", name, VIEWS))
    return known[name](evaluation, train)


def item_popularity(evaluation: Evaluation, train: Dataset) -> pl.Series:
    """head, mid or tail: of the items by falling number of training events, the first have a
    third of all events, the next another third; unseen: no event."""
    number = train.items.numbers(_items(evaluation))
    return _thirds(np.bincount(train.item, minlength=len(train.items)), number, "unseen")


def user_activity(evaluation: Evaluation, train: Dataset) -> pl.Series:
    """head, mid or tail of the users by number of training events, cut like the items."""
    number = train.users.numbers(evaluation.units["user"])
    return _thirds(np.bincount(train.user, minlength=len(train.users)), number, "unseen")


def warmth(evaluation: Evaluation, train: Dataset) -> pl.Series:
    """Whether training has events of the user and, where units have one item, of the item."""
    user = _warm(train.users.numbers(evaluation.units["user"]), train.user)
    text = np.where(user, "warm user", "cold user")
    if evaluation.units["item"].null_count() < len(evaluation.units):
        item = _warm(train.items.numbers(_items(evaluation)), train.item)
        text = np.strings.add(text, np.where(item, ", warm item", ", cold item"))
    return pl.Series(text)


def context(evaluation: Evaluation, test: Dataset, column: str) -> pl.Series:
    """The value a column of the test events has where the unit is first seen."""
    if column not in test.columns.columns:
        raise OptionError(unknown("column of the test events", column, test.columns.columns))
    return test.columns[column].gather(evaluation.units["row"])


def _items(evaluation: Evaluation) -> pl.Series:
    items = evaluation.units["item"]
    if items.null_count():
        raise OptionError(
            f"some units have several items: evaluate with {named('unit', 'interaction')}"
        )
    return items


def _warm(number: np.ndarray, present: np.ndarray) -> np.ndarray:
    return (number >= 0) & np.isin(number, present)


def _thirds(times: np.ndarray, number: np.ndarray, otherwise: str) -> pl.Series:
    """The third of all events that each number's own stand in, the busiest first."""
    order = np.argsort(-times, kind="stable")
    before = np.empty(len(times))
    before[order] = np.cumsum(times[order]) - times[order]
    third = np.minimum(before * 3 // max(times.sum(), 1), 2).astype(np.int64)
    known = (number >= 0) & (times[number] > 0)
    return pl.Series(np.where(known, np.array(THIRDS)[third[number]], otherwise))
