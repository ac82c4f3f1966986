"""Weighted FM-Pair: one learned weight per field."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fmpair import checks
from fmpair.data import as_dataset
from fmpair.engine.contract import Parameters, Training
from fmpair.errors import OptionError, unknown
from fmpair.features import FeatureSpace
from fmpair.fitted.recommender import Recommender
from fmpair.models.fm_pair.weight_training import (
    FixedWeightTraining,
    WeightTraining,
    by_feature,
    unfolded,
)
from fmpair.training import loop, update
from fmpair.training.epoch import Epoch, with_models
from fmpair.training.loop import Task
from fmpair.training.options import (
    FMPairOptions,
    refuse_cosines,
    refuse_histories,
    refuse_triples,
)
from fmpair.training.problem import initial
from fmpair.training.recipe import TrainableRecipe


@dataclass(frozen=True)
class FMPairWeighted(FMPairOptions, TrainableRecipe):
    """FM-Pair with one learned weight per field, which multiplies all values of the field.

    field_weights: where the weights begin, by column; 1 unless given. The recipe of the fitted
        model holds those learned.

    All other options are those of FM-Pair.
    """

    epochs: int = 60
    loss: str = "bpr"
    field_weights: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_cosines(self)
        refuse_histories(self)
        refuse_triples(self)
        for name, weight in self.field_weights.items():
            checks.not_negative(f"weight of field {name!r}", weight)

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn epoch by epoch; the caller owns the loop and may stop at any time."""
        task = Task.of(self, self, as_dataset(data))
        first, names = initial(self, task.space), field_names(task.space)
        if not names:
            return loop.learn(task, loop.begin(task, first))
        training = WeightTraining(task, first, self._weights(names))

        def with_weights(model: Recommender) -> Recommender:
            weights = dict(zip(names, np.round(training.weights, 6).tolist()))
            return model.replaced(recipe=replace(self, field_weights=weights))

        return with_models(loop.learn(task, training), with_weights)

    def update(
        self, model: Recommender, data: Any, epochs: int | None = None, replay: Any = 0.0
    ) -> Recommender:
        """The weights stay as they were learned: new events teach vectors alone."""
        weights = self._weights(field_names(model.space))

        def begin(task: Task, first: Parameters, frozen: Collection[str]) -> Training:
            return FixedWeightTraining.of(task, first, frozen, weights)

        plain = unfolded(model.parameters, by_feature(model.space, weights))
        return update.update(
            model.replaced(parameters=plain), self, as_dataset(data), epochs, begin, replay
        )

    def fold_in(self, model: Recommender, events: Any, epochs: int | None = None) -> Recommender:
        """Users are learned against vectors that have the weights in them already."""
        return update.fold_in(model, self, as_dataset(events), epochs)

    def _weights(self, names: list[str]) -> np.ndarray:
        """float64 [fields]: the weights by field; one of a field that is not there is refused."""
        for name in self.field_weights:
            if name not in names:
                raise OptionError(unknown("field", name, names))
        return np.array([self.field_weights.get(name, 1.0) for name in names])


def field_names(space: FeatureSpace) -> list[str]:
    """The names of all fields, query side first; with the side in front where a name recurs."""
    encoders = (*space.query.encoders, *space.item.encoders)
    names = [e.name for e in encoders]
    return [e.name if names.count(e.name) == 1 else f"{e.role}.{e.name}" for e in encoders]
