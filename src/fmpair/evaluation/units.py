"""The units of evaluation: their queries, relevant items and excluded items."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from fmpair.arrays import Rows, distinct_pairs, empty_rows, starts
from fmpair.data import Dataset
from fmpair.data.parts import by_time_order
from fmpair.data.splits import in_domain
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import DataError, OptionError, listing, unknown
from fmpair.evaluation.protocol import Protocol
from fmpair.features.calendar import TIME
from fmpair.ranking.plain import IN_ORDER, UNIFORM, WEIGHTED, Pool, RankingTask
from fmpair.rng import stream

USER, EVENT = "__user__", "__event__"  # columns beside those of the context, which have any name


@dataclass(frozen=True, eq=False)
class Units:
    """row: int64 [units], the test event a unit is first seen in; user: int64 [units], by `users`.

    task: the lists, items numbered as in training. queries: the events that ask, one per query.
    """

    row: np.ndarray
    user: np.ndarray
    users: Vocabulary
    task: RankingTask
    queries: Dataset


@dataclass(frozen=True, eq=False)
class _Events:
    """Training and test events over one numbering; a test item that training lacks is -1."""

    train: Dataset
    test: Dataset
    users: Vocabulary
    train_user: np.ndarray
    user: np.ndarray
    item: np.ndarray


def units_of(train: Dataset, test: Dataset, protocol: Protocol, timed: bool = False) -> Units:
    """The units of the test events, in order of their query, then of the events.

    timed: an interaction is asked about at its own time; a user, or a user in a context, is asked
    about at the time of the first of their events.
    """
    events = _together(train, test)
    by_time = timed and protocol.unit == "interaction" and TIME in test.columns.columns
    names = [*test.context, *([TIME] if by_time else [])]
    alone = protocol.unit == "user" or not names
    query = events.user if alone else _numbered(events.user, test.columns.select(names))
    group = np.arange(len(test)) if protocol.unit == "interaction" else query
    kept, gain = _relevant(events, protocol, group)
    if not len(kept):
        raise DataError(
            "no test event is relevant under this protocol: there is nothing to evaluate"
        )
    _, first, unit = np.unique(group[kept], return_index=True, return_inverse=True)
    order = np.lexsort((first, query[kept[first]]))
    row, unit = kept[first[order]], np.argsort(order)[unit]
    entry = np.argsort(unit, kind="stable")
    relevant = Rows(starts(np.bincount(unit)), events.item[kept[entry]], gain[entry])
    hidden, owner = _hidden(events, protocol)
    _, place, number = np.unique(query[row], return_index=True, return_inverse=True)
    queries = test.take(row[place])
    if protocol.unit == "user":
        queries = replace(queries, context=(), columns=queries.columns.drop(test.context))
    task = RankingTask(number.astype(np.int64), owner[row], hidden, relevant)
    return Units(row, events.user[row], events.users, task, queries)


def _together(train: Dataset, test: Dataset) -> _Events:
    users = train.users if train.users is test.users else train.users.extend(test.users.ids)
    user = test.user if users is test.users else users.numbers(test.users.ids)[test.user]
    item = test.item
    if train.items is not test.items:
        item = train.items.numbers(test.items.ids)[test.item]
    return _Events(train, test, users, train.user.astype(np.int64), user.astype(np.int64), item)


def _relevant(
    events: _Events, protocol: Protocol, group: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(test events that name a relevant item int64 [kept], how relevant float32 [kept]).

    An item counts once in a unit (group), with the gain of its first event.
    """
    test = events.test
    gain = np.ones(len(test), np.float32)
    if protocol.gain is not None:
        if protocol.gain not in test.columns.columns:
            raise OptionError(unknown("column for gain", protocol.gain, test.columns.columns))
        gain = test.columns[protocol.gain].fill_null(1).to_numpy().astype(np.float32)
    inside = True if protocol.domain is None else in_domain(test, protocol.domain)
    rows = np.flatnonzero((gain > 0) & inside)
    rows = rows[_firsts(group[rows], test.item[rows])]
    if protocol.relevant != "all" and protocol.unit == "interaction":
        rows = rows[_firsts(events.user[rows], test.item[rows])]
    if protocol.relevant in ("new", "next"):
        had = _pairs(events.train_user, events.train.item)
        rows = rows[~np.isin(_pairs(events.user[rows], events.item[rows]), had)]
    if protocol.relevant == "next":
        rows = np.sort(rows[_oldest(events.user[rows], test.take(rows))])
    return rows, gain[rows]


def _oldest(user: np.ndarray, events: Dataset) -> np.ndarray:
    """The places of each user's first event in time; of several at one time the first row's."""
    order = by_time_order(events)
    return order[np.unique(user[order], return_index=True)[1]]


def _hidden(events: _Events, protocol: Protocol) -> tuple[Rows, np.ndarray]:
    """(items that leave the lists, by owner; the owner of each test event int64 [test])."""
    train, known = events.train, events.item >= 0
    if protocol.seen == "none":
        return empty_rows(1), np.zeros(len(events.test), np.int64)
    owner, had = events.user, events.train_user
    if protocol.seen == "context" and events.test.context:
        had, owner = _situations(events)
    item, count = train.item, int(max(had.max(initial=0), owner.max(initial=0))) + 1
    if protocol.seen == "train+test":
        had = np.concatenate([had, owner[known]])
        item = np.concatenate([item, events.item[known]])
    return distinct_pairs(had, item, count), owner


def _situations(events: _Events) -> tuple[np.ndarray, np.ndarray]:
    """The number of each training and of each test event's user in context."""
    context = list(events.test.context)
    missing = [name for name in context if name not in events.train.columns.columns]
    if missing:
        raise DataError(unknown("context of the training events", missing[0], events.train.context))
    both = pl.concat(
        [events.train.columns.select(context), events.test.columns.select(context)],
        how="vertical_relaxed",
    )
    number = _numbered(np.concatenate([events.train_user, events.user]), both)
    return number[: len(events.train)], number[len(events.train) :]


def _numbered(user: np.ndarray, context: pl.DataFrame) -> np.ndarray:
    """int64 [events]: the first event with the same user and context, which stands for them."""
    frame = context.with_columns(pl.Series(USER, user))
    names = frame.columns
    firsts = frame.with_row_index(EVENT).select(pl.col(EVENT).first().over(names))
    return firsts[EVENT].to_numpy().astype(np.int64)


def _firsts(owner: np.ndarray, item: np.ndarray) -> np.ndarray:
    """The places of the first of each pair, ascending."""
    return np.sort(np.unique(_pairs(owner, item), return_index=True)[1])


def _pairs(owner: np.ndarray, item: np.ndarray) -> np.ndarray:
    """int64: one number per pair."""
    return (owner.astype(np.int64) << 32) | item


# The candidates that the relevant items are ranked among.


KINDS = {"uniform": UNIFORM, "popularity": WEIGHTED, "first": IN_ORDER}


def candidates_of(
    train: Dataset, test: Dataset, protocol: Protocol, units: Units
) -> Pool | np.ndarray:
    """bool [items] where lists are whole, else what to draw from."""
    found = _candidates(train, test, protocol, units)
    if not any(_has_a_rival(found, units, unit) for unit in range(len(units.row))):
        raise DataError(
            f"under {protocol.id} every list holds its relevant items and nothing else: any model "
            "would be perfect; give candidates that are not relevant"
        )
    return found


def _candidates(
    train: Dataset, test: Dataset, protocol: Protocol, units: Units
) -> Pool | np.ndarray:
    allowed = _of_domain(train, test, protocol.domain)
    if protocol.candidates == "all":
        return allowed
    if protocol.candidates == "file":
        return _from_file(train, protocol, units, allowed)
    times = np.bincount(train.item, minlength=len(train.items))
    if protocol.candidates == "train":
        return (times > 0) & allowed
    # In order of first appearance, which is what 'first' is about.
    order = train.item[np.sort(np.unique(train.item, return_index=True)[1])]
    order = order[allowed[order]]
    pool = Rows(
        starts(np.array([len(order)])), order.astype(np.int32), np.ones(len(order), np.float32)
    )
    return Pool(
        np.zeros(len(units.row), np.int64),
        pool,
        times.astype(np.float64),
        KINDS[protocol.candidates],
        min(protocol.n, len(order)),
        np.uint64(stream(protocol.seed)),
    )


def _has_a_rival(candidates: Pool | np.ndarray, units: Units, unit: int) -> bool:
    """Whether a unit's list has an item beside those that are relevant."""
    if isinstance(candidates, Pool):
        rows, row = candidates.items, candidates.row[unit]
        listed = rows.column[rows.start[row] : rows.start[row + 1]]
    else:
        listed = np.flatnonzero(candidates)
    task = units.task
    gone = [
        part.column[part.start[number] : part.start[number + 1]]
        for part, number in ((task.relevant, unit), (task.hidden, task.owner[unit]))
    ]
    return bool((~np.isin(listed, np.concatenate(gone))).any())


def _of_domain(train: Dataset, test: Dataset, domain: str | None) -> np.ndarray:
    """bool [items]: those with an event of the domain, in training or test; all without one."""
    if domain is None:
        return np.ones(len(train.items), bool)
    number = train.items.numbers(test.items.ids)
    item = np.concatenate(
        [train.item[in_domain(train, domain)], number[test.item[in_domain(test, domain)]]]
    )
    return np.isin(np.arange(len(train.items)), item)


def _from_file(
    train: Dataset, protocol: Protocol, units: Units, allowed: np.ndarray
) -> Pool | np.ndarray:
    frame = protocol.listed
    item = train.items.numbers(frame["item"])
    item = np.where((item >= 0) & allowed[item], item, -1)
    if not (item >= 0).any():
        raise DataError("none of the items to rank is an item of the training data")
    if "user" not in frame.columns:
        return np.isin(np.arange(len(train.items)), item)
    user = units.users.numbers(frame["user"])
    known = (item >= 0) & (user >= 0)
    rows = distinct_pairs(user[known], item[known], len(units.users))
    asked = np.unique(units.user)
    without = asked[~np.isin(asked, user)]
    if len(without):
        raise DataError(
            f"{len(without)} of {len(asked)} users of test events have no item to rank, such as "
            f"{listing(units.users.take(without[:1]))}: give each their own"
        )
    longest = int(np.diff(rows.start).max(initial=0))
    weight = np.zeros(len(train.items))
    return Pool(units.user, rows, weight, IN_ORDER, longest, np.uint64(0))
