"""Training in which the values of every field are multiplied by a weight, learned or fixed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows
from fmpair.engine.contract import Pairs, Parameters, Problem, Training
from fmpair.features import FeatureSpace
from fmpair.models.fm_pair.field_weight import better, draw_pairs, parts_of
from fmpair.training import loop
from fmpair.training.loop import Task
from fmpair.training.problem import PARTITION_EVERY

ASIDE = 0.1  # share of the events that weights are learned from while vectors are not


class FeatureWeights(NamedTuple):
    """The weight of every feature's field: float32 [query features], float32 [item features]."""

    query: np.ndarray
    item: np.ndarray


def by_feature(space: FeatureSpace, weights: np.ndarray) -> FeatureWeights:
    """weights: float [fields], those of the query side first."""
    query, item = np.split(weights.astype(np.float32), [len(space.query.encoders)])
    return FeatureWeights(query[space.query.field_numbers()], item[space.item.field_numbers()])


def scaled_problem(problem: Problem, weights: FeatureWeights) -> Problem:
    """The problem with the values of every field multiplied by its weight."""

    def scaled(rows: Rows, by: np.ndarray) -> Rows:
        return rows._replace(value=rows.value * by[rows.column])

    return problem._replace(
        contexts=scaled(problem.contexts, weights.query),
        user_rows=scaled(problem.user_rows, weights.query),
        item_rows=scaled(problem.item_rows, weights.item),
    )


def folded(parameters: Parameters, weights: FeatureWeights) -> Parameters:
    """Parameters that score plain values as the given ones score values times weights."""
    return parameters._replace(
        query=parameters.query * weights.query[:, None],
        features=parameters.features * weights.item[:, None],
        feature_bias=parameters.feature_bias * weights.item,
    )


def unfolded(parameters: Parameters, weights: FeatureWeights) -> Parameters:
    """Parameters that `folded` gives back; a field of weight 0 says nothing, so it has zeros."""
    inverse = [np.divide(1, by, out=np.zeros_like(by), where=by > 0) for by in weights]
    return folded(parameters, FeatureWeights(*inverse))


class WeightTraining:
    """In the first half of the epochs vectors and weights take turns, from events set apart."""

    def __init__(self, task: Task, first: Parameters, weights: np.ndarray):
        self.task, self.weights = task, weights
        self.half = task.options.epochs // 2
        rng = np.random.default_rng([task.options.seed, 5])
        self.aside = rng.random(len(task.problem.user)) < (ASIDE if self.half else 0.0)
        self.inner = self._begin(first, self.aside)

    def epoch(self, number: int, rate: float) -> float:
        done = number - 1
        if done and (done == self.half or (done < self.half and done % PARTITION_EVERY == 0)):
            self.inner.close()
            learned = self.inner.snapshot()
            self._learn_weights(learned, number)
            aside = self.aside if done < self.half else np.zeros_like(self.aside)
            self.inner = self._begin(learned, aside)
        return self.inner.epoch(number, rate)

    def _begin(self, first: Parameters, known: np.ndarray) -> Training:
        """Vectors are learned from all events but those that are only known."""
        problem = scaled_problem(self.task.problem._replace(known=known), self._by_feature())
        return loop.start(problem, first, self.task.settings)

    def _learn_weights(self, learned: Parameters, number: int) -> None:
        problem = self.task.problem
        rng = np.random.default_rng([self.task.options.seed, 6, number])
        pairs = draw_pairs(problem, np.flatnonzero(self.aside), rng)
        if len(pairs.user):
            self.weights = better(self.weights, parts_of(learned, problem, pairs))

    def _by_feature(self) -> FeatureWeights:
        return by_feature(self.task.space, self.weights)

    def learn_pairs(self, pairs: Pairs, rate: float) -> float:
        return self.inner.learn_pairs(pairs, rate)

    def largest(self) -> float:
        return self.inner.largest()

    def snapshot(self) -> Parameters:
        return folded(self.inner.snapshot(), self._by_feature())

    def close(self) -> None:
        self.inner.close()


@dataclass(frozen=True)
class FixedWeightTraining:
    """Training of vectors alone; it starts from vectors that do not have the weights in them."""

    inner: Training
    weights: FeatureWeights

    @classmethod
    def of(
        cls, task: Task, first: Parameters, frozen: Collection[str], weights: np.ndarray
    ) -> FixedWeightTraining:
        own = by_feature(task.space, weights)
        scaled = replace(task, problem=scaled_problem(task.problem, own))
        return cls(loop.begin(scaled, first, frozen), own)

    def epoch(self, number: int, rate: float) -> float:
        return self.inner.epoch(number, rate)

    def learn_pairs(self, pairs: Pairs, rate: float) -> float:
        return self.inner.learn_pairs(pairs, rate)

    def largest(self) -> float:
        return self.inner.largest()

    def snapshot(self) -> Parameters:
        return folded(self.inner.snapshot(), self.weights)

    def close(self) -> None:
        self.inner.close()
