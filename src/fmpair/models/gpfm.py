"""GPFM: Gaussian process factorization machines, learned from pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fmpair import checks
from fmpair.arrays import Rows
from fmpair.data import as_dataset
from fmpair.errors import OptionError
from fmpair.features import FeatureSpace
from fmpair.fitted.ranker import Scorer
from fmpair.training.epochs import Epoch
from fmpair.training.problem import check_trainable
from fmpair.training.trainable import TrainableRanker


@dataclass(frozen=True)
class GPFM(TrainableRanker):
    """A Gaussian process per user over vectors of items and context values, learned from pairs.

    factors: length of the vectors. epochs: passes over the users.
    learning_rate, momentum: of gradient ascent on the likelihood.
    pairs: largest number of pairs per user and epoch; time grows with its cube, memory with its
        square.
    initial_noise: lower bound of a user's initial noise; the upper bound is twice as large.
    max_gb: memory limit.
    threads: None uses all cores; the model does not depend on it. seed: of all random draws.
    """

    factors: int = 8
    epochs: int = 20
    learning_rate: float = 5e-4
    momentum: float = 0.9
    pairs: int = 50
    initial_noise: float = 1.0
    max_gb: float = 8.0
    threads: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("factors", "epochs", "pairs"):
            checks.whole(name, getattr(self, name), 1)
        for name in ("learning_rate", "initial_noise", "max_gb"):
            checks.positive(name, getattr(self, name))
        checks.not_negative("momentum", self.momentum)
        if self.momentum >= 1:
            raise OptionError(f"momentum must be a number below 1, not {self.momentum!r}")
        checks.threads(self.threads)
        checks.whole("seed", self.seed, 0)

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn epoch by epoch; the loss is the mean negative log likelihood of users."""
        from fmpair.models.gaussian_process_scorer import check_memory, train

        events = as_dataset(data)
        check_trainable(events)
        check_memory(self, events)
        return train(self, events)

    def restore(self, arrays: Mapping[str, np.ndarray], space: FeatureSpace, seen: Rows) -> Scorer:
        from fmpair.models.gaussian_process_scorer import restored

        return restored(arrays, space)
