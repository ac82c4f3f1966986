"""Epochs of recipes that do more in an epoch than the engine's own pass over the events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from fmpair.data import Dataset
from fmpair.engine.contract import Parameters, Problem
from fmpair.errors import OptionError, TrainingError
from fmpair.features import FeatureSpace
from fmpair.fitted.recommender import Recommender
from fmpair.training.loop import LOST, Epoch, learning_rate, settle_cold

if TYPE_CHECKING:
    from fmpair.engine.contract import Training


class Learner(Protocol):
    """Training under way. state: the engine's; recipe: the one that the model so far keeps."""

    @property
    def state(self) -> Training: ...

    @property
    def recipe(self) -> Any: ...

    def epoch(self, number: int, rate: float) -> float:
        """One epoch, counted from 1; its mean loss."""
        ...

    def parameters(self) -> Parameters:
        """What is learned so far."""
        ...


@dataclass
class Plain:
    """The engine's own epochs, from a state of one's own making."""

    recipe: Any
    state: Training

    def epoch(self, number: int, rate: float) -> float:
        return self.state.epoch(number, rate)

    def parameters(self) -> Parameters:
        return self.state.snapshot()


def rounds(
    recipe: Any, space: FeatureSpace, problem: Problem, data: Dataset, learner: Learner
) -> Iterator[Epoch]:
    """The recipe's epochs, carried out by the learner."""
    reached = 0

    def make(number: int) -> Recommender:
        if number != reached:
            raise TrainingError(f"epoch {number} is past: ask for its recommender before the next")
        learned = settle_cold(learner.parameters(), data.seen)
        return Recommender(
            space,
            learned,
            problem.user_rows,
            problem.item_rows,
            data.seen,
            learner.recipe,
            data.frame_kind,
            recipe.damping,
        )

    for number in range(1, recipe.epochs + 1):
        reached, began = number, time.perf_counter()
        loss = learner.epoch(number, learning_rate(recipe, number, recipe.final_rate_share))
        if not learner.state.largest() < LOST:
            rate = recipe.learning_rate
            raise TrainingError(f"diverged in epoch {number}: lower learning_rate ({rate:g})")
        yield Epoch(number, time.perf_counter() - began, loss, make)


def changed(
    epochs: Iterator[Epoch], change: Callable[[Recommender], Recommender]
) -> Iterator[Epoch]:
    """The epochs with their models changed before they are handed out."""

    def maker(epoch: Epoch) -> Callable[[int], Recommender]:
        return lambda number: change(epoch._make(number))

    return (replace(epoch, _make=maker(epoch)) for epoch in epochs)


def refuse_cosines(recipe: Any) -> None:
    """Raise OptionError where a recipe whose steps are made for products is to score by cosines."""
    if recipe.temperature is not None:
        name = type(recipe).__name__
        raise OptionError(f"{name} scores by products: leave temperature out")
