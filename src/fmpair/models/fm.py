"""The point-wise factorization machine and FM-Map."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fmpair import checks
from fmpair.arrays import Rows
from fmpair.data import Dataset, as_dataset
from fmpair.errors import DataError, OptionError, named
from fmpair.features import FeatureSpace
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recipe import Recipe
from fmpair.fitted.scorers import MachineScorer, restored
from fmpair.models.fm_training import Ensemble, Part, Strength, check, train, unobserved
from fmpair.models.old_places import moved
from fmpair.training.epochs import Epoch, best_fit
from fmpair.training.problem import check_trainable


def __getattr__(name: str) -> Any:
    raise moved(__name__, name)


# The standard factorization machine: predicts ratings, or whether an event happens.


TASKS = ("auto", "regression", "classification")
LEARNERS = ("mcmc", "als", "sgd")
# Found on a validation part of MovieLens 100K, see docs/models/fm.md; MCMC only starts there.
USUAL = {
    "mcmc": Strength(ids=1, fields=1, linear=1),
    "als": Strength(ids=1.3, fields=6, linear=0.8, power=0.5),
    "sgd": Strength(ids=0.12, fields=0.12, linear=0.03),
}
# Of the usual strength of vectors: a mean of several machines is held back by being a mean.
AVERAGED = 0.8


@dataclass(frozen=True)
class FM(Recipe):
    """The standard factorization machine, learned from ratings or yes and no, one event at a time.

    factors: length of the vectors. epochs: passes over the events; each is a draw of mcmc.
    learner: by mcmc (Gibbs sampling, which needs no regularisation), als (least squares
        coordinate by coordinate) or sgd.
    task: one of regression (of the rating), classification (of a rating with two values, or of
        events against as many unobserved pairs), or auto: regression where there are ratings.
    order: 2 for pairs of features, 3 for triples too (sgd only).
    linear: whether features have a term of their own; without (sgd only) and with ids alone it is
        plain matrix factorization.
    samples: for mcmc, how many of the last draws the model is the mean of.
    starts: how many machines, each from first vectors of its own, the model is the mean of.
    learning_rate: step length of sgd; it falls in a straight line to a tenth of itself.
    regularization: one number, or a mapping with any of user, item, bias, context, user_features,
        item_features, or the name of a field; mcmc finds its own.
    init_std: standard deviation of the first vectors, those of fields too.
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
            raise OptionError(f"order must be 2 or 3, not {self.order!r}")
        if self.order == 3 and self.learner != "sgd":
            raise OptionError(f"order 3 is learned by sgd only, not by {self.learner}")
        if not self.linear and self.learner != "sgd":
            raise OptionError(
                f"a machine without linear terms is learned by {named('learner', 'sgd')} only, not "
                f"by {self.learner}"
            )

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn pass by pass; the caller owns the loop and may stop at any time."""
        events = as_dataset(data)
        binary = is_binary(self.task, events)
        parts = _chosen(events, self.seed) if binary else rated(events)
        usual = USUAL[self.learner]
        if self.starts > 1:
            usual = usual._replace(ids=AVERAGED * usual.ids, fields=AVERAGED * usual.fields)
        more = Ensemble(self.order, self.samples, self.starts, self.linear)
        return train(self, events, parts, binary, usual, more)

    def fit(
        self,
        data: Any,
        *,
        seed: int | None = None,
        progress: bool | Callable[[Epoch], None] = False,
    ) -> Ranker:
        """Learn from a Dataset or a frame; scores of the fitted model are its predictions.

        progress: True shows a bar; a function is called with every epoch.
        """
        return best_fit(self, data, seed, progress)

    def restore(
        self, arrays: Mapping[str, np.ndarray], space: FeatureSpace, seen: Rows
    ) -> MachineScorer:
        """The scorer of a saved model."""
        return restored(arrays, space)


def is_binary(task: str, events: Dataset) -> bool:
    """Whether yes and no are to be told apart, or ratings predicted."""
    return task == "classification" or (task == "auto" and events.column("rating") is None)


def rated(events: Dataset) -> list[Part]:
    """The events, to score as they are rated."""
    rating = events.column("rating")
    if rating is None:
        raise DataError(
            f"{named('task', 'regression')} predicts ratings, and the data have no column "
            f"'rating': add one, or say {named('task', 'classification')}"
        )
    return [Part(events, rating.astype(np.float64))]


def _chosen(events: Dataset, seed: int) -> list[Part]:
    """Yes (1) and no (-1): by the rating where it has two values, else events and no events."""
    rating = events.column("rating")
    values = np.zeros(0) if rating is None else np.unique(rating)
    if len(values) > 2:
        raise DataError(
            f"{named('task', 'classification')} needs ratings of two values, and there are "
            f"{len(values)}: make them 1 and 0 (such as above and below the user's mean) or say "
            f"{named('task', 'regression')}"
        )
    if rating is not None and len(values) == 2:
        return [Part(events, np.where(rating == values[1], 1.0, -1.0))]
    return chosen_or_not(events, seed)


def chosen_or_not(events: Dataset, seed: int) -> list[Part]:
    """The events at 1 and as many unobserved pairs at -1."""
    check_trainable(events)
    ones = np.ones(len(events))
    return [Part(events, ones), Part(unobserved(events, seed), -ones)]


# FM-Map: a factorization machine that maps events to 1 and unobserved pairs to -1.


MAP_LEARNERS = ("als", "sgd")
# Found on a validation part of MovieLens 100K, see docs/models/fm.md.
MAP_STRENGTHS = {
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
        check(self, MAP_LEARNERS)

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn pass by pass; the caller owns the loop and may stop at any time."""
        events = as_dataset(data)
        parts = chosen_or_not(events, self.seed)
        return train(self, events, parts, False, MAP_STRENGTHS[self.learner])

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
