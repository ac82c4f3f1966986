"""BPR-MF: the paper's baseline, which is FM-Pair without any feature."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from fmpair.data import Dataset, as_dataset
from fmpair.features.layouts import columns_of, without_columns
from fmpair.fitted.recommender import Recommender
from fmpair.training import loop, update
from fmpair.training.epoch import Epoch
from fmpair.training.options import FMPairOptions
from fmpair.training.recipe import TrainableRecipe


@dataclass(frozen=True)
class BPRMF(TrainableRecipe):
    """Matrix factorization learned from pairs: FM-Pair that is shown users and items only.

    factors: length of the vectors. epochs: passes over the events.
    learning_rate: step length; it falls in a straight line to a tenth of itself.
    regularization: one number for user and item vectors, or a mapping with any of user, item,
        negative, bias.
    init_std: standard deviation of the first vectors.
    positives: how events are visited: permutation, bootstrap or user, as in FM-Pair.
    weights: how an event's weight counts: log, linear or none, as in FM-Pair.
    item_bias: whether items have a constant of their own; the paper's baseline has none.
    threads: None uses all cores; the model does not depend on it. seed: of all random draws.
    """

    factors: int = 64
    epochs: int = 60
    learning_rate: float = 0.1
    regularization: float | Mapping[str, float] | None = None
    init_std: float = 0.01
    positives: str = "permutation"
    weights: str = "log"
    item_bias: bool = False
    threads: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        self._options()

    def _options(self) -> FMPairOptions:
        own = {option.name: getattr(self, option.name) for option in fields(self)}
        return FMPairOptions(loss="bpr", **own)

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn epoch by epoch; the caller owns the loop and may stop at any time."""
        return loop.train(self, self._options(), ids_only(data))

    def update(
        self, model: Recommender, data: Any, epochs: int | None = None, replay: Any = 0.0
    ) -> Recommender:
        return update.update(model, self._options(), ids_only(data), epochs, replay=replay)

    def fold_in(self, model: Recommender, events: Any, epochs: int | None = None) -> Recommender:
        return update.fold_in(model, self._options(), ids_only(events), epochs)


def ids_only(data: Any) -> Dataset:
    """The events without context and attributes."""
    events = as_dataset(data)
    return without_columns(events, list(columns_of(events)))
