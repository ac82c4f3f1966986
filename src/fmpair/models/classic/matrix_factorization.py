"""Matrix factorizations of the user-item matrix: implicit ALS and PureSVD."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from fmpair import checks
from fmpair.arrays import Rows
from fmpair.checks import check_item_pairs, check_memory, check_vectors
from fmpair.data import Dataset, as_dataset
from fmpair.fitted.recipe import Recipe
from fmpair.fitted.recommender import Recommender, from_factors
from fmpair.models.classic.neighbours import interactions
from fmpair.training.epochs import Epoch, epochs
from fmpair.training.options import WEIGHTS
from fmpair.training.trainable import TrainableRecipe

EXTRA = 10  # additional directions, which speed up the convergence of the wanted ones
ROUNDS = 30


@dataclass(frozen=True)
class ImplicitALS(TrainableRecipe):
    """Implicit ALS (WRMF): weighted least squares over all pairs; events have more weight.

    factors: length of the vectors. epochs: how often both sides are solved.
    alpha: weight of an event in addition to the 1 of every pair.
    regularization: of vectors, multiplied by their total weight to the power of frequency.
    frequency: 1 regularises vectors in proportion to their events, 0 all equally.
    weights: how the events of a pair count: none (1), log (1 + ln w), linear (w).
    steps: conjugate gradient steps per vector and epoch.
    init_std: standard deviation of the length of the initial vectors.
    threads: None uses all cores; the model does not depend on it. seed: of all random draws.
    """

    factors: int = 64
    epochs: int = 16
    alpha: float = 3.0
    regularization: float = 0.01
    frequency: float = 1.0
    weights: str = "none"
    steps: int = 3
    init_std: float = 0.1
    threads: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("factors", "epochs", "steps"):
            checks.whole(name, getattr(self, name), 1)
        for name in ("alpha", "init_std"):
            checks.positive(name, getattr(self, name))
        for name in ("regularization", "frequency"):
            checks.not_negative(name, getattr(self, name))
        checks.one_of("weights", self.weights, WEIGHTS)
        checks.threads(self.threads)
        checks.whole("seed", self.seed, 0)

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn epoch by epoch; the loss is the objective per event."""
        return _train(self, as_dataset(data))


def _train(recipe: ImplicitALS, data: Dataset) -> Iterator[Epoch]:
    from fmpair.solvers.linear_algebra import solve, squared_error, turned

    rows = interactions(data, recipe.weights)
    by_user = rows._replace(value=rows.value * np.float32(recipe.alpha))
    by_item = turned(by_user, len(data.items))
    check_vectors(by_user.size + by_item.size, recipe.factors)
    matrix = f"a matrix of {recipe.factors:,} by {recipe.factors:,} factors"
    check_memory("training", matrix, 8 * recipe.factors**2, None, "lower factors")
    users, items = _first(recipe, by_user, 0), _first(recipe, by_item, 1)
    user_strength = _strength(recipe, by_user, by_item.size)
    item_strength = _strength(recipe, by_item, by_user.size)

    def solve_both(number: int) -> float:
        solve(by_user, items, users, user_strength, recipe.steps, recipe.threads)
        solve(by_item, users, items, item_strength, recipe.steps, recipe.threads)
        loss = squared_error(by_user, users, items)
        loss += float(user_strength @ (users**2).sum(1) + item_strength @ (items**2).sum(1))
        return loss / len(data)

    return epochs(recipe.epochs, solve_both, lambda: from_factors(recipe, data, users, items))


def _first(recipe: ImplicitALS, rows: Rows, side: int) -> np.ndarray:
    """Return initial vectors, 0 for rows without entries: float32 [rows, factors]."""
    rng = np.random.default_rng([recipe.seed, side])
    sd = np.float32(recipe.init_std / np.sqrt(recipe.factors))
    vectors = rng.standard_normal((rows.size, recipe.factors), np.float32) * sd
    return np.where(np.diff(rows.start)[:, None] > 0, vectors, np.float32(0))


def _strength(recipe: ImplicitALS, rows: Rows, columns: int) -> np.ndarray:
    """Return the regularisation of each vector, by the weight of all its pairs: float32 [rows]."""
    total = np.concatenate([[0.0], np.cumsum(rows.value, dtype=np.float64)])
    weight = columns + total[rows.start[1:]] - total[rows.start[:-1]]
    return (recipe.regularization * weight**recipe.frequency).astype(np.float32)


@dataclass(frozen=True)
class PureSVD(Recipe):
    """PureSVD: projects the users' items on the largest singular vectors.

    factors: number of singular vectors.
    weights: how the events of a pair count: none (1), log (1 + ln w), linear (w).
    max_gb: memory limit; it needs 4 bytes for every pair of items.
    threads: None uses all cores; the model does not depend on it. seed: of the initial guess.
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
        """Return users as V' times their items and items as V: scores of the truncated SVD."""
        from fmpair.solvers.linear_algebra import gram

        events = as_dataset(data)
        items = len(events.items)
        check_item_pairs("PureSVD", items, 4, self.max_gb)
        rows = interactions(events, self.weights)
        square = gram(rows, items, self.threads)
        with threadpool_limits(1, user_api="blas"):  # too little work for more threads
            vectors = _largest(square, min(self.factors, items), self.seed)
        return from_factors(self, events, rows.dot(vectors), vectors)


def _largest(square: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Return the first eigenvectors by subspace iteration: float32 [items, count]."""
    rng = np.random.default_rng([seed, 0])
    width = min(count + EXTRA, len(square))
    basis = rng.standard_normal((len(square), width)).astype(np.float32)
    for _ in range(ROUNDS):
        basis = np.linalg.qr(square @ basis)[0]
    values, turn = np.linalg.eigh(basis.T @ square @ basis)
    return (basis @ turn[:, np.argsort(-values)[:count]]).astype(np.float32)
