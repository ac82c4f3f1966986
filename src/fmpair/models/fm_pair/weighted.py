"""Weighted FM-Pair: one learned weight per field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fmpair import checks
from fmpair.arrays import Rows
from fmpair.data import as_dataset
from fmpair.engine.contract import Parameters, Problem
from fmpair.errors import OptionError, unknown
from fmpair.features import FeatureSpace
from fmpair.models.fm_pair.field_weight import better, draw_pairs, parts_of
from fmpair.models.fm_pair.recipe import FMPair
from fmpair.training.loop import (
    PARTITION_EVERY,
    Epoch,
    check_trainable,
    initial,
    problem_of,
    settings_of,
)
from fmpair.training.rounds import refuse_cosines, rounds

if TYPE_CHECKING:
    from fmpair.engine.contract import Training

ASIDE = 0.1  # share of the events that weights are learned from while vectors are not


@dataclass(frozen=True)
class FMPairWeighted(FMPair):
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
        for name, weight in self.field_weights.items():
            checks.not_negative(f"weight of field {name!r}", weight)

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn epoch by epoch; the caller owns the loop and may stop at any time."""
        events = as_dataset(data)
        check_trainable(events)
        space = FeatureSpace.fit(events, self.fields, self.normalize)
        if not (space.query.encoders or space.item.encoders):
            return super().train(events)
        problem = problem_of(self, space, events)
        return rounds(self, space, problem, events, _Learner(self, space, problem))


def field_names(space: FeatureSpace) -> list[str]:
    """The names of all fields, query side first; with the side in front where a name recurs."""
    encoders = (*space.query.encoders, *space.item.encoders)
    names = [e.name for e in encoders]
    return [e.name if names.count(e.name) == 1 else f"{e.role}.{e.name}" for e in encoders]


def scaled_problem(problem: Problem, weights: np.ndarray) -> Problem:
    """The problem with the values of every field multiplied by its weight: float32 [fields]."""
    query, item = problem.query_groups.field, problem.item_groups.field + _query_fields(problem)

    def scaled(rows: Rows, fields: np.ndarray) -> Rows:
        if not len(rows.column):
            return rows
        factor = weights[fields[rows.column]].astype(np.float32)
        return rows._replace(value=rows.value * factor)

    return problem._replace(
        contexts=scaled(problem.contexts, query),
        user_rows=scaled(problem.user_rows, query),
        item_rows=scaled(problem.item_rows, item),
    )


def folded(parameters: Parameters, problem: Problem, weights: np.ndarray) -> Parameters:
    """Parameters that score plain values as the given ones score values times weights."""
    query = weights[problem.query_groups.field].astype(np.float32)
    item = weights[problem.item_groups.field + _query_fields(problem)].astype(np.float32)
    return parameters._replace(
        query=parameters.query * query[:, None],
        features=parameters.features * item[:, None],
        feature_bias=parameters.feature_bias * item,
    )


def _query_fields(problem: Problem) -> int:
    """How many fields the query side has."""
    return int(problem.query_groups.field.max(initial=-1)) + 1


class _Learner:
    """In the first half of the epochs vectors and weights take turns, from events set apart."""

    def __init__(self, recipe: FMPairWeighted, space: FeatureSpace, problem: Problem):
        from fmpair.engine import engine

        self.options, self.problem, self.names = recipe, problem, field_names(space)
        for name in recipe.field_weights:
            if name not in self.names:
                raise OptionError(unknown("field", name, self.names))
        self.weights = np.array([recipe.field_weights.get(name, 1.0) for name in self.names])
        self.settings = settings_of(recipe, space, problem)
        self.half = recipe.epochs // 2
        rng = np.random.default_rng([recipe.seed, 5])
        self.aside = rng.random(len(problem.user)) < (ASIDE if self.half else 0.0)
        first = initial(recipe, space)
        self.state: Training = engine("cpu").begin(self._current(self.aside), first, self.settings)

    def epoch(self, number: int, rate: float) -> float:
        from fmpair.engine import engine

        done = number - 1
        if done and (done == self.half or (done < self.half and done % PARTITION_EVERY == 0)):
            learned = self.state.snapshot()
            self._learn_weights(learned, number)
            aside = self.aside if done < self.half else np.zeros_like(self.aside)
            self.state = engine("cpu").begin(self._current(aside), learned, self.settings)
        return self.state.epoch(number, rate)

    def _learn_weights(self, learned: Parameters, number: int) -> None:
        rng = np.random.default_rng([self.options.seed, 6, number])
        pairs = draw_pairs(self.problem, np.flatnonzero(self.aside), rng)
        if len(pairs.user):
            self.weights = better(self.weights, parts_of(learned, self.problem, pairs))

    def _current(self, known: np.ndarray) -> Problem:
        return scaled_problem(self.problem._replace(known=known), self.weights)

    def parameters(self) -> Parameters:

        return folded(self.state.snapshot(), self.problem, self.weights)

    @property
    def recipe(self) -> FMPairWeighted:
        weights = dict(zip(self.names, np.round(self.weights, 6).tolist()))
        return replace(self.options, field_weights=weights)
