"""BPR-MF: the paper's baseline, which is FM-Pair without any feature."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from fmpair.data import Dataset, as_dataset
from fmpair.features.layouts import columns_of, without_columns
from fmpair.fitted.recommender import Recommender
from fmpair.models.fm_pair.recipe import FMPair
from fmpair.training.loop import Epoch


@dataclass(frozen=True)
class BPRMF:
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
        self._recipe()

    def _recipe(self) -> FMPair:
        own = {option.name: getattr(self, option.name) for option in fields(self)}
        return FMPair(loss="bpr", **own)

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn epoch by epoch; the caller owns the loop and may stop at any time."""
        return self._recipe().train(ids_only(as_dataset(data)))

    def fit(self, data: Any, *, validation: Any = None, **policy: Any) -> Recommender:
        """Learn from a Dataset or a frame; the parameters are those of `FMPair.fit`.

        The recipe of what comes out is the FM-Pair that was fitted: it can go on learning.
        """
        if validation is not None and not isinstance(validation, int | float):
            validation = ids_only(as_dataset(validation))
        return self._recipe().fit(ids_only(as_dataset(data)), validation=validation, **policy)


def ids_only(data: Dataset) -> Dataset:
    """The events without context and attributes."""
    return without_columns(data, list(columns_of(data)))
