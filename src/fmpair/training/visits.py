"""Visits of users who come once: logs of anonymous sessions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from fmpair.arrays import empty_rows
from fmpair.data import Dataset
from fmpair.data.times import is_calendar, microseconds, untimed
from fmpair.device import ranking_device
from fmpair.features.calendar import TIME
from fmpair.fitted.recommender import Recommender
from fmpair.metrics import Metric
from fmpair.training.epochs import MAX_EVENTS

# Users come once if they have at most VISIT_EVENTS events on average, and at least half of the
# users have all their events within the share VISIT_SHARE of the time that the log covers.
VISIT_EVENTS, VISIT_SHARE = 10, 0.01
VISITORS = 0.1  # share of such users that is held out, less if they have over MAX_EVENTS events


@dataclass(frozen=True)
class Visits:
    """Held-out visits of unknown users. Each item but the first is predicted from those before it.

    train: the events of all other users. events: those to predict, with their context and time.
    before: the earlier items of the visit, for each of them.
    """

    train: Dataset
    events: pl.DataFrame
    before: list[list[Any]]
    threads: int | None

    def values(self, model: Recommender) -> np.ndarray:
        """Return the NDCG@10 of each predicted item, 0 if the model does not know the item."""
        from fmpair.ranking.top import ranks

        target = model.space.items.numbers(self.events["item"])
        names = [name for name in self.events.columns if name in model.space.context]
        history = pl.Series("history", self.before)
        queries = model.query_vectors(self.events.select(history, *names))
        known = np.flatnonzero(target >= 0)
        nothing, device = empty_rows(len(known)), ranking_device(model.recipe, len(known))
        above, level = ranks(
            queries[known], model.item_matrix, nothing, target[known], self.threads, device
        )
        values = np.zeros(len(target))
        values[known] = Metric.parse("ndcg@10").values(1 + above + level / 2)
        return values

    @property
    def ranks_repeats(self) -> bool:
        """Whether earlier items are ranked too."""
        return True

    @property
    def count(self) -> int:
        """The number of held-out events."""
        return len(self.events)

    def shuffled(self) -> Visits:
        """Return the visits with the earlier items of each prediction in random order."""
        rng = np.random.default_rng(0)
        return replace(self, before=[list(rng.permutation(items)) for items in self.before])


def held_out_visits(data: Dataset, threads: int | None) -> Visits | None:
    """Return the held-out visits of a tenth of the users or fewer; None if users come back."""
    if not are_visits(data):
        return None
    # only users with events: of a part of a log, the same users could be those without
    active = np.unique(data.user)
    chosen = np.zeros(len(data.users), np.bool_)
    share = min(VISITORS, MAX_EVENTS / max(len(data), 1))
    chosen[active] = np.random.default_rng(0).random(len(active)) < share
    events = data.take(chosen[data.user]).frame().sort(TIME, maintain_order=True)
    rows = events.select("user", "item", row=pl.int_range(pl.len()))
    visits = rows.group_by("user", maintain_order=True).agg("item", "row").select("item", "row")
    steps = [
        (items[:n], numbers[n])
        for items, numbers in visits.iter_rows()
        for n in range(1, len(items))
    ]
    if not steps:
        return None
    before, predicted = [before for before, _ in steps], events[[row for _, row in steps]]
    return Visits(data.take(~chosen[data.user]), predicted, before, threads)


def are_visits(data: Dataset) -> bool:
    """Return whether all events have times and users come once."""
    return is_calendar(data) and not untimed(data) and come_once(data)


def come_once(data: Dataset) -> bool:
    """Return whether users are sessions: see VISIT_EVENTS and VISIT_SHARE."""
    time = microseconds(data.columns[TIME])
    by_user = pl.DataFrame({"user": data.user, "time": time}).group_by("user")
    visits = by_user.agg(n=pl.len(), span=pl.col("time").max() - pl.col("time").min())
    short = np.median(visits["span"].to_numpy()) < VISIT_SHARE * np.ptp(time)
    return bool(short and visits["n"].to_numpy().mean() <= VISIT_EVENTS)
