"""Units of evaluation: their queries, relevant items, excluded items and candidates."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from fmpair.arrays import Rows, distinct_pairs, empty_rows, starts
from fmpair.data import Dataset
from fmpair.data.parts import by_time_order
from fmpair.data.splits import in_domain
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import DataError, OptionError, listing, named, unknown
from fmpair.evaluation.earlier_events import (
    ALL,
    Memory,
    NumberedEvents,
    before_each,
    in_session,
    with_histories,
)
from fmpair.evaluation.protocol import Protocol
from fmpair.features.calendar import TIME
from fmpair.ranking.plain import IN_ORDER, UNIFORM, WEIGHTED, Pool, RankingTask
from fmpair.rng import stream

USER, EVENT = "__user__", "__event__"  # no context column may clash with these
SAMPLING = {"uniform": UNIFORM, "popularity": WEIGHTED, "first": IN_ORDER}


@dataclass(frozen=True, eq=False)
class Units:
    """The units of an evaluation.

    row: int64 [units], the first test event of a unit; user: int64 [units], numbers in `users`.
    task: the lists, items numbered as in training. queries: one event per query.
    """

    row: np.ndarray
    user: np.ndarray
    users: Vocabulary
    task: RankingTask
    queries: Dataset


def units_of(
    train: Dataset,
    test: Dataset,
    protocol: Protocol,
    timed: bool = False,
    memory: Memory | None = ALL,
) -> Units:
    """Return the units of the test events, ordered by query, then by event.

    timed: the model uses time. An interaction is ranked at its own time; a user, or a user in a
    context, at the time of their first event. memory: which part of a history the model uses.
    """
    events = _numbered_together(train, test)
    by_time = timed and protocol.unit == "interaction" and TIME in test.columns.columns
    names = list(dict.fromkeys([*test.context, *([TIME] if by_time else [])]))
    plain = protocol.unit == "user" or not names
    query = events.user if plain else _first_of_group(events.user, test.columns.select(names))
    session = in_session(events) if protocol.history == "test" else None
    if protocol.history != "train":
        query = np.arange(len(test))
    group = np.arange(len(test)) if protocol.unit == "interaction" else query
    chosen, gain = _relevant(events, protocol, group, session)
    if not len(chosen):
        raise DataError(_nothing_relevant(protocol))
    _, first, unit = np.unique(group[chosen], return_index=True, return_inverse=True)
    order = np.lexsort((first, query[chosen[first]]))
    row, unit = chosen[first[order]], np.argsort(order)[unit]
    entry = np.argsort(unit, kind="stable")
    relevant = Rows(starts(np.bincount(unit)), events.item[chosen[entry]], gain[entry])
    hidden, owner = _hidden(events, protocol, chosen)
    _, first, number = np.unique(query[row], return_index=True, return_inverse=True)
    queries = test.take(row[first])
    if protocol.unit == "user":
        queries = replace(queries, context=(), columns=queries.columns.drop(test.context))
    if session is not None:
        queries = with_histories(queries, session.take(row[first]), None, train.items)
    elif protocol.history == "known" and memory is not None:
        earlier = before_each(events, memory, row[first])
        days = earlier.days[row[first]] if memory.since else None
        queries = with_histories(queries, earlier.items.take(row[first]), days, train.items)
    task = RankingTask(number.astype(np.int64), owner[row], hidden, relevant)
    return Units(row, events.user[row], events.users, task, queries)


def _numbered_together(train: Dataset, test: Dataset) -> NumberedEvents:
    users = train.users if train.users is test.users else train.users.extend(test.users.ids)
    user = test.user if users is test.users else users.numbers(test.users.ids)[test.user]
    item = test.item
    if train.items is not test.items:
        item = train.items.numbers(test.items.ids)[test.item]
    return NumberedEvents(
        train, test, users, train.user.astype(np.int64), user.astype(np.int64), item
    )


def _relevant(
    events: NumberedEvents, protocol: Protocol, group: np.ndarray, earlier: Rows | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return (rows of the relevant test events int64 [n], their gains float32 [n]).

    earlier: per test event the items before it in its session; a relevant event has some. An item
    counts once per unit (group), with the gain of its first event.
    """
    test = events.test
    gain = np.ones(len(test), np.float32)
    if protocol.gain is not None:
        if protocol.gain not in test.columns.columns:
            raise OptionError(unknown("column for gain", protocol.gain, test.columns.columns))
        gain = test.columns[protocol.gain].fill_null(1).to_numpy().astype(np.float32)
    inside = True if protocol.domain is None else in_domain(test, protocol.domain)
    has_history = True if earlier is None else np.diff(earlier.start) > 0
    rows = np.flatnonzero((gain > 0) & inside & has_history)
    rows = rows[_first_rows_of_pairs(group[rows], test.item[rows])]
    if protocol.relevant in ("warm", "cold"):
        warm = np.isin(events.item[rows], events.train.item)
        rows = rows[warm if protocol.relevant == "warm" else ~warm]
    elif protocol.relevant != "all" and protocol.unit == "interaction":
        rows = rows[_first_rows_of_pairs(events.user[rows], test.item[rows])]
    if protocol.relevant in ("new", "next"):
        trained = _pair_numbers(events.train_user, events.train.item)
        rows = rows[~np.isin(_pair_numbers(events.user[rows], events.item[rows]), trained)]
    if protocol.relevant == "next" or protocol.targets != "all":
        last = protocol.targets == "last" and protocol.relevant != "next"
        rows = np.sort(rows[_one_each(events.user[rows], test.take(rows), last)])
    return rows, gain[rows]


def _nothing_relevant(protocol: Protocol) -> str:
    if protocol.relevant == "cold":
        return "every item of the test events has training events: split by cold_items or by_time"
    return "no test event is relevant under this protocol"


def _one_each(user: np.ndarray, events: Dataset, last: bool) -> np.ndarray:
    """Return the row of each user's earliest or last event; the first or last row of ties."""
    order = by_time_order(events)
    order = order[::-1] if last else order
    return order[np.unique(user[order], return_index=True)[1]]


def _hidden(
    events: NumberedEvents, protocol: Protocol, relevant: np.ndarray
) -> tuple[Rows, np.ndarray]:
    """Return excluded items by owner, and the owner of each test event, int64 [test].

    relevant: rows of the relevant events; the others need no owner.
    """
    train, known = events.train, events.item >= 0
    if protocol.seen == "none":
        return empty_rows(1), np.zeros(len(events.test), np.int64)
    if protocol.seen == "earlier":
        items = before_each(events, ALL, relevant).items.take(relevant)
        owner = np.zeros(len(events.test), np.int64)
        owner[relevant] = np.arange(len(relevant))
        return distinct_pairs(items.owner, items.column, len(relevant)), owner
    owner, train_owner = events.user, events.train_user
    if protocol.seen == "context" and events.test.context:
        train_owner, owner = _users_in_context(events)
    item, count = train.item, int(max(train_owner.max(initial=0), owner.max(initial=0))) + 1
    if protocol.seen == "train+test":
        train_owner = np.concatenate([train_owner, owner[known]])
        item = np.concatenate([item, events.item[known]])
    return distinct_pairs(train_owner, item, count), owner


def _users_in_context(events: NumberedEvents) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of the (user, context) pair of each training and each test event."""
    context = list(events.test.context)
    missing = [name for name in context if name not in events.train.columns.columns]
    if missing:
        raise DataError(unknown("context of the training events", missing[0], events.train.context))
    both = pl.concat(
        [events.train.columns.select(context), events.test.columns.select(context)],
        how="vertical_relaxed",
    )
    number = _first_of_group(np.concatenate([events.train_user, events.user]), both)
    return number[: len(events.train)], number[len(events.train) :]


def _first_of_group(user: np.ndarray, context: pl.DataFrame) -> np.ndarray:
    """Return int64 [events]: the first event with the same user and context."""
    frame = context.with_columns(pl.Series(USER, user))
    names = frame.columns
    firsts = frame.with_row_index(EVENT).select(pl.col(EVENT).first().over(names))
    return firsts[EVENT].to_numpy().astype(np.int64)


def _first_rows_of_pairs(owner: np.ndarray, item: np.ndarray) -> np.ndarray:
    return np.sort(np.unique(_pair_numbers(owner, item), return_index=True)[1])


def _pair_numbers(owner: np.ndarray, item: np.ndarray) -> np.ndarray:
    """Encode each pair as one int64."""
    return (owner.astype(np.int64) << 32) | item


def candidates_of(
    train: Dataset, test: Dataset, protocol: Protocol, units: Units
) -> Pool | np.ndarray:
    """Return the candidates: bool [items] for full ranking, else a Pool to draw from."""
    candidates = _candidates(train, test, protocol, units)
    every = range(len(units.row))
    if not any(_has_other_items(candidates, units, unit) for unit in every):
        if any(_has_other_items(candidates, units, unit, hidden=False) for unit in every):
            raise DataError(
                "nothing is left to rank: every user of the test events has interacted with all "
                f"other items; {named('seen', 'none')} ranks seen items too"
            )
        raise DataError(
            f"under {protocol.id} every list has only relevant items, so any model would be "
            "perfect: add candidates that are not relevant"
        )
    return candidates


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
    if protocol.candidates == "cold":
        tested = train.items.numbers(test.items.ids)[test.item]
        return (times == 0) & np.isin(np.arange(len(times)), tested) & allowed
    # Items in order of first appearance, which 'first' needs.
    order = train.item[np.sort(np.unique(train.item, return_index=True)[1])]
    order = order[allowed[order]]
    pool = Rows(
        starts(np.array([len(order)])), order.astype(np.int32), np.ones(len(order), np.float32)
    )
    return Pool(
        np.zeros(len(units.row), np.int64),
        pool,
        times.astype(np.float64),
        SAMPLING[protocol.candidates],
        min(protocol.n, len(order)),
        np.uint64(stream(protocol.seed)),
    )


def _has_other_items(
    candidates: Pool | np.ndarray, units: Units, unit: int, hidden: bool = True
) -> bool:
    """Return whether a unit's list has an item that is not relevant; hidden: without seen ones."""
    if isinstance(candidates, Pool):
        rows, row = candidates.items, candidates.row[unit]
        listed = rows.column[rows.start[row] : rows.start[row + 1]]
    else:
        listed = np.flatnonzero(candidates)
    task = units.task
    removed = [
        part.column[part.start[number] : part.start[number + 1]]
        for part, number in ((task.relevant, unit), (task.hidden, task.owner[unit]))
        if hidden or part is task.relevant
    ]
    return bool((~np.isin(listed, np.concatenate(removed))).any())


def _of_domain(train: Dataset, test: Dataset, domain: str | None) -> np.ndarray:
    """Return bool [items]: items with an event of the domain in training or test; all for None."""
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
        raise DataError("no item of the candidates is in the training data")
    if "user" not in frame.columns:
        return np.isin(np.arange(len(train.items)), item)
    user = units.users.numbers(frame["user"])
    known = (item >= 0) & (user >= 0)
    rows = distinct_pairs(user[known], item[known], len(units.users))
    users = np.unique(units.user)
    without = users[~np.isin(users, user)]
    if len(without):
        raise DataError(
            f"{len(without)} of {len(users)} users of test events have no candidates, such as "
            f"{listing(units.users.take(without[:1]))}: give candidates for every user"
        )
    longest = int(np.diff(rows.start).max(initial=0))
    weight = np.zeros(len(train.items))
    return Pool(units.user, rows, weight, IN_ORDER, longest, np.uint64(0))
