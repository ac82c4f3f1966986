"""Implicit ALS (WRMF): weighted least squares over all pairs, one side at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fmpair.arrays import Rows
from fmpair.data import Dataset, as_dataset
from fmpair.errors import TrainingError
from fmpair.models import option
from fmpair.models.folding import folded
from fmpair.models.interactions import WEIGHTS, interactions
from fmpair.models.memory import check_vectors
from fmpair.models.recommender import Recommender
from fmpair.models.training import Epoch
from fmpair.models.validation import best_fit


@dataclass(frozen=True)
class ImplicitALS:
    """Implicit ALS (WRMF): all pairs by weighted least squares, what happened with more weight.

    factors: length of the vectors. epochs: how often both sides are solved.
    alpha: an event's weight beyond the 1 that every pair has.
    regularization: how tight vectors are held, times their total weight to the power of frequency.
    frequency: 1 holds vectors with many events as much as their events pull, 0 holds all alike.
    weights: how the events of a pair count: none (1), log (1 + ln w), linear (w).
    steps: how many of conjugate gradients every vector takes in an epoch.
    initial_sd: standard deviation of the first vectors' length.
    threads: None uses all cores; the model does not depend on it. seed: of all random draws.
    """

    factors: int = 64
    epochs: int = 16
    alpha: float = 3.0
    regularization: float = 0.01
    frequency: float = 1.0
    weights: str = "none"
    steps: int = 3
    initial_sd: float = 0.1
    threads: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("factors", "epochs", "steps"):
            option.whole(name, getattr(self, name), 1)
        for name in ("alpha", "initial_sd"):
            option.positive(name, getattr(self, name))
        for name in ("regularization", "frequency"):
            option.not_negative(name, getattr(self, name))
        option.one_of("weights", self.weights, WEIGHTS)
        option.threads(self.threads)
        option.whole("seed", self.seed, 0)

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn epoch by epoch; the loss is the whole objective, by event."""
        return _train(self, as_dataset(data))

    def fit(
        self,
        data: Any,
        *,
        validation: Any = None,
        metric: str = "ndcg@10",
        patience: int = 5,
        seed: int | None = None,
        progress: bool | Callable[[Epoch], None] = False,
    ) -> Recommender:
        """Learn from a Dataset or a frame; the parameters are those of `FMPair.fit`."""
        return best_fit(self, data, seed, progress, validation, metric, patience)


def _train(recipe: ImplicitALS, data: Dataset) -> Iterator[Epoch]:
    from fmpair.engine.least_squares import solve, squared_error
    from fmpair.engine.products import turned

    own = interactions(data, recipe.weights)
    by_user = own._replace(value=own.value * np.float32(recipe.alpha))
    by_item = turned(by_user, len(data.items))
    check_vectors(by_user.size + by_item.size, recipe.factors)
    users, items = _first(recipe, by_user, 0), _first(recipe, by_item, 1)
    user_strength = _strength(recipe, by_user, by_item.size)
    item_strength = _strength(recipe, by_item, by_user.size)
    reached = 0

    def make(number: int) -> Recommender:
        if number != reached:
            raise TrainingError(f"epoch {number} is past: ask for its recommender before the next")
        return folded(recipe, data, users, items)

    for reached in range(1, recipe.epochs + 1):
        began = time.perf_counter()
        solve(by_user, items, users, user_strength, recipe.steps, recipe.threads)
        solve(by_item, users, items, item_strength, recipe.steps, recipe.threads)
        loss = squared_error(by_user, users, items)
        loss += float(user_strength @ (users**2).sum(1) + item_strength @ (items**2).sum(1))
        yield Epoch(reached, time.perf_counter() - began, loss / len(data), make)


def _first(recipe: ImplicitALS, rows: Rows, side: int) -> np.ndarray:
    """float32 [rows, factors]; rows without entries have nothing to be random about."""
    rng = np.random.default_rng([recipe.seed, side])
    sd = np.float32(recipe.initial_sd / np.sqrt(recipe.factors))
    vectors = rng.standard_normal((rows.size, recipe.factors), np.float32) * sd
    return np.where(np.diff(rows.start)[:, None] > 0, vectors, np.float32(0))


def _strength(recipe: ImplicitALS, rows: Rows, columns: int) -> np.ndarray:
    """float32 [rows]: how tight each vector is held, by the weight of all its pairs."""
    total = np.concatenate([[0.0], np.cumsum(rows.value, dtype=np.float64)])
    weight = columns + total[rows.start[1:]] - total[rows.start[:-1]]
    return (recipe.regularization * weight**recipe.frequency).astype(np.float32)
