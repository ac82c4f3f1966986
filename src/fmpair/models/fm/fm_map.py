"""FM-Map: a factorization machine that maps events to 1 and unobserved pairs to -1."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fmpair.arrays import Rows
from fmpair.data import as_dataset
from fmpair.features import FeatureSpace
from fmpair.fitted.machine import MachineScorer, restored
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recipe import Recipe
from fmpair.models.fm.pointwise import Strength, check, train
from fmpair.models.fm.recipe import chosen_or_not
from fmpair.training.early_stopping import best_fit
from fmpair.training.epoch import Epoch

LEARNERS = ("als", "sgd")
# Found on a validation part of MovieLens 100K, see docs/models/fm.md.
USUAL = {
    "als": Strength(ids=1.1, fields=6, linear=1.1, power=0.5),
    "sgd": Strength(ids=0.1, fields=0.1, linear=0.1),
}


@dataclass(frozen=True)
class FMMap(Recipe):
    """A point-wise ranker: events are 1, as many uniform unobserved pairs -1, the error squared.

    factors: length of the vectors. epochs: passes over the examples.
    learner: by als (least squares coordinate by coordinate) or sgd.
    learning_rate: step length of sgd; it falls in a straight line to a tenth of itself.
    regularization: one number, or a mapping with any of user, item, bias, context, user_features,
        item_features, or the name of a field.
    init_std: standard deviation of the first vectors, those of fields too.
    fields: options by column, see `Field`.
    threads: None uses all cores; the model does not depend on it. seed: of all random draws.
    """

    factors: int = 16
    epochs: int = 50
    learner: str = "als"
    learning_rate: float = 0.02
    regularization: float | Mapping[str, float] | None = None
    init_std: float = 0.1
    fields: Mapping[str, Any] = field(default_factory=dict)
    threads: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check(self, LEARNERS)

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn pass by pass; the caller owns the loop and may stop at any time."""
        events = as_dataset(data)
        parts = chosen_or_not(events, self.seed)
        return train(self, events, parts, False, USUAL[self.learner])

    def fit(
        self,
        data: Any,
        *,
        seed: int | None = None,
        progress: bool | Callable[[Epoch], None] = False,
    ) -> Ranker:
        """Learn from a Dataset or a frame (user, item, every other column context)."""
        return best_fit(self, data, seed, progress)

    def restore(
        self, arrays: Mapping[str, np.ndarray], space: FeatureSpace, seen: Rows
    ) -> MachineScorer:
        """The scorer of a saved model."""
        return restored(arrays, space)
