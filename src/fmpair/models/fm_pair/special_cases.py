"""Users known by the items they chose: SVD++ and factorised neighbours, as layouts of FM-Pair."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from fmpair.arrays import distinct_pairs
from fmpair.data import Dataset, as_dataset
from fmpair.engine.contract import Parameters, Training
from fmpair.features.field import Field
from fmpair.features.layouts import HISTORY, feature_columns, with_histories, without_columns
from fmpair.fitted.query_encoder import known_rows
from fmpair.fitted.recommender import Recommender
from fmpair.models.fm_pair.fm_pair import FMPair
from fmpair.training import loop, update
from fmpair.training.epochs import Epoch
from fmpair.training.loop import Task
from fmpair.training.options import FMPairOptions, refuse_cosines, refuse_histories, refuse_triples
from fmpair.training.trainable import TrainableRecipe

# ListwiseFM: a factorization machine that learns to tell one item from many at once.


@dataclass(frozen=True)
class ListwiseFM(FMPair):
    """FM-Pair with a softmax over the cosines of the chosen item and several others.

    The options are those of FM-Pair, with other defaults.
    """

    epochs: int = 60
    init_std: float = 0.1
    loss: str = "softmax"
    temperature: float | None = 0.2
    history: int | str | Mapping[str, Any] | Field | None = 0


# PRFM: FM-Pair with adaptive negatives, the pairwise ranking factorization machine.


@dataclass(frozen=True)
class PRFM(FMPair):
    """FM-Pair that learns from unchosen items it now ranks high.

    A factor that matters to the query is drawn, then an item that stands high by it, so negatives
    are hard and regularisation is stronger. The options are those of FM-Pair, with other defaults.
    """

    regularization: float | Mapping[str, float] | None = field(
        default_factory=lambda: {"user": 0.06, "item": 0.03}
    )
    epochs: int = 60
    negative_sampler: str = "adaptive"
    loss: str = "bpr"
    history: int | str | Mapping[str, Any] | Field | None = 0


# BPR-MF: the paper's baseline, which is FM-Pair without any feature.


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
    return without_columns(events, list(feature_columns(events)))


# FPMC: factorised Markov chains of each user, which are FM-Pair with a history of one item.


@dataclass(frozen=True)
class FPMC(FMPairOptions, TrainableRecipe):
    """Factorised personalised Markov chains: the user and the item chosen last, from pairs.

    Its options are those of FM-Pair; it is shown users, items and their order only.
    """

    epochs: int = 60
    loss: str = "bpr"
    item_bias: bool = False
    history: int | str | Mapping[str, Any] | Field | None = 1

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn epoch by epoch; the caller owns the loop and may stop at any time."""
        return loop.train(self, self, ids_only(data))

    def update(
        self, model: Recommender, data: Any, epochs: int | None = None, replay: Any = 0.0
    ) -> Recommender:
        return update.update(model, self, ids_only(data), epochs, replay=replay)

    def fold_in(self, model: Recommender, events: Any, epochs: int | None = None) -> Recommender:
        return update.fold_in(model, self, ids_only(events), epochs)


FIELDS = {HISTORY: {"kind": "weighted", "normalize": False}}  # as `with_histories` gives it


@dataclass(frozen=True)
class SVDPlusPlus(FMPairOptions, TrainableRecipe):
    """SVD++ learned from pairs: beside the user's vector, one for each item the user chose.

    Its options are those of FM-Pair; the items' second vectors are a field named history.
    """

    epochs: int = 60
    loss: str = "bpr"

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn epoch by epoch; the caller owns the loop and may stop at any time."""
        return loop.train(self, _options(self), with_histories(as_dataset(data)))

    def update(
        self, model: Recommender, data: Any, epochs: int | None = None, replay: Any = 0.0
    ) -> Recommender:
        events = longer_histories(model, as_dataset(data))
        return update.update(model, self, events, epochs, replay=replay)

    def fold_in(self, model: Recommender, events: Any, epochs: int | None = None) -> Recommender:
        return update.fold_in(model, self, longer_histories(model, as_dataset(events)), epochs)


@dataclass(frozen=True)
class FactorisedNeighbours(FMPairOptions, TrainableRecipe):
    """Factorised item neighbours: a user is the items chosen, and has no vector of their own.

    Its options are those of FM-Pair; the items' second vectors are a field named history.
    """

    epochs: int = 60
    loss: str = "bpr"

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_cosines(self)
        refuse_histories(self)
        refuse_triples(self)

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn epoch by epoch; the caller owns the loop and may stop at any time."""
        events = with_histories(as_dataset(data))
        return loop.train(self, _options(self), events, _begin_without_users)

    def update(
        self, model: Recommender, data: Any, epochs: int | None = None, replay: Any = 0.0
    ) -> Recommender:
        events = longer_histories(model, as_dataset(data))
        return update.update(model, self, events, epochs, _begin_without_users, replay)

    def fold_in(self, model: Recommender, events: Any, epochs: int | None = None) -> Recommender:
        """There is nothing to learn: whoever has items is known by them."""

        def no_vectors(task: Task, first: Parameters) -> np.ndarray:
            return np.zeros_like(first.users)

        data = longer_histories(model, as_dataset(events))
        return update.with_users(model, self, data, epochs, no_vectors)


def longer_histories(model: Recommender, data: Dataset) -> Dataset:
    """New events whose users have all items they ever chose as history: the old and the new."""
    known = model.space
    items = known.items.extend(data.items.ids)
    old = known_rows(model.seen, known.users.numbers(data.users.ids))
    owner = np.append(old.owner, data.user)
    item = np.append(old.column, items.numbers(data.items.ids)[data.item])
    return with_histories(data, distinct_pairs(owner, item, len(data.users)), items)


def _options(recipe: FMPairOptions) -> FMPairOptions:
    return replace(recipe, fields={**FIELDS, **recipe.fields})


def _begin_without_users(task: Task, first: Parameters, frozen: Collection[str]) -> Training:
    return loop.begin(task, _without_users(first), (*frozen, "users"))


def _without_users(parameters: Parameters) -> Parameters:
    return parameters._replace(users=np.zeros_like(parameters.users))
