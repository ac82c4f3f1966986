"""The most popular items first: the yardstick every model must beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fmpair import checks
from fmpair.arrays import Rows, tally
from fmpair.capacity import check_memory
from fmpair.data import Dataset, as_dataset
from fmpair.errors import OptionError, unknown
from fmpair.features import FeatureSpace
from fmpair.features.encoder import Encoder
from fmpair.fitted.recipe import Recipe
from fmpair.fitted.recommender import Recommender
from fmpair.models.classic.same_for_all import by_counts, same_for_all

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
