"""Histories of test events: the user's earlier events, in the test part and in training.

Under the protocols of sessions and of one cut in time, every test event has its own history.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.arrays import Rows, starts
from fmpair.checks import check_memory
from fmpair.data import Dataset
from fmpair.data.parts import required_moments
from fmpair.data.split_leakage import comparable_times
from fmpair.data.times import DAY
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import DataError, named
from fmpair.features.field import duration
from fmpair.fitted.history import most_recent
from fmpair.fitted.query_encoder import SINCE
from fmpair.fitted.question import COLUMN
from fmpair.fitted.ranker import Follows, Ranker, ScoresHistories
from fmpair.fitted.recommender import Recommender

EVENT = "__event__"  # no column of the test events may clash with it
HISTORY_BYTES = 48  # an entry of a history, as numbers and as an id in a list


class Memory(NamedTuple):
    """Which earlier events a model gets with a query.

    whole: whether training events are included, for a model whose given history replaces what it
    knows of a user. last: how many of the latest; within: at most this many microseconds before;
    per: only those with the same value in this column; None: no limit. since: whether the model
    uses the time since the last event.
    """

    whole: bool = True
    last: int | None = None
    within: int | None = None
    per: str | None = None
    since: bool = False


ALL = Memory()


def memory_of(model: Any) -> Memory | None:
    """Return which part of a history a model or function uses; None if it uses none."""
    if isinstance(model, Recommender):
        space = model.space
        field = space.history
        if field is None:  # the history moves the vector that the user has
            return Memory(whole=False, since=space.since)
        within = None if field.within is None else duration(field.within)
        return Memory(True, most_recent(space), within, field.per, space.since)
    if isinstance(model, Ranker):
        if isinstance(model.scorer, Follows):
            return Memory(last=getattr(model.scorer, "follows_last", None))
        return Memory(whole=False) if isinstance(model.scorer, ScoresHistories) else None
    return ALL


@dataclass(frozen=True, eq=False)
class NumberedEvents:
    """Training and test events under one numbering; -1 for test items without training events."""

    train: Dataset
    test: Dataset
    users: Vocabulary
    train_user: np.ndarray
    user: np.ndarray
    item: np.ndarray

    @property
    def known(self) -> np.ndarray:
        """bool [test]: whether the item has training events."""
        return (self.item >= 0) & np.isin(self.item, self.train.item)


class Earlier(NamedTuple):
    """items: per event its earlier items, oldest first; days: since the last one, NaN if none."""

    items: Rows
    days: np.ndarray


def in_session(events: NumberedEvents) -> Rows:
    """Return per test event the items of its user's earlier test events, oldest first.

    Events of items without training events have no history and are in none. Rows of one time keep
    their order.
    """
    shared = np.intersect1d(events.train_user, events.user)
    if len(shared):
        raise DataError(
            f"{len(shared):,} of {len(np.unique(events.user)):,} test users have training events: "
            f"{named('history', 'test')} is for sessions that only the test has; split with "
            "by_session"
        )
    known = events.known
    owner = np.where(known, events.user, -1)
    return _before(owner, events.item, required_moments(events.test), known, strict=False).items


def before_each(events: NumberedEvents, memory: Memory, rows: np.ndarray | None = None) -> Earlier:
    """Return the earlier events of each test event's user, limited to those the model uses.

    rows: the test events that need a history, None for all. Items without training events are in
    no history.
    """
    train, test = events.train, events.test
    moment = _moments(train, test)
    user = np.concatenate([events.train_user, events.user])
    item = np.concatenate([train.item, events.item]).astype(np.int32)
    in_history = np.concatenate([np.full(len(train), memory.whole), events.known])
    wanted = np.zeros(len(user), bool)
    wanted[len(train) :] = True if rows is None else np.isin(np.arange(len(test)), rows)
    owner = user
    if memory.per is not None and memory.per in train.columns.columns:
        visit = pl.concat([part.columns[memory.per].cast(pl.String) for part in (train, test)])
        owner = np.unique(
            user << 32 | visit.fill_null("").rank("dense").to_numpy(), return_inverse=True
        )[1]
    before = _before(owner, item, moment, in_history, wanted=wanted, memory=memory)
    days = before.days
    if memory.since and memory.per is not None:  # since the last event of any session
        days = _before(user, item, moment, in_history, memory=Memory(last=0)).days
    start = before.items.start[len(train) :]
    return Earlier(Rows(start, before.items.column, before.items.value), days[len(train) :])


def _before(
    owner: np.ndarray,
    item: np.ndarray,
    moment: np.ndarray,
    in_history: np.ndarray,
    strict: bool = True,
    wanted: np.ndarray | None = None,
    memory: Memory = ALL,
) -> Earlier:
    """Return the items of each event's owner before it.

    in_history: bool, the events that histories may have. strict: events of one time do not precede
    each other. wanted: bool, the events that need a history.
    """
    count = len(owner)
    order = np.lexsort((moment, owner))
    owner, moment = owner[order], moment[order]
    position = np.arange(count)
    opens = np.diff(owner, prepend=-2) != 0
    first = np.maximum.accumulate(np.where(opens, position, 0))
    until = position
    if strict:
        new = opens | (np.diff(moment, prepend=0) != 0)
        until = np.maximum.accumulate(np.where(new, position, 0))
    days = np.full(count, np.nan)
    some = until > first
    days[order[some]] = (moment[some] - moment[until[some] - 1]) / DAY
    if memory.within is not None:
        first = _since(np.cumsum(opens), moment, memory.within)
    # Events that histories may have, before each position.
    count_before = np.concatenate([[0], np.cumsum(in_history[order])])
    begin, end = count_before[first], count_before[until]
    if memory.last is not None:
        begin = np.maximum(begin, end - memory.last)
    lengths, from_ = np.zeros(count, np.int64), np.zeros(count, np.int64)
    lengths[order], from_[order] = end - begin, begin
    lengths = lengths if wanted is None else np.where(wanted, lengths, 0)
    start = starts(lengths)
    size = f"{count:,} events"
    check_memory("evaluating", size, HISTORY_BYTES * int(start[-1]), None, "test fewer events")
    entries = np.repeat(from_ - start[:-1], lengths) + np.arange(start[-1])
    column = item[order][in_history[order]][entries]
    return Earlier(Rows(start, column, np.ones(start[-1], np.float32)), days)


def _since(owner: np.ndarray, moment: np.ndarray, within: int) -> np.ndarray:
    """Return the owner's first position at most `within` earlier: int64 [n]; both ascending."""
    times, rank = np.unique(moment, return_inverse=True)
    oldest = np.searchsorted(times, moment - within)
    return np.searchsorted(owner * len(times) + rank, owner * len(times) + oldest)


def _moments(train: Dataset, test: Dataset) -> np.ndarray:
    """Return the times of training and test events together; a test file in order comes second."""
    first, second = required_moments(train), required_moments(test)
    if not comparable_times(train, test):
        if train.order is None or test.order is None:
            raise DataError(
                "timestamps of training and test events cannot be compared: one has dates, the "
                "other numbers"
            )
        second = second - second.min(initial=0) + first.max(initial=0) + 1
    return np.concatenate([first, second])


def with_histories(
    queries: Dataset, history: Rows, days: np.ndarray | None, items: Vocabulary
) -> Dataset:
    """Return the queries with a column of lists of items, and of days since the last if given."""
    if COLUMN in queries.columns.columns:
        raise DataError(f"the test events have a column {COLUMN!r} already: rename it")
    ids = pl.DataFrame({EVENT: history.owner, COLUMN: items.take(history.column)})
    lists = ids.group_by(EVENT, maintain_order=True).agg(COLUMN)
    every = pl.DataFrame({EVENT: np.arange(history.size)})
    column = every.join(lists, on=EVENT, how="left", maintain_order="left")[COLUMN]
    columns = queries.columns.with_columns(column.fill_null([]))
    if days is not None:
        columns = columns.with_columns(pl.Series(SINCE, days).fill_nan(None))
    return replace(queries, columns=columns)
