"""Recipes that learn epoch by epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from inspect import signature
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from fmpair.errors import OptionError, named
from fmpair.fitted.recipe import Recipe
from fmpair.fitted.recommender import Recommender
from fmpair.option_names import known_options_only
from fmpair.training.checkpoint import Checkpoint, fit_kept
from fmpair.training.epochs import Epoch, best_fit


@runtime_checkable
class Trainable(Protocol):
    """Whatever learns epoch by epoch; it has a number of `epochs` too."""

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn epoch by epoch; the caller owns the loop and may stop at any time."""
        ...


class TrainableRecipe(Recipe, Trainable, Protocol):
    """A recipe whose epochs are `Recommender`s: it can be stopped where it ranks best."""

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

        validation: events held out (a Dataset or frame) or the share of events to hold out (each
        user's latest, where histories may be learned from); the epoch best by `metric` on them is
        kept, and training stops `patience` epochs after it.
        progress: True shows a bar; a function is called with every epoch.
        checkpoint: a file that what is learned so far is written to, every few seconds; the same
        fit goes on from there after an interruption, to the same model. Removed in the end.
        on: ray, or ray://host:port: the machines of that cluster learn the same model.
        """
        recipe, judged = placed_on(self, on), (validation, metric, patience)
        if checkpoint is not None:
            return fit_kept(recipe, data, seed, progress, judged, checkpoint)
        return best_fit(recipe, data, seed, progress, *judged)


def placed_on(recipe: Any, on: str | None) -> Any:
    """The recipe with the cluster that it learns on; OptionError where it knows of none."""
    if on is None:
        return recipe
    if "on" not in (field.name for field in fields(recipe)):
        raise OptionError(f"{type(recipe).__name__} learns on one machine: leave {named('on')} out")
    return replace(recipe, on=on)


def can_stop_early(recipe: Any) -> bool:
    """Whether a recipe, or its class, is trained by epochs and can be judged after each."""
    trainable = isinstance(recipe, Trainable)
    return trainable and "validation" in signature(recipe.fit).parameters
