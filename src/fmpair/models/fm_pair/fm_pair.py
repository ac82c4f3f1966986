"""FM-Pair, which learns to rank from pairs or lists; also with a selection of columns."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import polars as pl

from fmpair import checks
from fmpair.data import Dataset, as_dataset
from fmpair.errors import DataError, OptionError, named
from fmpair.features import Field
from fmpair.features.history_fields import AUTO
from fmpair.features.layouts import feature_columns, named_columns, without_columns
from fmpair.fitted import recipe
from fmpair.fitted.recommender import Recommender
from fmpair.models.fm_pair.feedback_levels import check_levels, levels_of, start_with_levels
from fmpair.training import loop, tuning
from fmpair.training.epochs import Epoch, Validation, best_epoch, validation_parts
from fmpair.training.options import FMPairOptions
from fmpair.training.regularisation import GROUPS
from fmpair.training.trainable import Continuation, UpdatableRecipe
from fmpair.training.trials import resolve_auto, without_auto

LOG = logging.getLogger("fmpair")
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
BEST = {"factors": 512}


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
            check_levels(without_auto(replace(self, levels=None)), self.levels)

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
        """Return a model with 512 factors: often better, at twice the cost or more on a CPU."""
        return cls(**{**BEST, **changes})

    def train(self, data: Any) -> Iterator[Epoch]:
        """Yield an `Epoch` after each pass over the events; the caller may stop at any time."""
        events = as_dataset(data)
        if self.levels is not None:
            return loop.train(self, without_auto(self), events, self._begin(events))
        options = resolve_auto(self, events)
        # an update uses the regularisation that was found
        recipe = replace(self, regularization=options.regularization)
        return loop.train(recipe, options, events)

    tune = tuning.tune

    def continuation(self, model: Recommender, data: Any) -> Continuation:
        events = as_dataset(data)
        return Continuation(self, events, self._begin(events))

    def check_levels(self, data: Dataset) -> None:
        """Raise DataError if the levels do not fit the events."""
        self._begin(data)

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


# FM-Pair with column selection: columns are added one by one while they help.


@dataclass(frozen=True, eq=False)
class Selection:
    """Selected columns, in order, as role.name; trace: (step, column, value, chosen) of all trials.

    Step 0 is the model without any column; value: the metric on held-out events.
    """

    columns: tuple[str, ...]
    trace: pl.DataFrame


@dataclass(frozen=True)
class FMPairSelected(FMPairOptions, UpdatableRecipe):
    """FM-Pair that keeps only the context columns that help on held-out events.

    It starts with none, adds the column that helps most, and stops when none helps.

    among: the columns to choose from, attributes too (`age`, or `user.age`); None: all context.
        Other columns are always used.
    held_out: share of the events to evaluate every trial on; the last fit uses all events.
    judged_by: the metric.
    least_gain: a column must add more than this to the metric.

    All other options are those of FM-Pair.
    """

    among: Sequence[str] | None = None
    held_out: float = 0.1
    judged_by: str = "ndcg@10"
    least_gain: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.not_negative("least_gain", self.least_gain)

    def train(self, data: Any) -> Iterator[Epoch]:
        """Choose the columns, then learn epoch by epoch from all events."""
        events = as_dataset(data)
        among = self._candidate_columns(events)
        chosen = self.select(events).columns if among else ()
        return self._train(events, [name for name in among if name not in chosen])

    def continuation(self, model: Recommender, data: Any) -> Continuation:
        """Return options and new events without the columns that were not chosen."""
        events = as_dataset(data)
        encoders = (*model.space.query.encoders, *model.space.item.encoders)
        known = {name for e in encoders for name in (e.source, f"{e.role}.{e.source}")}
        hidden = [
            key
            for key, (role, name) in feature_columns(events).items()
            if key not in known and self._may_choose(role, name)
        ]
        by_column = [getattr(self, option_name) for option_name in recipe.BY_COLUMN]
        named = {name for given in by_column if isinstance(given, Mapping) for name in given}
        options = self._without(named - known - {*GROUPS})
        return Continuation(options, without_columns(events, hidden))

    def select(self, data: Any) -> Selection:
        """Return the columns that help, and the results of all trials."""
        events = as_dataset(data)
        learned, aside = validation_parts(events, self.held_out, self.seed)
        assert aside is not None
        judge = Validation(learned, aside, self.judged_by, patience=1)
        rest = self._candidate_columns(events)
        chosen: list[str] = []
        best = self._judged(judge, learned, rest)
        trace: list[tuple[int, str | None, float, bool]] = [(0, None, best, True)]
        LOG.info("no column: %s %.4f", self.judged_by, best)
        while rest:
            tried = {
                name: self._judged(judge, learned, [other for other in rest if other != name])
                for name in rest
            }
            first = max(tried, key=lambda name: tried[name])  # the first of equals
            helps = tried[first] - best > self.least_gain
            step = len(chosen) + 1
            trace += [(step, name, v, helps and name == first) for name, v in tried.items()]
            LOG.info("%s %s: %.4f", "adding" if helps else "stopped before", first, tried[first])
            if not helps:
                break
            best = tried[first]
            chosen.append(first)
            rest.remove(first)
        schema = {"step": pl.Int64, "column": pl.String, "value": pl.Float64, "chosen": pl.Boolean}
        return Selection(tuple(chosen), pl.DataFrame(trace, schema=schema, orient="row"))

    def _candidate_columns(self, data: Dataset) -> list[str]:
        if self.among is not None:
            return named_columns(data, self.among)
        return [key for key, (role, _) in feature_columns(data).items() if role == "context"]

    def _judged(self, judge: Validation, data: Dataset, hidden: Sequence[str]) -> float:
        """Return the metric of a model without the hidden columns."""
        model = best_epoch(self._train(data, hidden), None, False, self.epochs)
        return judge.judge(model)

    def _train(self, data: Dataset, hidden: Sequence[str]) -> Iterator[Epoch]:
        """Return the epochs of training without the hidden columns."""
        removed = {*hidden, *(feature_columns(data)[key][1] for key in hidden)}
        return loop.train(self, self._without(removed), without_columns(data, hidden))

    def _without(self, gone: Collection[str]) -> FMPairOptions:
        options = {f.name: getattr(self, f.name) for f in fields(FMPairOptions)}
        return FMPairOptions(**recipe.without_columns(options, gone))

    def _may_choose(self, role: str, name: str) -> bool:
        if self.among is None:
            return role == "context"
        return name in self.among or f"{role}.{name}" in self.among
