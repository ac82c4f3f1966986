"""FM-Pair: a factorization machine that learns to rank, from pairs or from lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from fmpair.data import Dataset, as_dataset
from fmpair.errors import DataError, named
from fmpair.features import Field
from fmpair.features.history_fields import AUTO
from fmpair.fitted.recommender import Recommender
from fmpair.models.fm_pair.feedback_levels import beginning, check_levels, levels_of
from fmpair.training import loop, update
from fmpair.training.epochs import Epoch
from fmpair.training.history_selection import settled
from fmpair.training.options import FMPairOptions
from fmpair.training.trainable import TrainableRecipe

PAPER = {
    "loss": "bpr",
    "factors": 10,
    "epochs": 300,
    "learning_rate": 0.005,
    "final_rate_share": 1.0,
    "init_std": 0.1,
    "positives": "user",
    "weights": "none",
    "history": 0,
    "regularization": {"user": 0.0025, "item": 0.0025, "negative": 0.00025, "bias": 0.0},
}
FAST = {
    "loss": "bpr",
    "factors": 32,
    "epochs": 20,
    "learning_rate": 0.2,
    "regularization": {"user": 0.02, "item": 0.01},
}
BEST = {"factors": 256}


@dataclass(frozen=True)
class FMPair(FMPairOptions, TrainableRecipe):
    """FM-Pair: learns from pairs what to rank first, from ids, context and attributes.

    levels: kinds of events or ratings, the weakest first, such as view, cart, buy: of a user's
        items those that went farther are learned to rank above the others. None: all are alike.

    All other options are those of `FMPairOptions`, which describes each of them.
    """

    history: int | str | Mapping[str, Any] | Field | None = AUTO
    levels: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.levels is not None:
            given = replace(self, history=0, levels=None) if self.history == AUTO else self
            check_levels(given, "levels", self.levels)

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """As in the paper's experiments: 10 factors, 300 epochs, users drawn alike, plain pairs."""
        return cls(**{**PAPER, **changes})

    @classmethod
    def fast(cls, **changes: Any) -> Self:
        """A usable model in a twentieth of the time: pairs, fewer factors, longer steps."""
        return cls(**{**FAST, **changes})

    @classmethod
    def best(cls, **changes: Any) -> Self:
        """Often better rankings, at twice the cost or more: twice as many factors, or more."""
        return cls(**{**BEST, **changes})

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn epoch by epoch; the caller owns the loop and may stop at any time."""
        events = as_dataset(data)
        if self.levels is not None:
            return loop.train(self, replace(self, history=0), events, self._begin(events))
        return loop.train(self, settled(self, events), events)

    def update(
        self, model: Recommender, data: Any, epochs: int | None = None, replay: Any = 0.0
    ) -> Recommender:
        events = as_dataset(data)
        return update.update(model, self, events, epochs, self._begin(events), replay)

    def fold_in(self, model: Recommender, events: Any, epochs: int | None = None) -> Recommender:
        data = as_dataset(events)
        return update.fold_in(model, self, data, epochs, self._begin(data))

    def _begin(self, events: Dataset) -> loop.Begin:
        """How to begin to learn: from levels where there are any."""
        if self.levels is None:
            return loop.begin
        if not {"event_type", "rating"} & set(events.columns.columns):
            raise DataError(
                f"{named('levels')} go with kinds of events or ratings, and no column tells them: "
                f"name it with {named('event_type', ...)}"
            )
        return beginning(levels_of(events, None, self.levels), self.seed)
