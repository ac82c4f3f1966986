"""Items in random order: what a ranking is worth that knows nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from fmpair import checks
from fmpair.arrays import Rows
from fmpair.data import as_dataset
from fmpair.features import FeatureSpace
from fmpair.fitted.integrity import check
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recipe import Recipe


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
