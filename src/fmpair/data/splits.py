"""Training, validation and test sets: seeded, and always a partition of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.capacity import check_memory
from fmpair.data.dataset import Dataset
from fmpair.data.parts import (
    Split,
    border,
    by_time_order,
    check_shares,
    cut,
    hash_of,
    load,
    moments_of_all,
    save,
    split_of,
)
from fmpair.data.times import parse_times
from fmpair.errors import DataError, OptionError, UnknownError, named, unknown
from fmpair.threads import check_process

# What is known of an event, its context, its user, its item, and splits by it.


def by_attribute(
    data: Dataset, column: str, test: Iterable[Any], validation: Iterable[Any] = ()
) -> Split:
    """Events with one of the values of `test` in the column for testing, and so for validation.

    column: of the events, else of the user or item table; user.NAME and item.NAME say which. An
    event whose cell is a list counts where any member does. Values are compared as text.
    """
    values = _column(data, column)
    tested, validated = (_has(values, wanted) for wanted in (test, validation))
    if (tested & validated).any():
        raise OptionError(f"some events of column {column!r} would both validate and test")
    trained = ~tested & ~validated
    if not (trained.any() and tested.any()):
        raise DataError(f"a split by {column!r} would leave nothing to train or to test on")
    return split_of(*(np.flatnonzero(part) for part in (trained, validated, tested)))


def in_domain(data: Dataset, domain: str) -> np.ndarray:
    """bool [events]: whether the event is of the domain."""
    if "domain" not in data.columns.columns:
        raise DataError(f"the data have no domains: name their column with {named('domain', ...)}")
    return _has(data.columns["domain"], domain)


def _column(data: Dataset, name: str) -> pl.Series:
    """The column, one cell per event."""
    places = {own: (data.columns[own], np.arange(len(data))) for own in data.columns.columns}
    for role, table, number in (
        ("user", data.user_table, data.user),
        ("item", data.item_table, data.item),
    ):
        for own in table.columns:
            places.setdefault(own, (table[own], number))
            places[f"{role}.{own}"] = (table[own], number)
    if name not in places:
        raise UnknownError(unknown("column", name, places))
    values, number = places[name]
    return values.gather(number)


def _has(values: pl.Series, wanted: Any) -> np.ndarray:
    """bool [events]: whether the cell is, or holds, one of the values."""
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


# Splits within each user's history: a share of it, its last events, or some at random.


ORDERS = ("random", "time")


class Histories(NamedTuple):
    """All rows, those of one user together; int64 [events] each.

    row: the rows; later: how many of the owner's rows come after this one; events: how many rows
    the owner has.
    """

    row: np.ndarray
    later: np.ndarray
    events: np.ndarray


def per_user(
    data: Dataset,
    test: float = 0.2,
    validation: float = 0.0,
    seed: int = 0,
    order: str = "random",
) -> Split:
    """A share of each user's events for testing, and one for validation.

    order: 'random', or 'time' for each user's latest, where the order of events of one time is
    drawn by the seed. Shares are rounded, and at least one event of every user stays in training;
    so a user with one event is in the training set only.
    """
    check_shares(test, validation)
    if order not in ORDERS:
        raise OptionError(f"order must be one of {', '.join(ORDERS)}, not {order!r}")
    own = histories(
        data.user, by_time_order(data, seed) if order == "time" else shuffled(data, seed)
    )
    tested = np.minimum(np.rint(test * own.events), own.events - 1)
    validated = np.minimum(np.rint(validation * own.events), own.events - 1 - tested)
    if not tested.any():
        raise DataError(f"no user has enough events to set aside {test} of them for testing")
    return _last(own, tested, validated)


def leave_last_out(data: Dataset, count: int = 1, validation: int = 0, seed: int = 0) -> Split:
    """Each user's latest `count` events for testing, and the `validation` before them.

    A user with no more than count + validation events is in the training set only. Which of
    several events of one time is the later is drawn by the seed: the order of rows may follow
    the rating or the item.
    """
    return _leave(data, by_time_order(data, seed), count, validation)


def leave_out(data: Dataset, count: int = 1, validation: int = 0, seed: int = 0) -> Split:
    """`count` random events of each user for testing, and `validation` others.

    A user with no more than count + validation events is in the training set only.
    """
    return _leave(data, shuffled(data, seed), count, validation)


def histories(owner: np.ndarray, order: np.ndarray) -> Histories:
    """The rows by owner, each owner's in the given order."""
    row = order[np.argsort(owner[order], kind="stable")]
    own = owner[row]
    times = np.bincount(own)
    return Histories(row, np.cumsum(times)[own] - 1 - np.arange(len(own)), times[own])


def shuffled(data: Dataset, seed: int) -> np.ndarray:
    """int64 [events]: all rows in random order."""
    return np.random.default_rng(seed).permutation(len(data))


def _leave(data: Dataset, order: np.ndarray, count: int, validation: int) -> Split:
    if count < 1 or validation < 0:
        raise OptionError(
            f"count must be 1 or more and validation 0 or more, not {count} and {validation}"
        )
    own = histories(data.user, order)
    enough = own.events > count + validation
    return _last(own, enough * count, enough * validation)


def _last(own: Histories, tested: np.ndarray, validated: np.ndarray) -> Split:
    """Each owner's last `tested` rows test, the `validated` before them validate."""
    test = own.later < tested
    validation = ~test & (own.later < tested + validated)
    return split_of(own.row[~test & ~validation], own.row[validation], own.row[test])


# Cold-start splits: test users or items with few training events, or none.


def cold_users(
    data: Dataset, test: float = 0.2, validation: float = 0.0, seed: int = 0, given: int = 0
) -> Split:
    """All events of a random share of the users for testing, and of others for validation.

    given: how many of such a user's first events (by time, ties by the seed, else by row) stay in
    training; users with no more events than that are in the training set only.
    """
    return _cold(data, data.user, "users", (test, validation), seed, given)


def cold_items(
    data: Dataset, test: float = 0.2, validation: float = 0.0, seed: int = 0, given: int = 0
) -> Split:
    """The same for items: test items have their first `given` events in training, or none."""
    return _cold(data, data.item, "items", (test, validation), seed, given)


def _cold(
    data: Dataset, owner: np.ndarray, what: str, shares: tuple[float, float], seed: int, given: int
) -> Split:
    test, validation = shares
    check_shares(test, validation)
    if given < 0:
        raise OptionError(f"given must be 0 or more, not {given}")
    times = np.bincount(owner)
    able = np.random.default_rng(seed).permutation(np.flatnonzero(times > given))
    tested, validated = (round(share * (times > 0).sum()) for share in shares)
    if not tested or tested + validated > len(able) - (given == 0):
        raise DataError(
            f"{len(able)} {what} with more than {given} events are too few to test {tested} and "
            f"validate {validated} of them"
        )
    part = np.zeros(len(times), np.int8)
    part[able[:tested]] = 2
    part[able[tested : tested + validated]] = 1
    timed = "timestamp" in data.columns.columns
    own = histories(owner, by_time_order(data, seed) if timed else np.arange(len(data)))
    place = own.events - 1 - own.later
    of = np.where(place < given, 0, part[owner[own.row]])
    return split_of(*(own.row[of == number] for number in range(3)))


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
