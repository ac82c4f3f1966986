"""Nearest neighbours: what similar items, or similar users, have to say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fmpair import checks
from fmpair.arrays import Rows
from fmpair.data import as_dataset
from fmpair.features import FeatureSpace
from fmpair.fitted.neighbourhood import ItemNeighbours, UserNeighbours
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recipe import Recipe
from fmpair.models.classic.interactions import interactions
from fmpair.models.classic.term_weight import SCHEMES, weighted
from fmpair.training.weights import WEIGHTS


@dataclass(frozen=True)
class ItemKNN(Recipe):
    """Items like those a user has: sums of the cosines of each item's nearest items.

    k: how many neighbours an item has.
    shrinkage: added to the product of two items' lengths: holds chance on few users down.
    scheme: how users count in the cosine: plain, tf-idf or bm25 (who has much counts less).
    weights: how the events of a pair count: none (1), log (1 + ln w), linear (w).
    threads: None uses all cores; the model does not depend on it.
    """

    k: int = 100
    shrinkage: float = 10.0
    scheme: str = "tf-idf"
    weights: str = "none"
    threads: int | None = None

    def __post_init__(self) -> None:
        _check(self)

    def fit(self, data: Any) -> Ranker:
        from fmpair.solvers.products import nearest, turned

        events = as_dataset(data)
        own, items = interactions(events, self.weights), len(events.items)
        compared = weighted(turned(own, items), len(events.users), self.scheme)
        near = nearest(compared, len(events.users), self.k, self.shrinkage, self.threads)
        return Ranker.of(self, events, ItemNeighbours(own, near, events.items))

    def restore(
        self, arrays: Mapping[str, np.ndarray], space: FeatureSpace, seen: Rows
    ) -> ItemNeighbours:
        return ItemNeighbours.restored(arrays, space)


@dataclass(frozen=True)
class UserKNN(Recipe):
    """What similar users have: sums of the cosines of the nearest users who have an item.

    k: how many neighbours a user has.
    shrinkage: added to the product of two users' lengths: holds chance on few items down.
    scheme: how items count in the cosine: plain, tf-idf or bm25 (what everyone has counts less).
    weights: how the events of a pair count: none (1), log (1 + ln w), linear (w).
    threads: None uses all cores; the model does not depend on it.
    """

    k: int = 100
    shrinkage: float = 10.0
    scheme: str = "tf-idf"
    weights: str = "none"
    threads: int | None = None

    def __post_init__(self) -> None:
        _check(self)

    def fit(self, data: Any) -> Ranker:
        from fmpair.solvers.products import nearest

        events = as_dataset(data)
        own, items = interactions(events, self.weights), len(events.items)
        compared = weighted(own, items, self.scheme)
        near = nearest(compared, items, self.k, self.shrinkage, self.threads)
        return Ranker.of(self, events, UserNeighbours(own, near, events.users, items))

    def restore(
        self, arrays: Mapping[str, np.ndarray], space: FeatureSpace, seen: Rows
    ) -> UserNeighbours:
        return UserNeighbours.restored(arrays, space)


def _check(recipe: ItemKNN | UserKNN) -> None:
    checks.whole("k", recipe.k, 1)
    checks.not_negative("shrinkage", recipe.shrinkage)
    checks.one_of("scheme", recipe.scheme, SCHEMES)
    checks.one_of("weights", recipe.weights, WEIGHTS)
    checks.threads(recipe.threads)
