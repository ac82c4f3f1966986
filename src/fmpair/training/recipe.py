"""Recipes that learn epoch by epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from fmpair.fitted.recipe import Recipe
from fmpair.fitted.recommender import Recommender
from fmpair.renamed import known_options_only
from fmpair.training.checkpoint import Checkpoint, fit_kept
from fmpair.training.early_stopping import best_fit
from fmpair.training.epoch import Epoch


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
    ) -> Recommender:
        """Learn from a Dataset or a frame (user, item, every other column context).

        validation: events held out (a Dataset or frame) or the share of events to hold out (each
        user's latest, where histories may be learned from); the epoch best by `metric` on them is
        kept, and training stops `patience` epochs after it.
        progress: True shows a bar; a function is called with every epoch.
        checkpoint: a file that what is learned so far is written to, every few seconds; the same
        fit goes on from there after an interruption, to the same model. Removed in the end.
        """
        if checkpoint is not None:
            judged = (validation, metric, patience)
            return fit_kept(self, data, seed, progress, *judged, checkpoint)
        return best_fit(self, data, seed, progress, validation, metric, patience)


def can_stop_early(recipe: Any) -> bool:
    """Whether a recipe, or its class, is trained by epochs and can be judged after each."""
    trainable = isinstance(recipe, Trainable)
    return trainable and "validation" in signature(recipe.fit).parameters
