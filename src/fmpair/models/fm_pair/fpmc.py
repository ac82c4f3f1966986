"""FPMC: factorised Markov chains of each user, which are FM-Pair with a history of one item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fmpair.features.field import Field
from fmpair.fitted.recommender import Recommender
from fmpair.models.fm_pair.bpr_mf import ids_only
from fmpair.training import loop, update
from fmpair.training.epoch import Epoch
from fmpair.training.options import FMPairOptions
from fmpair.training.recipe import TrainableRecipe


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
