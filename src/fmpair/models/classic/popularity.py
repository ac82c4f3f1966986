"""Baselines: popularity, recency and random order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from fmpair import checks
from fmpair.arrays import Rows, empty_rows, tally
from fmpair.checks import check_memory
from fmpair.data import Dataset, as_dataset
from fmpair.data.owner_splits import histories
from fmpair.data.parts import by_time_order, moments_across_users
from fmpair.data.times import DAY, is_calendar
from fmpair.engine.contract import Parameters
from fmpair.errors import DataError, OptionError, named, unknown
from fmpair.features import FeatureSpace
from fmpair.features.encoder import Encoder
from fmpair.fitted.file_checks import check
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recipe import Recipe
from fmpair.fitted.recommender import Recommender

MAX_GB = 1.0  # for counts
EVENTS = ("last", "first")
DAYS, LAST = 30.0, 10  # defaults of PopularLately


def same_for_all(recipe: Any, data: Dataset, constants: np.ndarray) -> Recommender:
    """Return a recommender whose scores are the items' constants, in any context."""
    nothing = np.zeros((len(constants), 0), np.float32)
    space = FeatureSpace.fit(data)
    query = np.zeros((space.query.size, 0), np.float32)
    users = empty_rows(len(data.users))
    return by_counts(recipe, data, space, (nothing, constants, query), users)


def by_counts(
    recipe: Any,
    data: Dataset,
    space: FeatureSpace,
    tables: tuple[np.ndarray, np.ndarray, np.ndarray],
    users: Rows,
) -> Recommender:
    """Return a recommender of items [items, values], constants and query [features, values]."""
    items, constants, query = tables
    values = items.shape[1]
    parameters = Parameters(
        users=np.zeros((len(data.users), values), np.float32),
        items=items,
        item_bias=constants.astype(np.float32),
        query=query,
        features=np.zeros((space.item.size, values), np.float32),
        feature_bias=np.zeros(space.item.size, np.float32),
    )
    nothing = empty_rows(len(data.items))
    return Recommender(space, parameters, users, nothing, data.seen, recipe, data.frame_kind)


@dataclass(frozen=True)
class Popularity(Recipe):
    """Ranks items by their number of events, overall or within a group.

    within: a context column or user attribute; only events with the same value are counted. None
        counts all events.
    smoothing: number of events that the overall popularity counts as within a group; unknown values
        use the overall popularity alone.
    """

    within: str | None = None
    smoothing: float = 10.0

    def __post_init__(self) -> None:
        checks.positive("smoothing", self.smoothing)

    def fit(self, data: Any) -> Recommender:
        """Return a recommender by counts: item constants, and with `within` a factor per value."""
        events = as_dataset(data)
        times = tally(events.item, len(events.items)).astype(np.float32)
        if self.within is None:
            return same_for_all(self, events, times)
        space = FeatureSpace.fit(events, {self.within: {"kind": "categorical"}})
        chosen = self._encoder(space)
        users = space.user_rows(events.user_table, len(events.users))
        of_user = chosen.role == "user"
        rows = users.take(events.user) if of_user else space.context_rows(events.columns)[0]
        counts = self._counts(space, chosen, events, rows)
        share = self.smoothing * times / max(len(events), 1)
        # a value's vector in the query selects its column of the counts
        query = np.zeros((space.query.size, chosen.size), np.float32)
        value = np.arange(chosen.size)
        query[_first(space, chosen) + value, value] = 1
        return by_counts(self, events, space, (counts, share, query), users)

    def _encoder(self, space: FeatureSpace) -> Encoder:
        known = {name: e for e in space.query.encoders for name in (e.name, f"{e.role}.{e.name}")}
        if self.within not in known:
            names = [e.name for e in space.query.encoders]
            raise OptionError(unknown("column for within", self.within, names))
        return known[str(self.within)]

    def _counts(
        self, space: FeatureSpace, chosen: Encoder, data: Dataset, rows: Rows
    ) -> np.ndarray:
        """Count the events of each item by value of the chosen field: float32 [items, values].

        rows: the query features of every event.
        """
        items, values, first = len(data.items), chosen.size, _first(space, chosen)
        size, remedy = f"{values:,} values and {items:,} items", "choose a coarser column"
        check_memory(f"counting within {self.within!r}", size, 4 * items * values, MAX_GB, remedy)
        in_field = (rows.column >= first) & (rows.column < first + values)
        cell = data.item[rows.owner[in_field]] * np.int64(values) + (rows.column[in_field] - first)
        return tally(cell, items * values).astype(np.float32).reshape(items, values)


def _first(space: FeatureSpace, encoder: Encoder) -> int:
    """Return the first feature of a field of the query side."""
    return next(first for first, e in space.query.of_role(encoder.role) if e is encoder)


@dataclass(frozen=True)
class MostRecent(Recipe):
    """Ranks items by time, the most recently chosen one first.

    by: which event of an item counts, its 'last' or its 'first' (new items first).
    """

    by: str = "last"

    def __post_init__(self) -> None:
        checks.one_of("by", self.by, EVENTS)

    def fit(self, data: Any) -> Recommender:
        """Return a recommender whose item constants rank the times of items, the latest highest."""
        events = as_dataset(data)
        moment = moments_across_users(events)
        order = np.argsort(moment, kind="stable")
        order = order if self.by == "last" else order[::-1]
        known = np.zeros(len(events.items), bool)
        known[events.item] = True
        time = np.zeros(len(known), np.int64)
        time[events.item[order]] = moment[order]  # the last write of an item stays
        constants = np.zeros(len(known), np.float32)
        constants[known] = 1 + np.unique(time[known], return_inverse=True)[1]
        return same_for_all(self, events, constants)


@dataclass(frozen=True)
class PopularLately(Recipe):
    """Ranks items by their number of recent events.

    days: count only events of the last days before the latest event.
    last: count only the latest events of each user. If neither is given: 30 days if the data has
        dates, else 10 events.
    """

    days: float | None = None
    last: int | None = None

    def __post_init__(self) -> None:
        if self.days is not None:
            checks.positive("days", self.days)
        if self.last is not None:
            checks.whole("last", self.last, 1)

    def fit(self, data: Any) -> Recommender:
        """Return a recommender whose item constants are counts."""
        events = as_dataset(data)
        counted = events.item[self._counts(events)]
        return same_for_all(self, events, tally(counted, len(events.items)))

    def _counts(self, data: Dataset) -> np.ndarray:
        """Return which events are recent: bool [events]."""
        days, last, dated = self.days, self.last, is_calendar(data)
        if days is None and last is None:
            days, last = (DAYS, None) if dated else (None, LAST)
        recent = np.ones(len(data), bool)
        if days is not None:
            if not dated:
                raise DataError(
                    f"{named('days')} needs times with dates: use {named('last', LAST)} instead"
                )
            moment = moments_across_users(data)
            recent &= moment > moment.max(initial=0) - days * DAY
        if last is not None:
            latest = histories(data.user, by_time_order(data))
            recent[latest.row[latest.later >= last]] = False
        return recent


@dataclass(frozen=True)
class Random(Recipe):
    """Scores every user and item at random, as a lower bound for comparisons.

    seed: of the scores, which depend only on it and on the numbers of user and item.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        checks.whole("seed", self.seed, 0)

    def fit(self, data: Any) -> Ranker:
        events = as_dataset(data)
        return Ranker.of(self, events, RandomScores(self.seed, len(events.items)))

    def restore(self, arrays: Mapping[str, Any], space: FeatureSpace, seen: Rows) -> RandomScores:
        check(arrays, {})
        return RandomScores(self.seed, len(space.items))


@dataclass(frozen=True)
class RandomScores:
    """Uniform scores between 0 and 1; unknown users and all histories share one list."""

    seed: int
    items: int
    scores_unknown_users: ClassVar[bool] = True

    def scores(self, users: np.ndarray, context: pl.DataFrame) -> np.ndarray:
        rows = [np.random.default_rng([self.seed, 1 + user]) for user in users.tolist()]
        return np.array([rng.random(self.items, np.float32) for rng in rows]).reshape(
            len(users), self.items
        )

    def history_scores(self, history: Rows) -> np.ndarray:
        return self.scores(np.full(history.size, -1), pl.DataFrame())

    def arrays(self) -> dict[str, np.ndarray]:
        return {}
