"""Judging epochs on events held out, stopping early, keeping the best."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from fmpair.arrays import Rows, empty_rows, renumbered
from fmpair.checks import whole
from fmpair.compile_time import CLOCK
from fmpair.data import Dataset, as_dataset, columns_of
from fmpair.data.splits import holdout, per_user
from fmpair.data.times import has_times
from fmpair.device import ranking_device
from fmpair.errors import DataError, OptionError, TrainingError, named
from fmpair.fitted.recommender import Recommender
from fmpair.metrics import Metric

# One pass over the events, and the loop that makes passes: the caller owns it.


@dataclass(frozen=True)
class Epoch:
    """One pass over the events. `recommender()` gives the model, until the next epoch begins.

    seconds: without those of compiling. value: the metric on held-out events, where `fit` was given
    some.
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
    """Epochs up to count. learn: makes one of them and gives its loss; fitted: the model so far."""
    reached = 0

    def make(number: int) -> Any:
        if number != reached:
            raise TrainingError(f"epoch {number} is past: ask for its recommender before the next")
        return fitted()

    for number in range(first, count + 1):
        reached, began = number, CLOCK.now()
        loss = learn(number)
        yield Epoch(number, CLOCK.now() - began, loss, partial(make, number))


def with_models(epochs: Iterator[Epoch], change: Callable[[Any], Any]) -> Iterator[Epoch]:
    """The epochs with their models changed before they are handed out."""

    def changed(epoch: Epoch) -> Epoch:
        return replace(epoch, _make=lambda: change(epoch.recommender()))

    return map(changed, epochs)


def diverged(number: int, remedy: str) -> TrainingError:
    """The error of training whose numbers grow without bound; remedy: what would help."""
    return TrainingError(f"diverged in epoch {number}: {remedy}")


MOST_EVENTS = 10_000  # more held-out events than this are sampled: enough to tell epochs apart


def validation_parts(
    data: Dataset, validation: Any, seed: int, in_time: bool = False
) -> tuple[Dataset, Dataset | None]:
    """(events to learn from, events held out); in_time: a share is that of each user's latest."""
    if validation is None:
        return data, None
    if isinstance(validation, int | float):
        if not 0 < validation < 1:
            raise OptionError(
                f"{named('validation')} must be a share between 0 and 1, not {validation!r}"
            )
        if in_time:
            split = per_user(data, test=float(validation), order="time")
        else:
            split = holdout(data, test=float(validation), seed=seed)
        train, _, test = split.parts(data)
        return train, test
    return data, as_dataset(validation, columns_of(data))


@dataclass
class Validation:
    """Full ranking of held-out events, in their own context.

    The user's other items of the training events leave the list, unless most held-out events
    repeat one of them: then coming back to an item is what the data are about.
    """

    train: Dataset
    held_out: Dataset
    metric: str
    patience: int
    threads: int | None = None
    history: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.formula = Metric.parse(self.metric)
        self.formula.values(np.ones(1))  # a metric that needs more than ranks says so now
        whole("patience", self.patience, 1)
        known = self.train.users.numbers(self.held_out.users.ids)[self.held_out.user] >= 0
        known &= self.train.items.numbers(self.held_out.items.ids)[self.held_out.item] >= 0
        rows = np.flatnonzero(known)
        if not len(rows):
            raise DataError("no held-out event has a user and an item that training knows")
        if len(rows) > MOST_EVENTS:
            rows = np.sort(np.random.default_rng(0).permutation(rows)[:MOST_EVENTS])
        self.events = self.held_out.take(rows)
        frame = self.events.frame()
        self.user = self.train.users.numbers(frame["user"])
        self.target = self.train.items.numbers(frame["item"])
        self.hidden = self._hidden()

    def _hidden(self) -> Rows:
        """Per event the items that leave its list."""
        seen = self.train.seen.take(self.user)
        owner = np.repeat(np.arange(seen.size), np.diff(seen.start))
        repeats = np.zeros(seen.size, bool)
        repeats[owner[seen.column == self.target[owner]]] = True
        return empty_rows(seen.size) if repeats.mean() > 0.5 else seen

    def judge(self, model: Recommender) -> float:
        """The metric's mean over the held-out events."""
        self.history.append(float(self.values(model).mean()))
        return self.history[-1]

    def values(self, model: Recommender) -> np.ndarray:
        """The metric of every held-out event whose item the model ranks."""
        from fmpair.ranking.top import ranks

        names = [name for name in self.events.columns.columns if name in model.space.context]
        queries = model.query_vectors(self.events.frame().select("user", *names))
        target, hidden = self.target, self.hidden
        if model.space.items is not self.train.items:  # a model may rank a part of the items only
            place = model.space.items.numbers(self.train.items.ids)
            target, hidden = place[target], renumbered(hidden, place)
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
        return self.formula.values(1 + above + level / 2)


def best_fit(
    recipe: Any,
    data: Any,
    seed: int | None,
    progress: bool | Callable[[Epoch], None],
    validation: Any = None,
    metric: str = "ndcg@10",
    patience: int = 5,
) -> Any:
    """What a trainable recipe gives in the end; the parameters are those of `FMPair.fit`."""
    recipe, events, judge = prepared(recipe, data, seed, validation, metric, patience)
    return best_epoch(recipe.train(events), judge, progress, recipe.epochs)


def prepared(
    recipe: Any, data: Any, seed: int | None, validation: Any, metric: str, patience: int
) -> tuple[Any, Dataset, Validation | None]:
    """(the recipe with its seed, the events to learn from, how epochs are judged)."""
    recipe = recipe if seed is None else replace(recipe, seed=seed)
    data = as_dataset(data)
    in_time = bool(getattr(recipe, "history", 0)) and has_times(data)
    events, held_out = validation_parts(data, validation, recipe.seed, in_time)
    return (
        recipe,
        events,
        None if held_out is None else Validation(events, held_out, metric, patience),
    )


@dataclass
class Standing:
    """How far a fit is. number: of the last epoch; model: of that one, where no more are made.

    best: the model of the epoch with the best value on held-out events, where there are any.
    """

    number: int = 0
    model: Any = None
    best: Any = None
    best_number: int = 0
    best_value: float = -np.inf

    def stops(self, judge: Validation | None) -> bool:
        """Whether no better epoch is to be expected."""
        return judge is not None and self.number - self.best_number >= judge.patience


def best_epoch(
    epochs: Iterator[Epoch],
    judge: Validation | None,
    progress: bool | Callable[[Epoch], None],
    total: int,
    standing: Standing | None = None,
    keep: Callable[[Standing], None] = lambda standing: None,
) -> Any:
    """The usual policy over a training loop: run it, show it, keep the best epoch's model.

    standing: of a fit that goes on; keep: is told how far it is after every epoch.
    """
    found, last = standing or Standing(), None
    for last in _announced(_judged(_left(epochs, found, judge), judge), progress, total):
        found.number = last.number
        if last.value is not None and last.value > found.best_value:
            found.best, found.best_value = last.recommender(), last.value
            found.best_number = last.number
        keep(found)
        if found.stops(judge):
            break
    if found.best is not None:
        return found.best
    return found.model if last is None else last.recommender()


def _left(epochs: Iterator[Epoch], found: Standing, judge: Validation | None) -> Iterator[Epoch]:
    """The epochs that are left: none where a fit had stopped before it was done."""
    return iter(()) if found.number and found.stops(judge) else epochs


def _judged(epochs: Iterator[Epoch], judge: Validation | None) -> Iterator[Epoch]:
    """The epochs, each with its value on the held-out events."""
    for epoch in epochs:
        yield epoch if judge is None else replace(epoch, value=judge.judge(epoch.recommender()))


def _announced(
    epochs: Iterator[Epoch], progress: bool | Callable[[Epoch], None], total: int
) -> Iterator[Epoch]:
    """The epochs as they pass, announced as the caller wishes."""
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
