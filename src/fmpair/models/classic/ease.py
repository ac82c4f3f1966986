"""EASE: every item predicted from all others by ridge regression, in closed form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

from fmpair import checks
from fmpair.arrays import Rows
from fmpair.capacity import check_item_pairs
from fmpair.data import as_dataset
from fmpair.data.vocabulary import Vocabulary
from fmpair.features import FeatureSpace
from fmpair.fitted.integrity import Numbers, check, largest, longest, refuse_overflow, sparse
from fmpair.fitted.named_rows import arrays_of, rows_from
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recipe import Recipe
from fmpair.models.classic.interactions import interactions
from fmpair.training.weights import WEIGHTS


@dataclass(frozen=True)
class EASE(Recipe):
    """Every item predicted from the user's other items by ridge regression, in closed form.

    regularization: lambda, added to the diagonal of the items' inner products.
    weights: how the events of a pair count: none (1), log (1 + ln w), linear (w).
    max_gb: the most memory it may take; it needs 24 bytes for every pair of items.
    threads: None uses all cores.
    """

    regularization: float = 500.0
    weights: str = "none"
    max_gb: float = 8.0
    threads: int | None = None

    def __post_init__(self) -> None:
        checks.positive("regularization", self.regularization)
        checks.positive("max_gb", self.max_gb)
        checks.one_of("weights", self.weights, WEIGHTS)
        checks.threads(self.threads)

    def fit(self, data: Any) -> Ranker:
        from fmpair.solvers.products import gram

        events = as_dataset(data)
        items = len(events.items)
        check_item_pairs("EASE", items, 24, self.max_gb)
        own = interactions(events, self.weights)
        square = gram(own, items, self.threads).astype(np.float64)
        square[np.diag_indices(items)] += self.regularization
        with threadpool_limits(self.threads, user_api="blas"):
            inverse = np.linalg.inv(square)
        inverse /= -np.diag(inverse)  # by column: B = -P / diag(P)
        inverse[np.diag_indices(items)] = 0
        return Ranker.of(self, events, ItemWeights(own, inverse.astype(np.float32), events.items))

    def restore(
        self, arrays: Mapping[str, np.ndarray], space: FeatureSpace, seen: Rows
    ) -> ItemWeights:
        items = len(space.items)
        table = {"weights": Numbers((items, items)), **sparse("own", len(space.users), items)}
        found = check(arrays, table)
        scorer = ItemWeights(rows_from(found, "own"), found["weights"], space.items)
        refuse_overflow(longest(scorer.own) * largest(scorer.weights))
        return scorer


@dataclass(frozen=True, eq=False)
class ItemWeights:
    """score(user, item) = sum over the user's items j of own[user, j] * weights[j, item]."""

    own: Rows
    weights: np.ndarray
    items: Vocabulary
    scores_unknown_users: ClassVar[bool] = False

    def scores(self, users: np.ndarray, context: pl.DataFrame) -> np.ndarray:
        return self.history_scores(self.own.take(users))

    def history_scores(self, history: Rows) -> np.ndarray:
        """float32 [n, items] for visitors with these items."""
        dense = np.zeros((history.size, len(self.items)), np.float32)
        dense[history.owner, history.column] = history.value
        return dense @ self.weights

    def terms(self, user: int, item: int) -> tuple[list[str], np.ndarray]:
        """What each item of the user adds."""
        own = self.own.take(np.array([user]))
        labels = [f"item={name}" for name in self.items.take(own.column)]
        return labels, own.value * self.weights[own.column, item]

    def item_similarity(self, item: int) -> np.ndarray:
        """How much having the item speaks for every other."""
        return self.weights[item]

    def arrays(self) -> dict[str, np.ndarray]:
        return {**arrays_of({"own": self.own}), "weights": self.weights}
