"""Multi-level FM-Pair: ordered levels of feedback, such as views, carts and purchases."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.data import Dataset, as_dataset
from fmpair.data.columns.roles import STANDARD, find_column
from fmpair.data.event_types import event_types
from fmpair.engine.contract import Pairs, Parameters, Problem, Resumable, Training
from fmpair.errors import DataError, OptionError, listing, named, unknown
from fmpair.fitted.recommender import Recommender
from fmpair.training import loop
from fmpair.training.epochs import Epoch
from fmpair.training.loop import Begin, Task
from fmpair.training.options import FMPairOptions, require_plain_scores
from fmpair.training.trainable import Continuation, UpdatableRecipe

UNOBSERVED = 0.5


@dataclass(frozen=True)
class FMPairLevels(FMPairOptions, UpdatableRecipe):
    """FM-Pair over levels of feedback, such as click < bookmark < apply, or ratings.

    level: the column of the levels, which is not used as context; None: event types if levels are
        given, else ratings, if there are any.
    levels: its values, the lowest first; None if they are numbers.
    unobserved: share of pairs whose negative is an item without events of the user. In all other
        pairs it is an item of the user on a lower level.

    All other options are those of FM-Pair.
    """

    epochs: int = 60
    loss: str = "bpr"
    level: str | None = None
    levels: Sequence[Any] | None = None
    unobserved: float = UNOBSERVED

    def __post_init__(self) -> None:
        super().__post_init__()
        check_levels(self, self.levels)
        if not 0 < self.unobserved <= 1:
            raise OptionError(
                f"{named('unobserved')} must be above 0 and at most 1, not {self.unobserved!r}"
            )

    def train(self, data: Any) -> Iterator[Epoch]:
        """Yield an `Epoch` after each pass over the events; the caller may stop at any time."""
        events, begin = self._parts(data)
        return loop.train(self, self, events, begin)

    def continuation(self, model: Recommender, data: Any) -> Continuation:
        return Continuation(self, *self._parts(data))

    def _parts(self, data: Any) -> tuple[Dataset, Begin]:
        """Return the events without the level as context, and how training starts."""
        columns = [] if self.level is None or self.level in STANDARD else [self.level]
        events = as_dataset(data, leaks=columns)
        level = levels_of(events, self.level, self.levels)
        context = tuple(name for name in events.context if name != self.level)
        begin = start_with_levels(level, self.seed, self.unobserved)
        return replace(events, context=context), begin


def check_levels(options: FMPairOptions, levels: Sequence[Any] | None) -> None:
    """Raise OptionError for levels that are not a list, or options they do not support."""
    require_plain_scores(options)
    if options.optimizer not in (None, "sgd") or options.regularization_power != 1:
        raise OptionError(
            f"{named('levels')} does not support {named('optimizer')} and "
            f"{named('regularization_power')}"
        )
    if levels is not None and (isinstance(levels, str) or len(levels) < 1):
        raise OptionError(
            f"{named('levels')} must list the levels, the lowest first, not {levels!r}"
        )


def start_with_levels(level: np.ndarray, seed: int, unobserved: float = UNOBSERVED) -> Begin:
    """Return how training starts for events on these levels: int64 [events]."""

    def begin(task: Task, first: Parameters, frozen: Collection[str]) -> Training:
        ladder = ladder_of(task.problem.user, task.problem.item, level)
        training = loop.begin(task, first, frozen)
        return _LevelTraining(training, task.problem, ladder, unobserved, seed)

    return begin


class Ladder(NamedTuple):
    """The user's items on lower levels than the item of an event.

    event: int64 [n], the events with such items, which are item[first : first + below].
    """

    event: np.ndarray
    first: np.ndarray
    below: np.ndarray
    item: np.ndarray


def levels_of(data: Dataset, column: str | None, order: Sequence[Any] | None) -> np.ndarray:
    """Return the level of each event, from 0: int64 [events]."""
    name = _level_column(data, column, order)
    if name is None:
        return np.zeros(len(data), np.int64)
    values = data.columns[name]
    if values.null_count():
        raise DataError(f"column {name!r} has no level for {values.null_count()} events")
    if order is None:
        if not values.dtype.is_numeric():
            raise OptionError(
                f"column {name!r} is not numeric: list its values, the lowest first, as "
                f"{named('levels', ...)}"
            )
        return values.rank("dense").to_numpy().astype(np.int64) - 1
    numbers = {str(value): n for n, value in enumerate(order)}
    level = values.cast(pl.String).replace_strict(numbers, default=-1, return_dtype=pl.Int64)
    if (level < 0).any():
        raise _wrong_levels(name, values.cast(pl.String), list(numbers))
    return level.to_numpy()


def _wrong_levels(column: str, values: pl.Series, levels: list[str]) -> DataError:
    """Return the error for levels that leave values out; one that no event has is the reason."""
    present = event_types(values) or values.unique(maintain_order=True).to_list()
    kind = "type" if column == "event_type" else column
    for level in levels:
        if level not in present:
            return DataError(f"no event has {kind} {level!r}; the events have {listing(present)}")
    left_out = [value for value in present if value not in levels]
    return DataError(
        f"{named('levels')} leaves out {listing(left_out)}: list all of {listing(present)}, the "
        "lowest first"
    )


def _level_column(data: Dataset, level: str | None, order: Sequence[Any] | None) -> str | None:
    """Return the column of the levels, or None if there is none."""
    known = data.columns.columns
    if level is None:
        usual = ("event_type", "rating") if order is not None else ("rating",)
        return next((name for name in usual if name in known), None)
    if level not in known and "event_type" in known and find_column("event_type", [level], None):
        return "event_type"  # the column was renamed when the data were made
    if level not in known:
        raise DataError(unknown("level column", level, known))
    return level


def ladder_of(user: np.ndarray, item: np.ndarray, level: np.ndarray) -> Ladder:
    """Return the items on lower levels; an item's level is the highest of the user's events.

    Lower events of an item are only paired with unobserved items. user, item: int [events or
    more], of which the first have a level.
    """
    user, item = user[: len(level)], item[: len(level)]
    events = pl.DataFrame({"user": user, "item": item, "level": level})
    pairs = events.group_by("user", "item").agg(pl.col("level").max()).sort("user", "level", "item")
    steps = int(level.max(initial=0)) + 1
    key = pairs["user"].to_numpy().astype(np.int64) * steps + pairs["level"].to_numpy()
    lowest = user.astype(np.int64) * steps
    first = np.searchsorted(key, lowest)
    below = np.searchsorted(key, lowest + level) - first
    top = events.select(pl.col("level").max().over("user", "item"))["level"].to_numpy()
    event = np.flatnonzero((below > 0) & (level == top))
    return Ladder(event, first[event], below[event], pairs["item"].to_numpy())


@dataclass(frozen=True)
class _LevelTraining:
    """Training on two kinds of pairs: with unobserved items, then with items on lower levels.

    unobserved: share of the pairs with an unobserved item.
    """

    inner: Resumable
    problem: Problem
    ladder: Ladder
    unobserved: float
    seed: int

    def epoch(self, number: int, rate: float) -> float:
        loss = self.inner.epoch(number, rate)
        pairs = self._pairs(number)
        if not len(pairs.user):
            return loss
        share = self.unobserved
        return share * loss + (1 - share) * self.inner.learn_pairs(pairs, rate)

    def _pairs(self, number: int) -> Pairs:
        """Draw an epoch's pairs with lower levels: all events equally often, items at random."""
        rng = np.random.default_rng([self.seed, 4, number])
        ladder, problem, share = self.ladder, self.problem, self.unobserved
        count = round(len(ladder.event) * (1 - share) / share)
        drawn = np.resize(rng.permutation(len(ladder.event)), count)
        lower = ladder.first[drawn] + (rng.random(count) * ladder.below[drawn]).astype(np.int64)
        event = ladder.event[drawn]
        return Pairs(
            problem.user[event],
            problem.item[event],
            ladder.item[lower].astype(np.int32),
            problem.situation[event],
            np.asarray(problem.weight[event], np.float32),
        )

    def learn_pairs(self, pairs: Pairs, rate: float) -> float:
        return self.inner.learn_pairs(pairs, rate)

    def largest(self) -> float:
        return self.inner.largest()

    def snapshot(self) -> Parameters:
        return self.inner.snapshot()

    def state(self) -> dict[str, np.ndarray]:
        return self.inner.state()

    def resume(self, state: dict[str, np.ndarray]) -> None:
        self.inner.resume(state)

    def close(self) -> None:
        self.inner.close()
