"""FM-Pair: a factorization machine that learns to rank, from pairs or from lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from fmpair.data import as_dataset
from fmpair.features import Field
from fmpair.features.history import AUTO
from fmpair.fitted.recommender import Recommender
from fmpair.training import loop, update
from fmpair.training.choice import settled
from fmpair.training.epoch import Epoch
from fmpair.training.options import FMPairOptions
from fmpair.training.recipe import TrainableRecipe

PAPER = {
    "loss": "bpr",
    "factors": 10,
    "epochs": 300,
    "learning_rate": 0.005,
    "final_rate_share": 1.0,
    "init_std": 0.1,
    "positives": "user",
    "weights": "none",
    "history": 0,
    "regularization": {"user": 0.0025, "item": 0.0025, "negative": 0.00025, "bias": 0.0},
}
FAST = {
    "loss": "bpr",
    "factors": 32,
    "epochs": 20,
    "learning_rate": 0.2,
    "regularization": {"user": 0.02, "item": 0.01},
}
BEST = {"factors": 128}


@dataclass(frozen=True)
class FMPair(FMPairOptions, TrainableRecipe):
    """FM-Pair: learns from pairs what to rank first, from ids, context and attributes.

    Its options are those of `FMPairOptions`, which describes each of them.
    """

    history: int | str | Mapping[str, Any] | Field | None = AUTO

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """As in the paper's experiments: 10 factors, 300 epochs, users drawn alike, plain pairs."""
        return cls(**{**PAPER, **changes})

    @classmethod
    def fast(cls, **changes: Any) -> Self:
        """A usable model in a twentieth of the time: pairs, fewer factors, longer steps."""
        return cls(**{**FAST, **changes})

    @classmethod
    def best(cls, **changes: Any) -> Self:
        """Often better rankings, at twice the cost or more: twice as many factors."""
        return cls(**{**BEST, **changes})

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn epoch by epoch; the caller owns the loop and may stop at any time."""
        events = as_dataset(data)
        return loop.train(self, settled(self, events), events)

    def update(
        self, model: Recommender, data: Any, epochs: int | None = None, replay: Any = 0.0
    ) -> Recommender:
        return update.update(model, self, as_dataset(data), epochs, replay=replay)

    def fold_in(self, model: Recommender, events: Any, epochs: int | None = None) -> Recommender:
        return update.fold_in(model, self, as_dataset(events), epochs)
