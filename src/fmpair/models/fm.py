"""Factorization machines of other learners: FM and FM-Map, point-wise, and GPFM, from pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fmpair import checks
from fmpair.arrays import Rows
from fmpair.data import Dataset, as_dataset
from fmpair.errors import DataError, OptionError, named
from fmpair.features import FeatureSpace
from fmpair.fitted.ranker import Scorer
from fmpair.fitted.scorers import MachineScorer, restored
from fmpair.models.fm_training import Ensemble, LabelledEvents, Strength, check, train, unobserved
from fmpair.training.epochs import Epoch
from fmpair.training.problem import check_trainable
from fmpair.training.trainable import TrainableRanker

TASKS = ("auto", "regression", "classification")
LEARNERS, MAP_LEARNERS = ("mcmc", "als", "sgd"), ("als", "sgd")
# Found on a validation part of MovieLens 100K, see docs/models/fm.md; MCMC only starts there.
STRENGTHS = {
    "mcmc": Strength(ids=1, fields=1, linear=1),
    "als": Strength(ids=1.3, fields=6, linear=0.8, power=0.5),
    "sgd": Strength(ids=0.12, fields=0.12, linear=0.03),
}
MAP_STRENGTHS = {
    "als": Strength(ids=1.1, fields=6, linear=1.1, power=0.5),
    "sgd": Strength(ids=0.1, fields=0.1, linear=0.1),
}
AVERAGED = 0.8  # share of these strengths with several starts: averaging regularises too


@dataclass(frozen=True)
class FM(TrainableRanker):
    """The standard factorization machine, trained point-wise on ratings or on events.

    The scores of the fitted model are its predictions.

    factors: length of the vectors. epochs: passes over the events; each is one draw of mcmc.
    learner: how to fit: mcmc (Gibbs sampling, which needs no regularisation), als (alternating
        least squares) or sgd.
    task: what to predict: regression (of ratings), classification (of ratings with two values, or
        of events against as many unobserved pairs), or auto: regression if there are ratings.
    order: 2 for pairs of features, 3 for triples too (sgd only).
    linear: whether features have a linear term; without it (sgd only) and with ids only this is
        plain matrix factorization.
    samples: for mcmc, the number of last draws to average.
    starts: the number of machines to average, each with its own initial vectors.
    learning_rate: step size of sgd; it decreases linearly to a tenth.
    regularization: one number, or a mapping with any of user, item, bias, context, user_features,
        item_features, or the name of a field; not used by mcmc.
    init_std: standard deviation of the initial vectors, of fields too.
    fields: options by column, see `Field`.
    threads: None uses all cores; the model does not depend on it. seed: of all random draws.
    """

    factors: int = 16
    epochs: int = 100
    learner: str = "mcmc"
    task: str = "auto"
    order: int = 2
    linear: bool = True
    samples: int = 80
    starts: int = 1
    learning_rate: float = 0.02
    regularization: float | Mapping[str, float] | None = None
    init_std: float = 0.1
    fields: Mapping[str, Any] = field(default_factory=dict)
    threads: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check(self, LEARNERS)
        checks.whole("samples", self.samples, 1)
        checks.whole("starts", self.starts, 1)
        checks.one_of("task", self.task, TASKS)
        if self.order not in (2, 3):
            raise OptionError(f"{named('order')} must be 2 or 3, not {self.order!r}")
        if self.order == 3 and self.learner != "sgd":
            raise OptionError(f"{named('order', 3)} requires {named('learner', 'sgd')}")
        if not self.linear and self.learner != "sgd":
            raise OptionError(f"{named('linear', False)} requires {named('learner', 'sgd')}")

    def train(self, data: Any) -> Iterator[Epoch]:
        """Yield an `Epoch` after each pass over the events; the caller may stop at any time."""
        events = as_dataset(data)
        binary = is_binary(self.task, events)
        parts = _chosen(events, self.seed) if binary else rated(events)
        strength = STRENGTHS[self.learner]
        if self.starts > 1:
            ids, fields = AVERAGED * strength.ids, AVERAGED * strength.fields
            strength = strength._replace(ids=ids, fields=fields)
        more = Ensemble(self.order, self.samples, self.starts, self.linear)
        return train(self, events, parts, binary, strength, more)

    def restore(
        self, arrays: Mapping[str, np.ndarray], space: FeatureSpace, seen: Rows
    ) -> MachineScorer:
        return restored(arrays, space)


@dataclass(frozen=True)
class FMMap(TrainableRanker):
    """A point-wise ranker: squared error of events at 1 and as many unobserved pairs at -1.

    factors: length of the vectors. epochs: passes over the examples.
    learner: als (alternating least squares) or sgd.
    learning_rate: step size of sgd; it decreases linearly to a tenth.
    regularization: one number, or a mapping with any of user, item, bias, context, user_features,
        item_features, or the name of a field.
    init_std: standard deviation of the initial vectors, of fields too.
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
        check(self, MAP_LEARNERS)

    def train(self, data: Any) -> Iterator[Epoch]:
        """Yield an `Epoch` after each pass over the events; the caller may stop at any time."""
        events = as_dataset(data)
        parts = chosen_or_not(events, self.seed)
        return train(self, events, parts, False, MAP_STRENGTHS[self.learner])

    def restore(
        self, arrays: Mapping[str, np.ndarray], space: FeatureSpace, seen: Rows
    ) -> MachineScorer:
        return restored(arrays, space)


def is_binary(task: str, events: Dataset) -> bool:
    return task == "classification" or (task == "auto" and events.column("rating") is None)


def rated(events: Dataset) -> list[LabelledEvents]:
    """Return the events with their ratings as labels."""
    rating = events.column("rating")
    if rating is None:
        raise DataError(
            f"{named('task', 'regression')} needs a column 'rating': add one, or use "
            f"{named('task', 'classification')}"
        )
    return [LabelledEvents(events, rating.astype(np.float64))]


def _chosen(events: Dataset, seed: int) -> list[LabelledEvents]:
    """Return examples of 1 and -1: by ratings of two values, else events and unobserved pairs."""
    rating = events.column("rating")
    values = np.zeros(0) if rating is None else np.unique(rating)
    if len(values) > 2:
        raise DataError(
            f"{named('task', 'classification')} needs ratings of two values, not {len(values)}: "
            f"use 1 and 0 (such as above and below the user's mean), or "
            f"{named('task', 'regression')}"
        )
    if rating is not None and len(values) == 2:
        return [LabelledEvents(events, np.where(rating == values[1], 1.0, -1.0))]
    return chosen_or_not(events, seed)


def chosen_or_not(events: Dataset, seed: int) -> list[LabelledEvents]:
    """Return the events at 1 and as many unobserved pairs at -1."""
    check_trainable(events)
    ones = np.ones(len(events))
    return [LabelledEvents(events, ones), LabelledEvents(unobserved(events, seed), -ones)]


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
