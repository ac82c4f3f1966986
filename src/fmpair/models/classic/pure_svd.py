"""PureSVD: the largest singular vectors of who has what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from fmpair import checks
from fmpair.capacity import check_item_pairs
from fmpair.data import as_dataset
from fmpair.fitted.folding import folded
from fmpair.fitted.recipe import Recipe
from fmpair.fitted.recommender import Recommender
from fmpair.models.classic.interactions import interactions
from fmpair.training.weights import WEIGHTS

EXTRA = 10  # directions beyond those wanted, which the wanted ones converge faster with
ROUNDS = 30


@dataclass(frozen=True)
class PureSVD(Recipe):
    """The users' items projected on the largest singular vectors: no negatives, nothing to learn.

    factors: how many singular vectors.
    weights: how the events of a pair count: none (1), log (1 + ln w), linear (w).
    max_gb: the most memory it may take; it needs 4 bytes for every pair of items.
    threads: None uses all cores; the model does not depend on it. seed: of the first guess.
    """

    factors: int = 20
    weights: str = "none"
    max_gb: float = 8.0
    threads: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        checks.whole("factors", self.factors, 1)
        checks.positive("max_gb", self.max_gb)
        checks.one_of("weights", self.weights, WEIGHTS)
        checks.threads(self.threads)
        checks.whole("seed", self.seed, 0)

    def fit(self, data: Any) -> Recommender:
        """Users are V' times their items, items V: the scores are those of the truncated SVD."""
        from fmpair.solvers.products import gram

        events = as_dataset(data)
        items = len(events.items)
        check_item_pairs("PureSVD", items, 4, self.max_gb)
        own = interactions(events, self.weights)
        square = gram(own, items, self.threads)
        with threadpool_limits(1, user_api="blas"):  # too little work at a time to share out
            vectors = _largest(square, min(self.factors, items), self.seed)
        return folded(self, events, own.dot(vectors), vectors)


def _largest(square: np.ndarray, count: int, seed: int) -> np.ndarray:
    """float32 [items, count]: eigenvectors of the largest eigenvalues, by subspace iteration."""
    rng = np.random.default_rng([seed, 0])
    width = min(count + EXTRA, len(square))
    basis = rng.standard_normal((len(square), width)).astype(np.float32)
    for _ in range(ROUNDS):
        basis = np.linalg.qr(square @ basis)[0]
    values, turn = np.linalg.eigh(basis.T @ square @ basis)
    return (basis @ turn[:, np.argsort(-values)[:count]]).astype(np.float32)
