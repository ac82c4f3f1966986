"""FM-Pair: a factorization machine that learns to rank, from pairs or from lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from fmpair.data import Dataset, as_dataset
from fmpair.errors import DataError, OptionError, named
from fmpair.features import Field
from fmpair.features.history_fields import AUTO
from fmpair.fitted.recommender import Recommender
from fmpair.models.fm_pair.feedback_levels import check_levels, levels_of, start_with_levels
from fmpair.training import loop, tuning
from fmpair.training.epochs import Epoch
from fmpair.training.options import FMPairOptions
from fmpair.training.trainable import Continuation, UpdatableRecipe
from fmpair.training.trials import decided, undecided

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
    "order": 2,
    "times": False,
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
class FMPair(FMPairOptions, UpdatableRecipe):
    """FM-Pair: learns to rank from pairs, with ids, context and attributes as features.

    times: whether the hour and weekday of an event and the days since the user's last one are
        context; auto: if the events have dates and a trial shows that they help.
    levels: event types or ratings, the weakest first, such as view, cart, buy: items of a higher
        level are ranked above the user's other items. None: all events count the same.

    All other options are those of `FMPairOptions`, which describes each of them.
    """

    history: int | str | Mapping[str, Any] | Field | None = AUTO
    order: int | str = AUTO
    times: bool | str = AUTO
    levels: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.times, bool) or self.times == AUTO):
            raise OptionError(f"{named('times')} must be true, false or auto, not {self.times!r}")
        if self.levels is not None:
            check_levels(undecided(replace(self, levels=None)), self.levels)

    def _orders(self) -> tuple[int | str, ...]:
        return (2, 3, AUTO)

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """Return the paper's setting: 10 factors, 300 epochs, users drawn uniformly, BPR."""
        return cls(**{**PAPER, **changes})

    @classmethod
    def fast(cls, **changes: Any) -> Self:
        """Return a model in a twentieth of the time: BPR, fewer factors, longer steps."""
        return cls(**{**FAST, **changes})

    @classmethod
    def best(cls, **changes: Any) -> Self:
        """Return a model that often ranks better, with 256 factors, at twice the cost or more."""
        return cls(**{**BEST, **changes})

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn epoch by epoch; the caller owns the loop and may stop at any time."""
        events = as_dataset(data)
        if self.levels is not None:
            return loop.train(self, undecided(self), events, self._begin(events))
        return loop.train(self, decided(self, events), events)

    tune = tuning.tune

    def continuation(self, model: Recommender, data: Any) -> Continuation:
        events = as_dataset(data)
        return Continuation(self, events, self._begin(events))

    def _begin(self, events: Dataset) -> loop.Begin:
        """Return how training starts: with levels if there are any."""
        if self.levels is None:
            return loop.begin
        if not {"event_type", "rating"} & set(events.columns.columns):
            raise DataError(
                f"{named('levels')} needs a column of event types or ratings: name it with "
                f"{named('event_type', ...)}"
            )
        return start_with_levels(levels_of(events, None, self.levels), self.seed)
