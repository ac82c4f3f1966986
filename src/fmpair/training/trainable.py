"""Recipes that learn epoch by epoch: what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from fmpair.checks import known_options_only
from fmpair.data import Dataset
from fmpair.errors import OptionError, named
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recipe import Recipe
from fmpair.fitted.recommender import Recommender
from fmpair.training import loop, update
from fmpair.training.checkpoint import Checkpoint, fit_with_checkpoint
from fmpair.training.epochs import Epoch, best_fit
from fmpair.training.options import FMPairOptions


@runtime_checkable
class Trainable(Protocol):
    """Anything that learns epoch by epoch; it also has a number of `epochs`."""

    def train(self, data: Any) -> Iterator[Epoch]:
        """Yield an `Epoch` after each pass over the events; the caller may stop at any time."""
        ...


class TrainableRanker(Recipe, Trainable, Protocol):
    """A recipe whose epochs are `Ranker`s."""

    def fit(
        self,
        data: Any,
        *,
        seed: int | None = None,
        progress: bool | Callable[[Epoch], None] = False,
    ) -> Ranker:
        """Learn from a Dataset or a frame (user, item, every other column context).

        progress: True shows a bar; a function is called with every epoch.
        """
        return best_fit(self, data, seed, progress)


class TrainableRecipe(Recipe, Trainable, Protocol):
    """A recipe whose epochs are `Recommender`s, so that training can stop at the best one."""

    @known_options_only
    def fit(
        self,
        data: Any,
        *,
        validation: Any = None,
        metric: str = "ndcg@10",
        patience: int = 5,
        seed: int | None = None,
        progress: bool | Callable[[Epoch], None] = False,
        checkpoint: str | Path | Checkpoint | None = None,
        on: str | None = None,
    ) -> Recommender:
        """Learn from a Dataset or a frame (user, item, every other column context).

        validation: held-out events (a Dataset or frame), or the share of events to hold out (the
        latest of each user if the model may use histories). The best epoch by `metric` is kept,
        and training stops `patience` epochs after it.
        progress: True shows a bar; a function is called with every epoch.
        checkpoint: a file to save the training to every few seconds; the same fit continues from it
        after an interruption, to the same model. It is removed in the end.
        on: ray or ray://host:port, a cluster to train on; the model is the same.
        """
        recipe, validated = _on_cluster(self, on), (validation, metric, patience)
        if checkpoint is not None:
            return fit_with_checkpoint(recipe, data, seed, progress, validated, checkpoint)
        return best_fit(recipe, data, seed, progress, *validated)


class Continuation(NamedTuple):
    """How a fitted model learns from new events: by which options, and how training starts."""

    options: FMPairOptions
    events: Dataset
    begin: loop.Begin = loop.begin


class UpdatableRecipe(TrainableRecipe, Protocol):
    """A recipe whose models learn from new events, as its `continuation` says."""

    def continuation(self, model: Recommender, data: Any) -> Continuation:
        """Return how the model learns from new events."""
        ...

    def update(
        self, model: Recommender, data: Any, epochs: int | None = None, replay: Any = 0.0
    ) -> Recommender:
        options, events, begin = self.continuation(model, data)
        return update.update(model, options, events, epochs, begin, replay)

    def fold_in(self, model: Recommender, events: Any, epochs: int | None = None) -> Recommender:
        options, data, begin = self.continuation(model, events)
        return update.fold_in(model, options, data, epochs, begin)


def _on_cluster(recipe: Any, on: str | None) -> Any:
    """Return the recipe with its option `on`; raise OptionError if it has none."""
    if on is None:
        return recipe
    if "on" not in (field.name for field in fields(recipe)):
        raise OptionError(
            f"{type(recipe).__name__} trains on one machine only: leave {named('on')} out"
        )
    return replace(recipe, on=on)


def can_stop_early(recipe: Any) -> bool:
    """Return whether a recipe, or its class, can be validated after each epoch."""
    trainable = isinstance(recipe, Trainable)
    return trainable and "validation" in signature(recipe.fit).parameters
