"""Epochs: running them, validating them on held-out events, early stopping, progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from fmpair.arrays import empty_rows, renumbered
from fmpair.checks import whole
from fmpair.data import Dataset, as_dataset, columns_of
from fmpair.data.describe import MANY_REPEATS
from fmpair.data.parts import fully_timed
from fmpair.data.splits import holdout, per_user
from fmpair.data.times import has_times
from fmpair.device import CPU, layout_on, ranking_device
from fmpair.errors import DataError, OptionError, TrainingError, named
from fmpair.fitted.recommender import Recommender
from fmpair.kernel_cache import CLOCK
from fmpair.metrics import Metric

MAX_EVENTS = 10_000  # more held-out events are sampled; this many suffice to compare epochs


@dataclass(frozen=True)
class Epoch:
    """One pass over the events. `recommender()` returns the model, until the next epoch starts.

    seconds: without compile time. value: the metric on held-out events, if there are any.
    """

    number: int
    seconds: float
    loss: float
    _make: Callable[[], Any] = field(repr=False, compare=False)
    value: float | None = None

    def recommender(self) -> Any:
        return self._make()


def epochs(
    count: int, learn: Callable[[int], float], fitted: Callable[[], Any], first: int = 1
) -> Iterator[Epoch]:
    """Yield epochs `first` to `count`. learn: runs one and returns its loss; fitted: the model."""
    reached = 0

    def make(number: int) -> Any:
        if number != reached:
            raise TrainingError(
                f"epoch {number} is over: call its recommender() before the next epoch starts"
            )
        return fitted()

    for number in range(first, count + 1):
        reached, began = number, CLOCK.now()
        loss = learn(number)
        yield Epoch(number, CLOCK.now() - began, loss, partial(make, number))


def with_models(epochs: Iterator[Epoch], change: Callable[[Any], Any]) -> Iterator[Epoch]:
    """Return the epochs with their models passed through `change`."""

    def changed(epoch: Epoch) -> Epoch:
        return replace(epoch, _make=lambda: change(epoch.recommender()))

    return map(changed, epochs)


def diverged(number: int, remedy: str) -> TrainingError:
    """Return the error for training that diverges."""
    return TrainingError(f"training diverged in epoch {number}: {remedy}")


# Validation.


def validation_parts(
    data: Dataset, validation: Any, seed: int, in_time: bool = False
) -> tuple[Dataset, Dataset | None]:
    """Return (training events, held-out events); in_time: hold out the latest of each user."""
    if validation is None:
        return data, None
    if isinstance(validation, int | float):
        if not 0 < validation < 1:
            raise OptionError(
                f"{named('validation')} must be a share between 0 and 1, not {validation!r}"
            )
        if in_time:
            split = per_user(fully_timed(data), test=float(validation), order="time")
        else:
            split = holdout(data, test=float(validation), seed=seed)
        train, _, test = split.parts(data)
        return train, test
    return data, as_dataset(validation, columns_of(data))


@dataclass
class Validation:
    """Validation by a full ranking for every held-out event, in its context.

    As in evaluation, items that the user has in training are ranked if users often repeat items.
    If not, they are not, and held-out events that repeat one are left out: with no other seen item
    above them they would be easy, and reward models that remember single events.

    per_user: whether values are means by user. Without context and repeats, experiments are
    evaluated by user too.
    """

    train: Dataset
    held_out: Dataset
    metric: str
    patience: int
    threads: int | None = None
    per_user: bool = False
    history: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.formula = Metric.parse(self.metric)
        self.formula.values(np.ones(1))  # fails now if the metric needs more than ranks
        whole("patience", self.patience, 1)
        known = self.train.users.numbers(self.held_out.users.ids)[self.held_out.user] >= 0
        known &= self.train.items.numbers(self.held_out.items.ids)[self.held_out.item] >= 0
        rows = np.flatnonzero(known)
        if not len(rows):
            raise DataError("no held-out event has a user and an item of the training events")
        if len(rows) > MAX_EVENTS:
            rows = np.sort(np.random.default_rng(0).permutation(rows)[:MAX_EVENTS])
        self._judge_on(rows)
        repeats = self._repeats()
        if repeats.mean() > MANY_REPEATS:
            self.hidden, self.per_user = empty_rows(self.count), False
        elif repeats.any():
            self._judge_on(rows[~repeats])

    def _judge_on(self, rows: np.ndarray) -> None:
        """Set the events to judge by; hidden: the items not to rank, per event."""
        self.events = self.held_out.take(rows)
        frame = self.events.frame()
        self.user = self.train.users.numbers(frame["user"])
        self.target = self.train.items.numbers(frame["item"])
        self.hidden = self.train.seen.take(self.user)

    def _repeats(self) -> np.ndarray:
        """Return whether the user has the item of each event in training."""
        owner = np.repeat(np.arange(self.hidden.size), np.diff(self.hidden.start))
        repeats = np.zeros(self.hidden.size, bool)
        repeats[owner[self.hidden.column == self.target[owner]]] = True
        return repeats

    @property
    def ranks_repeats(self) -> bool:
        """Whether items that a user has in training are ranked too."""
        return not len(self.hidden.column)

    @property
    def count(self) -> int:
        """The number of held-out events."""
        return len(self.target)

    def judge(self, model: Recommender) -> float:
        """Return the mean metric of the held-out events, and append it to `history`."""
        self.history.append(float(self.values(model).mean()))
        return self.history[-1]

    def values(self, model: Recommender) -> np.ndarray:
        """Return the metric of every held-out event, or user, whose items the model ranks."""
        from fmpair.ranking.top import ranks

        names = [name for name in self.events.columns.columns if name in model.space.context]
        queries = model.query_vectors(self.events.frame().select("user", *names))
        target, hidden = self.target, self.hidden
        if model.space.items is not self.train.items:  # a model may rank only some of the items
            number = model.space.items.numbers(self.train.items.ids)
            target, hidden = number[target], renumbered(hidden, number)
        known = np.flatnonzero(target >= 0)
        if not len(known):
            raise DataError("no held-out event has an item that the model ranks")
        above, level = ranks(
            queries[known],
            model.item_matrix,
            hidden.take(known),
            target[known],
            self.threads,
            ranking_device(model.recipe, len(known)),
        )
        values = self.formula.values(1 + above + level / 2)
        return _user_means(values, self.user[known]) if self.per_user else values


def _user_means(values: np.ndarray, user: np.ndarray) -> np.ndarray:
    """Return the mean value of each user that has one."""
    counts = np.bincount(user)
    return np.bincount(user, values)[counts > 0] / counts[counts > 0]


def best_fit(
    recipe: Any,
    data: Any,
    seed: int | None,
    progress: bool | Callable[[Epoch], None],
    validation: Any = None,
    metric: str = "ndcg@10",
    patience: int = 5,
) -> Any:
    """Fit a trainable recipe; the arguments are those of `FMPair.fit`."""
    recipe, events, judge = prepare_fit(recipe, data, seed, validation, metric, patience)
    return best_epoch(recipe.train(events), judge, progress, recipe.epochs)


def prepare_fit(
    recipe: Any, data: Any, seed: int | None, validation: Any, metric: str, patience: int
) -> tuple[Any, Dataset, Validation | None]:
    """Return the recipe with its seed, the events to learn from, and the validation."""
    Metric.parse(metric)  # also without validation: a wrong name is never ignored
    recipe = recipe if seed is None else replace(recipe, seed=seed)
    data = as_dataset(data)
    in_time = bool(getattr(recipe, "history", 0)) and has_times(fully_timed(data))
    events, held_out = validation_parts(data, validation, recipe.seed, in_time)
    with layout_on(getattr(recipe, "device", CPU)):
        judge = None if held_out is None else Validation(events, held_out, metric, patience)
    return recipe, events, judge


@dataclass
class FitProgress:
    """How far a fit is. number: of the last epoch; model: its model, if training is over.

    best: the model of the best epoch on held-out events, if there are any.
    """

    number: int = 0
    model: Any = None
    best: Any = None
    best_number: int = 0
    best_value: float = -np.inf

    def stops(self, judge: Validation | None) -> bool:
        return judge is not None and self.number - self.best_number >= judge.patience


def best_epoch(
    epochs: Iterator[Epoch],
    judge: Validation | None,
    progress: bool | Callable[[Epoch], None],
    total: int,
    state: FitProgress | None = None,
    keep: Callable[[FitProgress], None] = lambda state: None,
) -> Any:
    """Run a training loop, show its progress, and return the model of the best epoch.

    state: of a fit that continues; keep: is called after every epoch.
    """
    state, last = state or FitProgress(), None
    if state.number and state.stops(judge):  # it had stopped early before
        epochs = iter(())
    for last in _shown(_judged(epochs, judge), progress, total):
        state.number = last.number
        if last.value is not None and last.value > state.best_value:
            state.best, state.best_value = last.recommender(), last.value
            state.best_number = last.number
        keep(state)
        if state.stops(judge):
            break
    if state.best is not None:
        return state.best
    return state.model if last is None else last.recommender()


def _judged(epochs: Iterator[Epoch], judge: Validation | None) -> Iterator[Epoch]:
    """Yield the epochs with their values on the held-out events."""
    for epoch in epochs:
        yield epoch if judge is None else replace(epoch, value=judge.judge(epoch.recommender()))


def _shown(
    epochs: Iterator[Epoch], progress: bool | Callable[[Epoch], None], total: int
) -> Iterator[Epoch]:
    """Yield the epochs and show each as the caller wishes."""
    if callable(progress):
        for epoch in epochs:
            progress(epoch)
            yield epoch
    elif progress and sys.stderr.isatty():
        yield from _on_a_bar(epochs, total)
    elif progress:
        for epoch in epochs:
            print(f"epoch {epoch.number} of {total}: {_figures(epoch)}", file=sys.stderr)
            yield epoch
    else:
        yield from epochs


def _on_a_bar(epochs: Iterator[Epoch], total: int) -> Iterator[Epoch]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("learning"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("learning", total=total, figures="")
        for epoch in epochs:
            bar.update(task, advance=1, figures=_figures(epoch))
            yield epoch


def _figures(epoch: Epoch) -> str:
    value = "" if epoch.value is None else f", held out {epoch.value:.4f}"
    return f"loss {epoch.loss:.4f}{value}"
