"""Users known by the items they chose: SVD++ and factorised neighbours, as layouts of FM-Pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fmpair.data import as_dataset
from fmpair.features import FeatureSpace
from fmpair.features.layouts import HISTORY, with_histories
from fmpair.models.fm_pair.recipe import FMPair
from fmpair.training.loop import (
    Epoch,
    check_trainable,
    initial,
    problem_of,
    settings_of,
)
from fmpair.training.rounds import Plain, changed, refuse_cosines, rounds

WORTH = {HISTORY: {"kind": "weighted", "normalize": False}}  # as `with_histories` gives it


@dataclass(frozen=True)
class SVDPlusPlus(FMPair):
    """SVD++ learned from pairs: beside the user's vector, one for each item the user chose.

    Its options are those of FM-Pair; the items' second vectors are a field named history.
    """

    epochs: int = 60
    loss: str = "bpr"

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn epoch by epoch; the caller owns the loop and may stop at any time."""
        recipe = replace(self, fields={**WORTH, **self.fields})
        epochs = FMPair.train(recipe, with_histories(as_dataset(data)))
        return changed(epochs, lambda model: model.replaced(recipe=self))


@dataclass(frozen=True)
class FactorisedNeighbours(FMPair):
    """Factorised item neighbours: a user is the items chosen, and has no vector of their own.

    Its options are those of FM-Pair; the items' second vectors are a field named history.
    """

    epochs: int = 60
    loss: str = "bpr"

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_cosines(self)

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn epoch by epoch; the caller owns the loop and may stop at any time."""
        from fmpair.engine import engine

        events = with_histories(as_dataset(data))
        check_trainable(events)
        space = FeatureSpace.fit(events, {**WORTH, **self.fields}, self.normalize)
        problem = problem_of(self, space, events)
        settings = settings_of(self, space, problem)._replace(user_rate=0.0)
        first = initial(self, space)
        first = first._replace(users=np.zeros_like(first.users))
        learner = Plain(self, engine("cpu").begin(problem, first, settings))
        return rounds(self, space, problem, events, learner)
