"""Splits into training, validation and test parts; seeded, every row is in at most one part.

Of all events: `holdout`, `folds`, `by_time`, `time_windows`, `target`, `by_attribute`, `given`.
Of whole sessions: `by_session`.
Within each user's history: `per_user`, `leave_out`, `leave_last_out`.
Cold start: `cold_users`, `cold_items`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from fmpair.checks import check_memory, positive, whole
from fmpair.data.dataset import Dataset
from fmpair.data.owner_splits import (
    cold_items,
    cold_users,
    leave_last_out,
    leave_out,
    per_user,
    shuffled,
)
from fmpair.data.parts import (
    Split,
    check_shares,
    cut,
    hash_of,
    load,
    moments_across_users,
    save,
    split_of,
    time_boundary,
)
from fmpair.data.times import DAY, is_calendar, parse_times
from fmpair.errors import DataError, OptionError, UnknownError, named, unknown
from fmpair.threads import check_process

__all__ = [
    "SPLITS", "Split", "by_attribute", "by_session", "by_time", "cold_items", "cold_users", "folds",
    "given", "hash_of", "holdout", "leave_last_out", "leave_out", "load", "per_user", "save",
    "target", "time_windows",
]  # fmt: skip

NO_TIME = "{!r} is not a time: write one such as '2020-01-31'"


def holdout(data: Dataset, test: float = 0.2, validation: float = 0.0, seed: int = 0) -> Split:
    """Take a random share of all events for testing, and one for validation."""
    return cut(shuffled(data, seed), test, validation)


def folds(data: Dataset, count: int = 4, seed: int = 0, validation: float = 0.0) -> list[Split]:
    """Return cross-validation folds of the shuffled events: each event is tested in one fold.

    validation: a share of each fold's other events, those that follow it in the shuffled circle.
    """
    return _folds(shuffled(data, seed), np.zeros(0, np.int64), count, validation)


def target(
    data: Dataset, domain: str, count: int = 4, seed: int = 0, validation: float = 0.0
) -> list[Split]:
    """Return folds of the events of one domain; those of other domains are always in training.

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
    """Take the latest share of all events for testing, and the share before for validation.

    Events of one time stay in one part, so shares are approximate.
    after: a time, such as '2020-01-01', in place of the share: events from it on are tested.
    validation_after: the same for validation. If times are numbers, so are these; dates are then
    seconds since 1970.
    """
    times = moments_across_users(data)
    order = np.argsort(times, kind="stable")
    times = times[order]
    if data.order is not None and after is not None:
        raise OptionError(
            f"the data have an order of rows but no times: give shares, not {after!r}"
        )
    if after is None and validation_after is None:
        return cut(order, test, validation, times)
    if after is None:
        raise OptionError("validation_after requires after, the first time of the test part")
    last = _count_before(data, after)
    middle = last
    if validation:
        middle = time_boundary(times[:last], last - round(validation * len(data)))
    if validation_after is not None:
        middle = _count_before(data, validation_after)
    if not 0 < middle <= last < len(data):
        first, last_time = data.columns["timestamp"].gather([order[0], order[-1]])
        raise DataError(f"one of the parts would be empty: times range from {first} to {last_time}")
    return split_of(order[:middle], order[middle:last], order[last:])


def time_windows(
    data: Dataset, count: int = 3, test: float = 0.1, validation: float = 0.0
) -> list[Split]:
    """Return a split for each of several cuts in time: train on all before, test what follows.

    test: the share of all events in each of the latest `count` windows; events after a window are
    in no part of its split. validation: a share of all events, the last before each window.
    """
    whole("count", count, 1)
    check_shares(count * test, validation)
    times = moments_across_users(data)
    order = np.argsort(times, kind="stable")
    times, size, splits = times[order], len(order), []
    ends = [time_boundary(times, size - round(n * test * size)) for n in range(count, 0, -1)]
    for first, last in pairwise([*ends, size]):
        aside = first - round(validation * size)
        middle = time_boundary(times[:first], aside) if validation else first
        if not 0 < middle <= first < last:
            raise DataError(f"{size:,} events have too few times for {count} windows")
        splits.append(split_of(order[:middle], order[middle:first], order[first:last]))
    return splits


def by_session(
    data: Dataset,
    test: float = 0.2,
    validation: float = 0.0,
    days: float | None = None,
    validation_days: float | None = None,
) -> Split:
    """Take all events of the latest sessions for testing, of those before for validation.

    A session is all events of a user, and as late as its last event.
    test, validation: shares of the sessions; sessions that end at one time stay in one part.
    days: in place of the share, test the sessions that end in this many last days of the data.
    validation_days: the same for validation, in the days before.
    """
    sessions, number = np.unique(data.user, return_inverse=True)
    ended = np.full(len(sessions), np.iinfo(np.int64).min)
    np.maximum.at(ended, number, moments_across_users(data))
    order = np.argsort(ended, kind="stable")
    if days is None:
        if validation_days is not None:
            raise OptionError("validation_days requires days, the length of the test part")
        parts = cut(order, test, validation, ended[order], "sessions")
    else:
        if not is_calendar(data):
            raise OptionError("the data have an order but no times: give shares, not days")
        parts = _last_days(order, ended[order], days, validation_days)
    part_of = np.zeros(len(sessions), np.int8)
    part_of[parts.validation], part_of[parts.test] = 1, 2
    return split_of(*(np.flatnonzero(part_of[number] == part) for part in range(3)))


def _last_days(
    order: np.ndarray, ended: np.ndarray, days: float, validation_days: float | None
) -> Split:
    """Return the split of sessions in their order by when they ended, in microseconds."""
    positive("days", days)
    if validation_days is not None:
        positive("validation_days", validation_days)
    length = days + (validation_days or 0)
    first, middle = np.searchsorted(ended, ended[-1:] - np.array([length, days]) * DAY, "right")
    if not first:
        size = f"all {len(order):,} sessions end in the last {length:g} days"
        raise DataError(f"{size}: nothing is left to train on")
    return split_of(order[:first], order[first:middle], order[middle:])


def given(data: Dataset, parts: Sequence[int], validation: float = 0.0, seed: int = 0) -> Split:
    """Take an existing split: how many rows are training, validation and test, in this order.

    validation: without validation rows, a random share of the training rows. It cannot be chosen
    like the test part, since it is not known how that was chosen.
    """
    if len(parts) != 3 or min(parts) < 0 or sum(parts) != len(data):
        raise OptionError(
            f"parts must be the numbers of training, validation and test rows, {len(data)} in "
            f"all, not {list(parts)}"
        )
    train, aside, test = np.split(np.arange(len(data)), np.cumsum(parts)[:2])
    if not 0 <= validation < 1:
        raise OptionError(f"validation must be a share from 0 to below 1, not {validation}")
    if validation and len(aside):
        raise OptionError("parts has validation rows already: leave out validation")
    if validation:
        train = np.random.default_rng(seed).permutation(train)
        train, aside = np.split(train, [len(train) - round(validation * len(train))])
    return split_of(train, aside, test)


def _folds(order: np.ndarray, always: np.ndarray, count: int, validation: float) -> list[Split]:
    """Return contiguous folds of the order; the rows of `always` are training rows of each."""
    if not 2 <= count <= len(order):
        raise OptionError(
            f"count must be from 2 to the number of events ({len(order)}), not {count}"
        )
    if not 0 <= validation < 1:
        raise OptionError(f"validation must be a share from 0 to below 1, not {validation}")
    needed = 8 * count * (len(order) + len(always))
    check_memory("splitting", f"{count:,} folds", needed, None, "lower count")
    pieces = np.array_split(order, count)
    splits = []
    for n, test in enumerate(pieces):
        rest = np.concatenate(pieces[n + 1 :] + pieces[:n])
        aside = round(validation * len(rest))
        splits.append(split_of(np.concatenate([rest[aside:], always]), rest[:aside], test))
    return splits


def _count_before(data: Dataset, moment: Any) -> int:
    check_process()
    times = data.columns["timestamp"]
    limit = _time(moment)
    if times.dtype.is_numeric():
        if isinstance(limit, datetime):
            limit = limit.replace(tzinfo=UTC).timestamp()
    elif not isinstance(limit, datetime):
        raise OptionError(NO_TIME.format(moment))
    else:
        zone = getattr(times.dtype, "time_zone", None)
        times = times.dt.convert_time_zone("UTC").dt.replace_time_zone(None) if zone else times
        times = times.cast(pl.Datetime("us"))
    return int((times < limit).sum())


def _time(moment: Any) -> datetime | float:
    """Return a date, a time or their text as a UTC-naive datetime; a number as it is."""
    if isinstance(moment, str):
        moment = parse_times(pl.Series([moment]))[0]
    if isinstance(moment, datetime):
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    if isinstance(moment, date):
        return datetime(moment.year, moment.month, moment.day)
    if isinstance(moment, int | float) and not isinstance(moment, bool):
        return moment
    raise OptionError(NO_TIME.format(moment))


def by_attribute(
    data: Dataset, column: str, test: Iterable[Any], validation: Iterable[Any] = ()
) -> Split:
    """Take events whose column has a value of `test` for testing, likewise for validation.
    column: of the events, else of the user or item table; user.NAME and item.NAME are explicit. A
    list matches if any of its members does. Values are compared as text.
    """
    values = _column(data, column)
    tested, validated = (_has(values, wanted) for wanted in (test, validation))
    if (tested & validated).any():
        raise OptionError(f"some events of column {column!r} have values of test and of validation")
    trained = ~tested & ~validated
    if not (trained.any() and tested.any()):
        raise DataError(f"a split by {column!r} would leave nothing to train or to test on")
    return split_of(*(np.flatnonzero(part) for part in (trained, validated, tested)))


def in_domain(data: Dataset, domain: str) -> np.ndarray:
    """bool [events]: whether the event belongs to the domain."""
    if "domain" not in data.columns.columns:
        raise DataError(f"the data have no domains: name their column with {named('domain', ...)}")
    return _has(data.columns["domain"], domain)


def _column(data: Dataset, name: str) -> pl.Series:
    """Return a column of the events or of a table, one value per event."""
    columns = {key: (data.columns[key], np.arange(len(data))) for key in data.columns.columns}
    for role, table, number in (
        ("user", data.user_table, data.user),
        ("item", data.item_table, data.item),
    ):
        for key in table.columns:
            columns.setdefault(key, (table[key], number))
            columns[f"{role}.{key}"] = (table[key], number)
    if name not in columns:
        raise UnknownError(unknown("column", name, columns))
    values, number = columns[name]
    return values.gather(number)


def _has(values: pl.Series, wanted: Any) -> np.ndarray:
    """bool [events]: whether the value is, or contains, one of those wanted."""
    check_process()
    many = isinstance(wanted, Iterable) and not isinstance(wanted, str)
    listed = list(wanted) if many else [wanted]
    if not listed:
        return np.zeros(len(values), bool)
    names = pl.Series(listed, strict=False).cast(pl.String).to_list()
    lists = isinstance(values.dtype, pl.List)
    text = values.cast(pl.List(pl.String) if lists else pl.String)
    known = (text.explode() if lists else text).unique(maintain_order=True).drop_nulls()
    for name in names:
        if name not in known:
            raise UnknownError(unknown(f"value of {values.name!r}", name, known))
    if not lists:
        return text.is_in(names).fill_null(False).to_numpy()
    inside = text.list.eval(pl.element().is_in(names)).list.any()
    return inside.fill_null(False).to_numpy()


SPLITS: dict[str, Callable[..., Split | list[Split]]] = {
    split.__name__: split
    for split in (holdout, folds, per_user, leave_out, leave_last_out, by_time, time_windows,
                  by_session, cold_users, cold_items, by_attribute, target, given)
}  # fmt: skip
