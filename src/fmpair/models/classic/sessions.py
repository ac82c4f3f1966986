"""Session models: V-SKNN, by the most similar sessions, and a Markov chain, by the last item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl

from fmpair import checks
from fmpair.arrays import (
    Rows,
    add_repeats,
    distinct_pairs,
    empty_rows,
    group_rows,
    join_rows,
    ordered_rows,
    pieces,
    starts,
    tally,
)
from fmpair.checks import check_memory
from fmpair.data import Dataset, as_dataset
from fmpair.data.parts import user_timelines
from fmpair.data.times import Timelines, strictly_before
from fmpair.errors import DataError
from fmpair.features import FeatureSpace
from fmpair.fitted.file_checks import Moments, Places, Starts, Table, check, refuse_overflow
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recipe import Recipe
from fmpair.fitted.scorers import MarkovScorer, last_items

DECAYS = ("none", "linear", "log", "harmonic")
LARGEST_WEIGHT = 2.0  # upper bound of an item's weight under any decay
PAIRS_AT_ONCE = 1 << 21  # pairs of query and session at a time: 80 MB of working memory


@dataclass(frozen=True)
class VSKNN(Recipe):
    """V-SKNN: ranks the items of the k sessions most similar to the current one.

    A session is all events of a user; for anonymous visitors, name the session column as the user.
    k: neighbours of a session.
    sample: choose the neighbours among this many sessions, the latest that share an item.
    decay: how the weight of an item in the similarity falls with its age, the number of later items
        in the session: none, linear (1 - age / length), log (1 / ln(age + 1.7)) or harmonic
        (1 / (age + 1)).
    match_decay: how the weight of a neighbour falls with the age of the last shared item, as decay.
    idf: weight of rare items: scores are multiplied by 1 + idf * ln(sessions / sessions with the
        item).
    """

    k: int = 200
    sample: int = 1000
    decay: str = "log"
    match_decay: str = "harmonic"
    idf: float = 1.0

    def __post_init__(self) -> None:
        checks.whole("k", self.k, 1)
        checks.whole("sample", self.sample, 1)
        checks.one_of("decay", self.decay, DECAYS)
        checks.one_of("match_decay", self.match_decay, DECAYS)
        checks.not_negative("idf", self.idf)

    def fit(self, data: Any) -> Ranker:
        events = as_dataset(data)
        if not len(events):
            raise DataError("there are no events to learn from")
        lines = user_timelines(events)
        filled = np.diff(lines.start) > 0
        ended = np.zeros(lines.users, np.int64)
        ended[filled] = lines.moment[lines.start[1:][filled] - 1]
        known = Sessions(self, _item_sequences(lines), ended, len(events.items))
        return Ranker.of(self, events, SessionNeighbours(known, empty_rows(lines.users)))

    def restore(
        self, arrays: Mapping[str, np.ndarray], space: FeatureSpace, seen: Rows
    ) -> SessionNeighbours:
        users, items = len(space.users), len(space.items)
        parts = {**_sequences("own", users, items), **_sequences("more", users, items)}
        checked = check(arrays, {**parts, "ended": Moments((users,))})
        training, more = (
            _ones(checked[f"{name}.start"], checked[f"{name}.column"]) for name in ("own", "more")
        )
        rarest = 1 + self.idf * np.log(users + 1)
        refuse_overflow(self.k * items * LARGEST_WEIGHT**2 * rarest)
        return SessionNeighbours(Sessions(self, training, checked["ended"], items), more)


@dataclass(frozen=True, eq=False)
class Sessions:
    """The sessions to compare with, and what is computed from them once.

    training: the items of each training session, oldest first; ended: int64 [sessions], when its
    last event was; items: the number of items.
    """

    options: VSKNN
    training: Rows
    ended: np.ndarray
    items: int

    @cached_property
    def distinct(self) -> Rows:
        """The distinct items of the sessions, the earliest session first."""
        ordered = self.training.take(np.argsort(self.ended, kind="stable"))
        return distinct_pairs(ordered.owner, ordered.column, ordered.size)

    @cached_property
    def latest(self) -> Rows:
        """Per item the latest sessions with it, at most `sample`: no other can be a neighbour."""
        by_item = group_rows(self.distinct.column, self.distinct.owner, self.items)
        return _last_entries(by_item, self.options.sample)

    @cached_property
    def share(self) -> np.ndarray:
        """float64 [items]: the share of the sessions that have an item, 0 for none."""
        filled = int((np.diff(self.distinct.start) > 0).sum())
        return tally(self.distinct.column, self.items) / max(filled, 1)

    @cached_property
    def rarity(self) -> np.ndarray:
        """float64 [items]: what the score of an item is multiplied by, 1 or more."""
        return 1 - self.options.idf * np.log(np.where(self.share > 0, self.share, 1))


@dataclass(frozen=True, eq=False)
class SessionNeighbours:
    """score(s, i) = sum over the neighbours n of s that have i of
    similarity(s, n) * match(s, n) * (1 + idf * ln(sessions / sessions with i)).

    similarity: the sum of the weights of the items that s shares with n; match: the weight of the
    last of these. An item of no neighbour scores the share of sessions with it, minus 1, so that
    popular items follow at the end of a list.
    known: the training sessions; more: the events of their users since.
    """

    known: Sessions
    more: Rows
    scores_unknown_users: ClassVar[bool] = False

    def scores(self, users: np.ndarray, context: pl.DataFrame) -> np.ndarray:
        return self.following(join_rows([self.known.training.take(users), self.more.take(users)]))

    def following(self, history: Rows) -> np.ndarray:
        """Return float32 [n, items] for the items of n sessions, oldest first, repeats allowed."""
        out = np.empty((history.size, self.known.items), np.float32)
        pairs = starts(np.diff(self.known.latest.start)[history.column])[history.start]
        first = 0
        while first < history.size:
            last = int(np.searchsorted(pairs, pairs[first] + PAIRS_AT_ONCE, "right")) - 1
            last = min(max(last, first + 1), history.size)
            self._fill_scores(history.take(np.arange(first, last)), out[first:last])
            first = last
        return out

    def _fill_scores(self, history: Rows, out: np.ndarray) -> None:
        near = self._neighbours(history)
        members = self.known.distinct.take(near.column)
        cell = near.owner[members.owner] * self.known.items + members.column
        score = tally(cell, out.size, near.value[members.owner]).reshape(out.shape)
        out[:] = np.where(score > 0, score * self.known.rarity, self.known.share - 1)

    def _neighbours(self, history: Rows) -> Rows:
        """Return the k nearest sessions of each history; value: similarity * match."""
        items, similar, match = self._weights(history)
        shared = self.known.latest.take(items.column)
        key = items.owner[shared.owner] << 32 | shared.column
        order = np.argsort(key, kind="stable")
        first = np.flatnonzero(np.diff(key[order], prepend=-1))
        entry = shared.owner[order]
        key = key[order[first]]
        column = (key & 0xFFFFFFFF).astype(np.int32)
        candidates = ordered_rows(key >> 32, column, np.arange(len(key)), history.size)
        if len(key):
            similar = np.add.reduceat(similar[entry], first)
            match = np.maximum.reduceat(match[entry], first)
        candidates = _last_entries(candidates, self.known.options.sample)
        # the most similar last, the latest of equals
        order = np.lexsort((candidates.column, similar[candidates.value], candidates.owner))
        candidates = candidates._replace(
            column=candidates.column[order], value=candidates.value[order]
        )
        best = _last_entries(candidates, self.known.options.k)
        return best._replace(value=similar[best.value] * match[best.value])

    def _weights(self, history: Rows) -> tuple[Rows, np.ndarray, np.ndarray]:
        """Return the distinct items of each history, and their two weights, float64 [entries]."""
        length = np.diff(history.start)[history.owner]
        age = history.start[1:][history.owner] - 1 - np.arange(len(history.column))
        items = group_rows(history.owner, history.column, history.size, age)
        key = items.owner << 32 | items.column
        last = np.flatnonzero(np.diff(key, append=-1))  # the last occurrence of each item
        age, length = items.value[last].astype(np.int64), length[last]
        distinct = ordered_rows(items.owner[last], items.column[last], age, history.size)
        similar = _decay(self.known.options.decay, age, length)
        return distinct, similar, _decay(self.known.options.match_decay, age, length)

    def extended(self, lines: Timelines) -> SessionNeighbours:
        """Return the scorer with more events of known users; the sessions to compare with stay."""
        return replace(self, more=join_rows([self.more, _item_sequences(lines)]))

    def arrays(self) -> dict[str, np.ndarray]:
        parts = {"own": self.known.training, "more": self.more}
        names = [(name, part) for name in parts for part in ("start", "column")]
        arrays = {f"{name}.{part}": getattr(parts[name], part) for name, part in names}
        return {**arrays, "ended": self.known.ended}


def _decay(name: str, age: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return the weights of items; age: the number of later items in their session."""
    if name == "linear":
        return 1 - age / length
    if name == "log":
        return 1 / np.log(age + 1.7)
    if name == "harmonic":
        return 1 / (age + 1)
    return np.ones(len(age))


def _last_entries(rows: Rows, count: int) -> Rows:
    lengths = np.minimum(np.diff(rows.start), count)
    start, entry = pieces(rows.start[1:] - lengths, lengths)
    return Rows(start, rows.column[entry], rows.value[entry])


def _ones(start: np.ndarray, column: np.ndarray) -> Rows:
    return Rows(start, column, np.ones(len(column), np.float32))


def _item_sequences(lines: Timelines) -> Rows:
    return _ones(lines.start, lines.item)


def _sequences(name: str, users: int, items: int) -> Table:
    """Return the table of the arrays of items in order, which may repeat."""
    entries = f"entries of {name}"
    return {
        f"{name}.start": Starts((users + 1,), entries),
        f"{name}.column": Places((entries,), items),
    }


# A first-order Markov chain: what follows the user's last item.

MAX_GB = 4.0  # for pairs of consecutive events
PAIR_BYTES = 40


@dataclass(frozen=True)
class MarkovChain(Recipe):
    """A first-order Markov chain: ranks items by how often they followed the user's last one.

    Events at the same time follow all events of the previous time, and share their weight.
    smoothing: how many events the popularity of items counts for.
    """

    smoothing: float = 1.0

    def __post_init__(self) -> None:
        checks.positive("smoothing", self.smoothing)

    def fit(self, data: Any) -> Ranker:
        events = as_dataset(data)
        return Ranker.of(self, events, self._scorer(events, user_timelines(events)))

    def _scorer(self, data: Dataset, lines: Timelines) -> MarkovScorer:
        follows = followers(lines, len(data.items))
        times = tally(follows.owner, follows.size, follows.value) + self.smoothing
        chance = follows._replace(value=(follows.value / times[follows.owner]).astype(np.float32))
        popular = tally(data.item, len(data.items)) / max(len(data), 1)
        return MarkovScorer(
            last_items(lines),
            chance,
            (self.smoothing / times).astype(np.float32),
            popular.astype(np.float32),
            data.items,
        )

    def restore(
        self, arrays: Mapping[str, np.ndarray], space: FeatureSpace, seen: Rows
    ) -> MarkovScorer:
        return MarkovScorer.restored(arrays, space)


def followers(lines: Timelines, items: int) -> Rows:
    """Return, per item, the items that its users chose next, with counts: [items] rows.

    Of n items at the same time each counts 1/n.
    """
    before = strictly_before(lines).astype(np.int64)
    own_start = np.repeat(lines.start[:-1], np.diff(lines.start))
    later = np.flatnonzero(before > own_start)  # all but each user's first
    end = before[later]
    begin = before[end - 1]
    length = end - begin
    needed = PAIR_BYTES * int(length.sum())
    remedy = "use finer times, or the order of the rows"
    check_memory("counting successive items", f"{len(later):,} events", needed, MAX_GB, remedy)
    _, position = pieces(begin, length)
    share = np.repeat(1.0 / length, length)
    pairs = group_rows(lines.item[position], np.repeat(lines.item[later], length), items, share)
    return add_repeats(pairs)
