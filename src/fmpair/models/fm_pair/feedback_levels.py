"""Multi-level FM-Pair: feedback of several levels, each above the one below it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.data import Dataset, as_dataset
from fmpair.data.columns.roles import STANDARD, find_column
from fmpair.engine.contract import Pairs, Parameters, Problem, Resumable, Training
from fmpair.errors import DataError, OptionError, named, unknown
from fmpair.fitted.recommender import Recommender
from fmpair.training import loop, update
from fmpair.training.epochs import Epoch
from fmpair.training.loop import Begin, Task
from fmpair.training.options import FMPairOptions, refuse_cosines, refuse_histories, refuse_triples
from fmpair.training.trainable import TrainableRecipe

UNOBSERVED = 0.5


@dataclass(frozen=True)
class FMPairLevels(FMPairOptions, TrainableRecipe):
    """FM-Pair over levels of feedback, such as click < bookmark < apply, or ratings.

    level: the column that says each event's level, which is then no context; None takes the kinds
        of events where their order is given, else the ratings, where there are any.
    levels: its values, the lowest first; None where they are numbers.
    unobserved: share of pairs whose lower item is one the user has no event with; in the others
        it is an item of the user on a lower level.

    All other options are those of FM-Pair.
    """

    epochs: int = 60
    loss: str = "bpr"
    level: str | None = None
    levels: Sequence[Any] | None = None
    unobserved: float = UNOBSERVED

    def __post_init__(self) -> None:
        if isinstance(self.order, Sequence):
            raise OptionError(f"the order of levels is now called {named('levels')}")
        super().__post_init__()
        check_levels(self, "levels", self.levels)
        if not 0 < self.unobserved <= 1:
            raise OptionError(f"unobserved must be above 0 and at most 1, not {self.unobserved!r}")

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn epoch by epoch; the caller owns the loop and may stop at any time."""
        events, begin = self._parts(data)
        return loop.train(self, self, events, begin)

    def update(
        self, model: Recommender, data: Any, epochs: int | None = None, replay: Any = 0.0
    ) -> Recommender:
        events, begin = self._parts(data)
        return update.update(model, self, events, epochs, begin, replay)

    def fold_in(self, model: Recommender, events: Any, epochs: int | None = None) -> Recommender:
        data, begin = self._parts(events)
        return update.fold_in(model, self, data, epochs, begin)

    def _parts(self, data: Any) -> tuple[Dataset, Begin]:
        """(the events, whose level is no context, how to begin to learn from them)."""
        own = [] if self.level is None or self.level in STANDARD else [self.level]
        events = as_dataset(data, leaks=own)
        level = levels_of(events, self.level, self.levels)
        context = tuple(name for name in events.context if name != self.level)
        return replace(events, context=context), beginning(level, self.seed, self.unobserved)


def check_levels(options: FMPairOptions, name: str, order: Sequence[Any] | None) -> None:
    """Refuse an order that is none, and options that pairs of levels do not know."""
    refuse_cosines(options)
    refuse_histories(options)
    refuse_triples(options)
    if options.optimizer not in (None, "sgd") or options.regularization_power != 1:
        raise OptionError(
            f"{type(options).__name__} takes plain steps with levels: leave optimizer and "
            "regularization_power out"
        )
    if order is not None and (isinstance(order, str) or len(order) < 1):
        raise OptionError(f"{named(name)} must list the levels, the lowest first, not {order!r}")


def beginning(level: np.ndarray, seed: int, unobserved: float = UNOBSERVED) -> Begin:
    """How to begin to learn from events on these levels: int64 [events]."""

    def begin(task: Task, first: Parameters, frozen: Collection[str]) -> Training:
        ladder = ladder_of(task.problem.user, task.problem.item, level)
        training = loop.begin(task, first, frozen)
        return _LevelTraining(training, task.problem, ladder, unobserved, seed)

    return begin


class Ladder(NamedTuple):
    """Which items of a user stand below the item of an event.

    event: int64 [n], the events with such items; theirs are item[first : first + below].
    """

    event: np.ndarray
    first: np.ndarray
    below: np.ndarray
    item: np.ndarray


def levels_of(data: Dataset, level: str | None, order: Sequence[Any] | None) -> np.ndarray:
    """int64 [events]: the level of each event, counted from 0."""
    name = _level_column(data, level, order)
    if name is None:
        return np.zeros(len(data), np.int64)
    values = data.columns[name]
    if values.null_count():
        raise DataError(f"column {name!r} lacks the level of {values.null_count()} events")
    if order is None:
        if not values.dtype.is_numeric():
            raise OptionError(
                f"column {name!r} holds {values.dtype}: name them, the lowest first, "
                f"as {named('levels', ...)}"
            )
        return values.rank("dense").to_numpy().astype(np.int64) - 1
    place = {str(value): n for n, value in enumerate(order)}
    found = values.cast(pl.String).replace_strict(place, default=-1, return_dtype=pl.Int64)
    if (found < 0).any():
        raise DataError(unknown("level", str(values.filter(found < 0)[0]), list(place)))
    return found.to_numpy()


def _level_column(data: Dataset, level: str | None, order: Sequence[Any] | None) -> str | None:
    """The column of the events that tells their levels, None where there is none."""
    known = data.columns.columns
    if level is None:
        usual = ("event_type", "rating") if order is not None else ("rating",)
        return next((name for name in usual if name in known), None)
    if level not in known and "event_type" in known and find_column("event_type", [level], None):
        return "event_type"  # by which name the data have it
    if level not in known:
        raise DataError(unknown("level column", level, known))
    return level


def ladder_of(user: np.ndarray, item: np.ndarray, level: np.ndarray) -> Ladder:
    """Items on lower levels; the level of a user's item is the highest it ever had.

    Lower events of an item that rose are left to their pairs with items the user let alone.
    user, item: int [events or more], of which the first have a level.
    """
    user, item = user[: len(level)], item[: len(level)]
    events = pl.DataFrame({"user": user, "item": item, "level": level})
    pairs = events.group_by("user", "item").agg(pl.col("level").max()).sort("user", "level", "item")
    steps = int(level.max(initial=0)) + 1
    key = pairs["user"].to_numpy().astype(np.int64) * steps + pairs["level"].to_numpy()
    own = user.astype(np.int64) * steps
    first = np.searchsorted(key, own)
    below = np.searchsorted(key, own + level) - first
    top = events.select(pl.col("level").max().over("user", "item"))["level"].to_numpy()
    event = np.flatnonzero((below > 0) & (level == top))
    return Ladder(event, first[event], below[event], pairs["item"].to_numpy())


@dataclass(frozen=True)
class _LevelTraining:
    """Every epoch: each event against an item left alone, then ordered pairs of the ladder.

    unobserved: share of the pairs whose lower item is one left alone.
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
        """The epoch's ordered pairs: every event as often as any other, lower items at random."""
        rng = np.random.default_rng([self.seed, 4, number])
        ladder, problem, share = self.ladder, self.problem, self.unobserved
        count = round(len(ladder.event) * (1 - share) / share)
        turn = np.resize(rng.permutation(len(ladder.event)), count)
        lower = ladder.first[turn] + (rng.random(count) * ladder.below[turn]).astype(np.int64)
        event = ladder.event[turn]
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
