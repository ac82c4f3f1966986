"""A Markov chain of order one: what usually follows the item chosen last."""

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

MOST_GB = 4.0  # of pairs of consecutive events
PAIR_BYTES = 40


@dataclass(frozen=True)
class MarkovChain(Recipe):
    """A first-order Markov chain: items by how often they followed the user's last one.

    Events of one moment follow all of the moment before them, and share their weight.
    smoothing: how many events the popularity of items counts for beside those that followed.
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
    """Per item the items of the next moment of its users, and how often: [items] rows.

    Of n items at one moment each counts 1/n for each item of the next.
    """
    before = strictly_before(lines).astype(np.int64)
    own_start = np.repeat(lines.start[:-1], np.diff(lines.start))
    later = np.flatnonzero(before > own_start)  # all but those of a user's first moment
    end = before[later]
    begin = before[end - 1]
    length = end - begin
    needed = PAIR_BYTES * int(length.sum())
    remedy = "give finer times, or the order of rows in their place"
    check_memory("counting what follows what", f"{len(later):,} events", needed, MOST_GB, remedy)
    place = np.repeat(begin - starts(length)[:-1], length) + np.arange(length.sum())
    share = np.repeat(1.0 / length, length)
    pairs = group_rows(lines.item[place], np.repeat(lines.item[later], length), items, share)
    return add_repeats(pairs)
