"""The most popular items first: the yardstick every model must beat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from fmpair import checks
from fmpair.arrays import Rows, empty_rows, tally
from fmpair.capacity import check_memory
from fmpair.data import Dataset, as_dataset
from fmpair.data.parts import by_time_order, moments_of_all
from fmpair.data.splits import histories
from fmpair.data.times import DAY, is_calendar
from fmpair.engine.contract import Parameters
from fmpair.errors import DataError, OptionError, named, unknown
from fmpair.features import FeatureSpace
from fmpair.features.encoder import Encoder
from fmpair.fitted.file_checks import check
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recipe import Recipe
from fmpair.fitted.recommender import Recommender

# Models that rank items the same for everyone: nothing but a constant per item.


def same_for_all(recipe: Any, data: Dataset, constants: np.ndarray) -> Recommender:
    """A recommender whose scores are the items' constants; contexts may be asked for."""
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
    """A recommender of items [items, values], constants [items] and query [features, values]."""
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


MOST_GB = 1.0  # of counts


@dataclass(frozen=True)
class Popularity(Recipe):
    """Ranks items by the number of their events, for everyone or within a group.

    within: a context column or user attribute; items are counted among the events that have the
        same value. None counts all events.
    smoothing: how many events the popularity among all events counts for within a group; it alone
        decides where a value is unknown.
    """

    within: str | None = None
    smoothing: float = 10.0

    def __post_init__(self) -> None:
        checks.positive("smoothing", self.smoothing)

    def fit(self, data: Any) -> Recommender:
        """A recommender whose item constants are counts; within: one factor per value."""
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
        # a value's vector in the query picks its own column of the counts
        query = np.zeros((space.query.size, chosen.size), np.float32)
        own = np.arange(chosen.size)
        query[_first(space, chosen) + own, own] = 1
        return by_counts(self, events, space, (counts, share, query), users)

    def _encoder(self, space: FeatureSpace) -> Encoder:
        known = {name: e for e in space.query.encoders for name in (e.name, f"{e.role}.{e.name}")}
        if self.within not in known:
            names = [e.name for e in space.query.encoders]
            raise OptionError(unknown("column to be popular within", self.within, names))
        return known[str(self.within)]

    def _counts(
        self, space: FeatureSpace, chosen: Encoder, data: Dataset, rows: Rows
    ) -> np.ndarray:
        """float32 [items, values]: the events of each item in which the chosen field has a value.

        rows: the query features of every event.
        """
        items, values, first = len(data.items), chosen.size, _first(space, chosen)
        size, remedy = f"{values:,} values and {items:,} items", "choose a coarser column"
        check_memory(f"counting within {self.within!r}", size, 4 * items * values, MOST_GB, remedy)
        mine = (rows.column >= first) & (rows.column < first + values)
        place = data.item[rows.owner[mine]] * np.int64(values) + (rows.column[mine] - first)
        return tally(place, items * values).astype(np.float32).reshape(items, values)


def _first(space: FeatureSpace, encoder: Encoder) -> int:
    """The first feature of a field of the query side."""
    return next(first for first, e in space.query.of_role(encoder.role) if e is encoder)


# What is chosen now: the most recent items, and those that are popular lately.


EVENTS = ("last", "first")
DAYS, LAST = 30.0, 10  # what counts as lately unless told


@dataclass(frozen=True)
class MostRecent(Recipe):
    """Ranks items by time: the item that anybody chose last comes first.

    by: the event of each item that counts, its 'last' one, or its 'first', so that new items lead.
    """

    by: str = "last"

    def __post_init__(self) -> None:
        checks.one_of("by", self.by, EVENTS)

    def fit(self, data: Any) -> Recommender:
        """A recommender whose item constants number the moments of items, the latest highest."""
        events = as_dataset(data)
        moment = moments_of_all(events)
        order = np.argsort(moment, kind="stable")
        order = order if self.by == "last" else order[::-1]
        known = np.zeros(len(events.items), bool)
        known[events.item] = True
        own = np.zeros(len(known), np.int64)
        own[events.item[order]] = moment[order]  # of several the one that is written last
        constants = np.zeros(len(known), np.float32)
        constants[known] = 1 + np.unique(own[known], return_inverse=True)[1]
        return same_for_all(self, events, constants)


@dataclass(frozen=True)
class PopularLately(Recipe):
    """Ranks items by the number of their latest events: what is popular now.

    days: only events of so many days before the latest one count.
    last: only so many of each user's latest events count. Unless either is given: 30 days where the
        data have times, 10 events of each user where they have an order only.
    """

    days: float | None = None
    last: int | None = None

    def __post_init__(self) -> None:
        if self.days is not None:
            checks.positive("days", self.days)
        if self.last is not None:
            checks.whole("last", self.last, 1)

    def fit(self, data: Any) -> Recommender:
        """A recommender whose item constants are counts."""
        events = as_dataset(data)
        counted = events.item[self._counts(events)]
        return same_for_all(self, events, tally(counted, len(events.items)))

    def _counts(self, data: Dataset) -> np.ndarray:
        """bool [events]: which of them are recent enough."""
        days, last, dated = self.days, self.last, is_calendar(data)
        if days is None and last is None:
            days, last = (DAYS, None) if dated else (None, LAST)
        recent = np.ones(len(data), bool)
        if days is not None:
            if not dated:
                raise DataError(
                    f"{named('days')} needs times with dates, and the data have none: say "
                    f"{named('last', LAST)} in its place"
                )
            moment = moments_of_all(data)
            recent &= moment > moment.max(initial=0) - days * DAY
        if last is not None:
            own = histories(data.user, by_time_order(data))
            recent[own.row[own.later >= last]] = False
        return recent


# Items in random order: what a ranking is worth that knows nothing.


@dataclass(frozen=True)
class Random(Recipe):
    """A fixed random score for every user and item: the floor of every comparison.

    seed: of the scores; each is a pure function of it, the user's number and the item's.
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
    """Uniform between 0 and 1; all users never seen share one list."""

    seed: int
    items: int
    scores_unknown_users: ClassVar[bool] = True

    def scores(self, users: np.ndarray, context: pl.DataFrame) -> np.ndarray:
        rows = [np.random.default_rng([self.seed, 1 + user]) for user in users.tolist()]
        return np.array([rng.random(self.items, np.float32) for rng in rows]).reshape(
            len(users), self.items
        )

    def arrays(self) -> dict[str, np.ndarray]:
        return {}
