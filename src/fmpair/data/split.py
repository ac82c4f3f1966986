"""Training, validation and test sets: seeded, and always a partition of the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import polars as pl

from fmpair.capacity import check_memory
from fmpair.data.attribute import by_attribute, in_domain
from fmpair.data.cold import cold_items, cold_users
from fmpair.data.dataset import Dataset
from fmpair.data.histories import leave_last_out, leave_out, per_user, shuffled
from fmpair.data.parts import Split, border, cut, hash_of, load, moments_of_all, save, split_of
from fmpair.data.times import parse_times
from fmpair.errors import DataError, OptionError
from fmpair.forked import check_process

__all__ = [
    "SPLITS",
    "Split",
    "by_attribute",
    "by_time",
    "cold_items",
    "cold_users",
    "folds",
    "given",
    "hash_of",
    "holdout",
    "leave_last_out",
    "leave_out",
    "load",
    "per_user",
    "save",
    "target",
]


def holdout(data: Dataset, test: float = 0.2, validation: float = 0.0, seed: int = 0) -> Split:
    """A random share of all events for testing, and one for validation."""
    return cut(shuffled(data, seed), test, validation)


def folds(data: Dataset, count: int = 4, seed: int = 0, validation: float = 0.0) -> list[Split]:
    """Cross-validation after one shuffle of all events: each is tested in exactly one fold.

    validation: a share of each fold's other events, those that follow it in the shuffled circle.
    """
    return _folds(shuffled(data, seed), np.zeros(0, np.int64), count, validation)


def target(
    data: Dataset, domain: str, count: int = 4, seed: int = 0, validation: float = 0.0
) -> list[Split]:
    """Folds of the events of one domain; those of the other domains are always in training.

    validation: a share of the domain's other events.
    """
    inside = in_domain(data, domain)
    order = shuffled(data, seed)
    return _folds(order[inside[order]], np.flatnonzero(~inside), count, validation)


def by_time(
    data: Dataset,
    test: float = 0.2,
    validation: float = 0.0,
    after: Any = None,
    validation_after: Any = None,
) -> Split:
    """The latest share of all events for testing, and the share before them for validation.

    No moment is cut in two: events of one time are in one part, so shares are kept as nearly as
    that allows.
    after: a time, such as '2020-01-01', in place of the share: events from it on are the test set.
    validation_after: likewise, for those before. Where times are plain numbers so are these, or
    dates, which are then seconds since 1970.
    """
    times = moments_of_all(data)
    order = np.argsort(times, kind="stable")
    times = times[order]
    if data.order is not None and after is not None:
        raise OptionError(
            f"the data have no times but the order of their rows: give shares, not {after!r}"
        )
    if after is None and validation_after is None:
        return cut(order, test, validation, times)
    if after is None:
        raise OptionError("validation_after goes with after, the time the test set starts at")
    last = _before(data, after)
    middle = border(times[:last], last - round(validation * len(data))) if validation else last
    if validation_after is not None:
        middle = _before(data, validation_after)
    if not 0 < middle <= last < len(data):
        first, last_time = data.columns["timestamp"].gather([order[0], order[-1]])
        raise DataError(
            f"nothing is left for one of the parts: times go from {first} to {last_time}"
        )
    return split_of(order[:middle], order[middle:last], order[last:])


def given(data: Dataset, parts: Sequence[int], validation: float = 0.0, seed: int = 0) -> Split:
    """An existing split: how many rows are training, validation and test set, in this order.

    validation: without a validation set, a random share of the training rows. It is not known how
    the test set was chosen, so the validation set cannot be made in the same way.
    """
    if len(parts) != 3 or min(parts) < 0 or sum(parts) != len(data):
        raise OptionError(
            f"parts must be the numbers of rows of training, validation and test set, {len(data)} "
            f"in all, not {list(parts)}"
        )
    train, aside, test = np.split(np.arange(len(data)), np.cumsum(parts)[:2])
    if not 0 <= validation < 1:
        raise OptionError(f"validation must be a share from 0 to below 1, not {validation}")
    if validation and len(aside):
        raise OptionError("validation is given already: leave the share out")
    if validation:
        train = np.random.default_rng(seed).permutation(train)
        train, aside = np.split(train, [len(train) - round(validation * len(train))])
    return split_of(train, aside, test)


# By the name an experiment file gives them.
SPLITS: dict[str, Callable[..., Split | list[Split]]] = {
    "holdout": holdout,
    "folds": folds,
    "per_user": per_user,
    "leave_out": leave_out,
    "leave_last_out": leave_last_out,
    "by_time": by_time,
    "cold_users": cold_users,
    "cold_items": cold_items,
    "by_attribute": by_attribute,
    "target": target,
    "given": given,
}


def _folds(order: np.ndarray, always: np.ndarray, count: int, validation: float) -> list[Split]:
    """Contiguous folds of the order; the rows of `always` train in each."""
    if not 2 <= count <= len(order):
        raise OptionError(
            f"count must be from 2 to the number of events ({len(order)}), not {count}"
        )
    if not 0 <= validation < 1:
        raise OptionError(f"validation must be a share from 0 to below 1, not {validation}")
    needed = 8 * count * (len(order) + len(always))
    check_memory("splitting", f"{count:,} folds", needed, None, "lower count")
    pieces = np.array_split(order, count)
    found = []
    for n, test in enumerate(pieces):
        rest = np.concatenate(pieces[n + 1 :] + pieces[:n])
        aside = round(validation * len(rest))
        found.append(split_of(np.concatenate([rest[aside:], always]), rest[:aside], test))
    return found


def _before(data: Dataset, moment: Any) -> int:
    """How many events are before a moment."""
    check_process()
    times = data.columns["timestamp"]
    limit = _time(moment)
    if times.dtype.is_numeric():
        if isinstance(limit, datetime):
            limit = limit.replace(tzinfo=UTC).timestamp()
    elif not isinstance(limit, datetime):
        raise OptionError(f"{moment!r} is no time: write one such as '2020-01-31'")
    else:
        zone = getattr(times.dtype, "time_zone", None)
        times = times.dt.convert_time_zone("UTC").dt.replace_time_zone(None) if zone else times
        times = times.cast(pl.Datetime("us"))
    return int((times < limit).sum())


def _time(moment: Any) -> datetime | float:
    """A date, a time or their text as a UTC-naive datetime; a number as it is."""
    if isinstance(moment, str):
        moment = parse_times(pl.Series([moment]))[0]
    if isinstance(moment, datetime):
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    if isinstance(moment, date):
        return datetime(moment.year, moment.month, moment.day)
    if isinstance(moment, int | float) and not isinstance(moment, bool):
        return moment
    raise OptionError(f"{moment!r} is no time: write one such as '2020-01-31'")
