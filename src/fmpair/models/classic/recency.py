"""What is chosen now: the most recent items, and those that are popular lately."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fmpair import checks
from fmpair.arrays import tally
from fmpair.data import Dataset, as_dataset
from fmpair.data.histories import histories
from fmpair.data.parts import by_time_order, moments_of_all
from fmpair.data.times import DAY, is_calendar
from fmpair.errors import DataError, named
from fmpair.fitted.recipe import Recipe
from fmpair.fitted.recommender import Recommender
from fmpair.models.classic.same_for_all import same_for_all

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
