"""A first-order Markov chain: what follows the user's last item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fmpair import checks
from fmpair.arrays import Rows, add_repeats, group_rows, starts, tally
from fmpair.capacity import check_memory
from fmpair.data import Dataset, as_dataset
from fmpair.data.parts import time_lines
from fmpair.data.times import Timelines, strictly_before
from fmpair.features import FeatureSpace
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recipe import Recipe
from fmpair.fitted.scorers import MarkovScorer, last_items

MOST_GB = 4.0  # for pairs of consecutive events
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
        return Ranker.of(self, events, self._scorer(events, time_lines(events)))

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
    check_memory("counting successive items", f"{len(later):,} events", needed, MOST_GB, remedy)
    place = np.repeat(begin - starts(length)[:-1], length) + np.arange(length.sum())
    share = np.repeat(1.0 / length, length)
    pairs = group_rows(lines.item[place], np.repeat(lines.item[later], length), items, share)
    return add_repeats(pairs)
