"""Weighted FM-Pair: one learned weight per field.

The weights minimise the pairwise loss on held-out events by Newton's method. Steps of the weights
alternate with the training of the vectors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from fmpair import checks
from fmpair.arrays import Rows
from fmpair.data import as_dataset
from fmpair.engine.contract import Pairs, Parameters, Problem, Training
from fmpair.errors import OptionError, unknown
from fmpair.features import FeatureSpace
from fmpair.fitted.recommender import Recommender
from fmpair.training import loop, update
from fmpair.training.epochs import Epoch, with_models
from fmpair.training.loop import Task
from fmpair.training.options import FMPairOptions, require_plain_scores
from fmpair.training.problem import PARTITION_EVERY
from fmpair.training.start import initial
from fmpair.training.trainable import TrainableRecipe

MAX_PAIRS = 20_000  # enough to estimate a few weights
TRIES = 20  # attempts to draw an unobserved item
STEPS = 20  # most steps of Newton's method
PRIOR_SD, SHARPNESS_SD = 0.5, 5.0  # standard deviations of the priors; their mean is 1
MAX_WEIGHT = 20.0  # largest weight, and largest sharpness
ASIDE = 0.1  # share of the events that only weights are learned from


# The recipe.


@dataclass(frozen=True)
class FMPairWeighted(FMPairOptions, TrainableRecipe):
    """FM-Pair with one learned weight per field, which multiplies all values of the field.

    field_weights: initial weights by column, 1 by default. The recipe of the fitted model has the
        learned ones.

    All other options are those of FM-Pair.
    """

    epochs: int = 60
    loss: str = "bpr"
    field_weights: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_plain_scores(self)
        for name, weight in self.field_weights.items():
            checks.not_negative(f"weight of field {name!r}", weight)

    @property
    def regresses(self) -> bool:
        return False  # weights of fields are learned from steps on all of them

    def train(self, data: Any) -> Iterator[Epoch]:
        """Yield an `Epoch` after each pass over the events; the caller may stop at any time."""
        task = Task.of(self, self, as_dataset(data))
        first, names = initial(self, task.space), field_names(task.space)
        if not names:
            return loop.learn(task, loop.begin(task, first))
        training = WeightTraining(task, first, self._weights(names))

        def with_learned(model: Recommender) -> Recommender:
            weights = dict(zip(names, np.round(training.weights, 6).tolist()))
            return model.replaced(recipe=replace(self, field_weights=weights))

        return with_models(loop.learn(task, training), with_learned)

    def update(
        self, model: Recommender, data: Any, epochs: int | None = None, replay: Any = 0.0
    ) -> Recommender:
        """Learn vectors from new events; the weights do not change."""
        weights = self._weights(field_names(model.space))

        def begin(task: Task, first: Parameters, frozen: Collection[str]) -> Training:
            scaled = scaled_problem(task.problem, by_feature(task.space, weights))
            return loop.begin(replace(task, problem=scaled), first, frozen)

        plain = without_weights(model.parameters, by_feature(model.space, weights))
        plain_model, events = model.replaced(parameters=plain), as_dataset(data)
        updated = update.update(plain_model, self, events, epochs, begin, replay)
        weighted = with_weights(updated.parameters, by_feature(updated.space, weights))
        return updated.replaced(parameters=weighted)

    def fold_in(self, model: Recommender, events: Any, epochs: int | None = None) -> Recommender:
        """Learn users against vectors that include the weights."""
        return update.fold_in(model, self, as_dataset(events), epochs)

    def _weights(self, names: list[str]) -> np.ndarray:
        """Return the weights by field: float64 [fields]; raise OptionError for unknown fields."""
        for name in self.field_weights:
            if name not in names:
                raise OptionError(unknown("field", name, names))
        return np.array([self.field_weights.get(name, 1.0) for name in names])


def field_names(space: FeatureSpace) -> list[str]:
    """Return the names of all fields, query side first; role.name if a name occurs twice."""
    encoders = (*space.query.encoders, *space.item.encoders)
    names = [e.name for e in encoders]
    return [e.name if names.count(e.name) == 1 else f"{e.role}.{e.name}" for e in encoders]


# Learning weights: the pairwise loss as a function of them.


class ItemParts(NamedTuple):
    """Items by field: vectors [fields, n, k], constants and squared norms [fields, n]."""

    id_vectors: np.ndarray
    id_biases: np.ndarray
    vectors: np.ndarray
    biases: np.ndarray
    squares: np.ndarray


class MarginParts(NamedTuple):
    """The parts of the margins of pairs that weights apply to.

    user: [n, k]; query: [query fields, n, k].
    """

    user: np.ndarray
    query: np.ndarray
    positive: ItemParts
    negative: ItemParts


def draw_pairs(problem: Problem, events: np.ndarray, rng: np.random.Generator) -> Pairs:
    """Pair each event (or a sample) with a uniform item that the user has no event with."""
    if len(events) > MAX_PAIRS:
        events = np.sort(rng.permutation(events)[:MAX_PAIRS])
    user, positive = problem.user[events].astype(np.int64), problem.item[events]
    seen = np.unique(problem.user.astype(np.int64) * problem.items + problem.item)
    offered = np.flatnonzero(problem.drawn)
    negative = rng.choice(offered, len(events))
    for _ in range(TRIES):
        hit = np.flatnonzero(np.isin(user * problem.items + negative, seen))
        negative[hit] = rng.choice(offered, len(hit))
    valid = ~np.isin(user * problem.items + negative, seen)
    situation, weight = problem.situation[events], problem.weight[events]
    return Pairs(*(column[valid] for column in (user, positive, negative, situation, weight)))


def parts_of(parameters: Parameters, problem: Problem, pairs: Pairs) -> MarginParts:
    """Return the vectors of every field in every pair."""
    tables = Parameters(*(table.astype(np.float64) for table in parameters))
    fields = problem.query_groups.field
    sources = (problem.contexts.take(pairs.situation), problem.user_rows.take(pairs.user))
    count = int(fields.max(initial=-1)) + 1
    query = np.zeros((count, len(pairs.user), tables.users.shape[1]))
    for number in range(count):
        for rows in sources:
            query[number] += _of_field(rows, fields, number).dot(tables.query)
    items = (_item_parts(tables, problem, item) for item in (pairs.positive, pairs.negative))
    return MarginParts(tables.users[pairs.user], query, *items)


def _item_parts(tables: Parameters, problem: Problem, item: np.ndarray) -> ItemParts:
    fields = problem.item_groups.field
    count = int(fields.max(initial=-1)) + 1
    every = problem.item_rows.take(item)
    rows = [_of_field(every, fields, number) for number in range(count)]
    lengths = (tables.features**2).sum(axis=1, keepdims=True)
    vectors = [side_rows.dot(tables.features) for side_rows in rows]
    biases = [side_rows.dot(tables.feature_bias[:, None])[:, 0] for side_rows in rows]
    squares = [
        side_rows._replace(value=side_rows.value**2).dot(lengths)[:, 0] for side_rows in rows
    ]
    shape = (count, len(item))
    return ItemParts(
        tables.items[item],
        tables.item_bias[item],
        np.reshape(vectors, (*shape, tables.items.shape[1])),
        np.reshape(biases, shape),
        np.reshape(squares, shape),
    )


def _of_field(rows: Rows, fields: np.ndarray, number: int) -> Rows:
    """Return the rows with the values of one field only, in double precision."""
    in_field = fields[rows.column] == number if len(rows.column) else np.zeros(0, bool)
    return rows._replace(value=np.where(in_field, rows.value, 0.0).astype(np.float64))


def margins(weights: np.ndarray, parts: MarginParts) -> tuple[np.ndarray, np.ndarray]:
    """Return the margins g [n] of the chosen items and dg/dweight [fields, n]."""
    of_query, of_item = np.split(weights, [len(parts.query)])
    q = parts.user + np.einsum("f,fnk->nk", of_query, parts.query)
    sides = [_side(q, of_item, part) for part in (parts.positive, parts.negative)]
    (p, score, slopes), (other, below, less) = sides
    towards = np.einsum("fnk,nk->fn", parts.query, p - other)
    return score - below, np.concatenate([towards, slopes - less])


def _side(
    q: np.ndarray, weights: np.ndarray, part: ItemParts
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return item vectors p, scores, and d score / d weight of each item field."""
    p = part.id_vectors + np.einsum("f,fnk->nk", weights, part.vectors)
    alone = (part.id_vectors**2).sum(axis=1) + weights**2 @ part.squares
    inner = 0.5 * ((p * p).sum(axis=1) - alone)
    score = (q * p).sum(axis=1) + part.id_biases + weights @ part.biases + inner
    slopes = np.einsum("fnk,nk->fn", part.vectors, q + p) + part.biases
    return p, score, slopes - weights[:, None] * part.squares


def loss(point: np.ndarray, parts: MarginParts) -> tuple[float, np.ndarray, np.ndarray]:
    """Return mean -ln sigma(sharpness * g) plus the priors, its gradient, and its curvature.

    point: the weights, then the sharpness. The curvature is the Gauss-Newton matrix.
    """
    weights, sharpness = point[:-1], point[-1]
    g, slopes = margins(weights, parts)
    slopes = np.vstack([sharpness * slopes, g])
    pull = 1 / (len(g) * np.append(np.full(len(weights), PRIOR_SD), SHARPNESS_SD) ** 2)
    wrong = 1 / (1 + np.exp(np.minimum(sharpness * g, 500)))
    value = np.logaddexp(0, -sharpness * g).mean() + (pull / 2 * (point - 1) ** 2).sum()
    gradient = -(wrong * slopes).mean(axis=1) + pull * (point - 1)
    curvature = (slopes * (wrong * (1 - wrong))) @ slopes.T / len(g) + np.diag(pull)
    return float(value), gradient, curvature


def better(weights: np.ndarray, parts: MarginParts) -> np.ndarray:
    """Return weights with a smaller loss: float64 [fields], at least 0.

    The sharpness absorbs margins that are too small or too large overall, as at the start of
    training, so that weights do not; it is then dropped.
    """
    point = np.append(weights, 1.0)
    value, gradient, curvature = loss(point, parts)
    for _ in range(STEPS):
        step = np.linalg.solve(curvature, gradient)
        for share in (1.0, 0.5, 0.25, 0.1):
            tried = np.clip(point - share * step, 0.0, MAX_WEIGHT)
            result = loss(tried, parts)
            if result[0] < value:
                break
        else:
            break
        point, (value, gradient, curvature) = tried, result
    return point[:-1]


# Training with weights, learned or fixed.


class FeatureWeights(NamedTuple):
    """The weight of every feature's field: float32 [query features], float32 [item features]."""

    query: np.ndarray
    item: np.ndarray


def by_feature(space: FeatureSpace, weights: np.ndarray) -> FeatureWeights:
    """Return the weight of each feature; weights: float [fields], query side first."""
    query, item = np.split(weights.astype(np.float32), [len(space.query.encoders)])
    return FeatureWeights(query[space.query.field_numbers()], item[space.item.field_numbers()])


def scaled_problem(problem: Problem, weights: FeatureWeights) -> Problem:
    """Return the problem with the values of every field multiplied by its weight."""

    def scaled(rows: Rows, by: np.ndarray) -> Rows:
        return rows._replace(value=rows.value * by[rows.column])

    return problem._replace(
        contexts=scaled(problem.contexts, weights.query),
        user_rows=scaled(problem.user_rows, weights.query),
        item_rows=scaled(problem.item_rows, weights.item),
    )


def with_weights(parameters: Parameters, weights: FeatureWeights) -> Parameters:
    """Return parameters multiplied by the weights, for values that are not."""
    return parameters._replace(
        query=parameters.query * weights.query[:, None],
        features=parameters.features * weights.item[:, None],
        feature_bias=parameters.feature_bias * weights.item,
    )


def without_weights(parameters: Parameters, weights: FeatureWeights) -> Parameters:
    """Return parameters divided by the weights; 0 for fields of weight 0."""
    inverse = [np.divide(1, by, out=np.zeros_like(by), where=by > 0) for by in weights]
    return with_weights(parameters, FeatureWeights(*inverse))


class WeightTraining:
    """Training of vectors and, in the first half of the epochs, of weights on events set aside."""

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
        """Start training vectors on all events but the known ones."""
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
        return with_weights(self.inner.snapshot(), self._by_feature())

    def close(self) -> None:
        self.inner.close()
