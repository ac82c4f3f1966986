"""Users known by the items they chose: SVD++ and factorised neighbours, as layouts of FM-Pair."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fmpair.arrays import distinct_pairs
from fmpair.data import Dataset, as_dataset
from fmpair.engine.contract import Parameters, Training
from fmpair.features.layouts import HISTORY, with_histories
from fmpair.fitted.query import known_rows
from fmpair.fitted.recommender import Recommender
from fmpair.training import loop, update
from fmpair.training.epoch import Epoch
from fmpair.training.loop import Task
from fmpair.training.options import (
    FMPairOptions,
    refuse_cosines,
    refuse_histories,
    refuse_triples,
)
from fmpair.training.recipe import TrainableRecipe

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
