"""A candidate fitted: its recipe, its columns, its learning curve."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from fmpair.compile_time import CLOCK
from fmpair.config.candidate import cannot_stop, needs_validation
from fmpair.config.experiment import Candidate
from fmpair.config.option_schema import options_of
from fmpair.data import Dataset
from fmpair.data.split import Split
from fmpair.errors import OptionError, unknown
from fmpair.experiment.cell import TEST, VALIDATION, Cell
from fmpair.fitted.extension import goes_by_past
from fmpair.models.catalog import find
from fmpair.training.early_stopping import Validation, best_epoch
from fmpair.training.recipe import Trainable, can_stop_early

Judge = Callable[[Any], Mapping[str, float | None]]  # the model so far to metrics by name


@dataclass(frozen=True, eq=False)
class Parts:
    """The events of one cell.

    learned: the training events; held_out: those of early stopping, where there is any. shown:
    those that the fitted model is told of and has not learned from, None for none.
    judged: the test events; known: the events that define seen items. watched, watched_known:
    the same for the learning curve, and `watched_part` says which part that is. every: the events
    of all folds.
    """

    learned: Dataset
    held_out: Dataset | None
    known: Dataset
    judged: Dataset
    watched: Dataset
    watched_known: Dataset
    watched_part: str
    every: Dataset
    shown: Dataset | None = None


@dataclass
class Learning:
    """What a fit leaves behind beside its model.

    curve: rows (epoch, seconds so far, loss, part, metric, value). epochs: those of the model that
    was kept, None where the recipe has none. aside: seconds spent on the curve.
    """

    curve: list[list[Any]] = field(default_factory=list)
    seconds: float = 0.0
    passed: int = 0
    epochs: int | None = None
    best: float = -np.inf
    aside: float = 0.0


def parts_of(cell: Cell, data: Dataset, split: Split) -> Parts:
    """The events the cell is trained and evaluated on.

    A model evaluated on the test set is trained on train and validation together, unless it stops
    early, or learns from train alone: then the validation set is shown to it once it is fitted.
    """
    train, validation = split.training(data), data.take(split.validation)
    stops = cell.model.stop is not None
    if not len(validation) and (stops or cell.part == VALIDATION):
        raise OptionError(needs_validation(cell.model.name))
    held_out = validation if stops else None
    if cell.part == VALIDATION:
        return Parts(train, held_out, train, validation, validation, train, VALIDATION, data)
    both = split.before_test(data)
    test = data.take(split.test)
    if stops:
        return Parts(train, held_out, both, test, validation, train, VALIDATION, data, validation)
    if cell.model.learns == "train":
        return Parts(train, None, both, test, validation, train, VALIDATION, data, validation)
    return Parts(both, None, both, test, test, both, TEST, data)


def recipe_of(model: Candidate, seed: int, threads: int | None) -> Any:
    """The candidate's recipe; seed and threads go in where it has them and the file leaves them."""
    kind = find(model.kind)
    known, options = options_of(kind).known, dict(model.options)
    for name, value in (("seed", seed), ("threads", threads)):
        if name in known:
            options.setdefault(name, value)
    try:
        return kind(**options)
    except (TypeError, ValueError) as error:  # how anybody's own class refuses its options
        if isinstance(error, OptionError):
            raise
        raise OptionError(f"{model.name} refuses its options: {error}") from error


def visible(data: Dataset, model: Candidate) -> Dataset:
    """The events with the columns the candidate may use, and no others."""
    if model.context is not None:
        kept = _named("context column", model.context, data.context)
        hidden = [name for name in data.context if name not in kept]
        data = replace(data, context=tuple(kept), columns=data.columns.drop(hidden))
    if model.user_fields is not None:
        kept = _named("user attribute", model.user_fields, data.user_table.columns)
        data = replace(data, user_table=data.user_table.select(kept))
    if model.item_fields is not None:
        kept = _named("item attribute", model.item_fields, data.item_table.columns)
        data = replace(data, item_table=data.item_table.select(kept))
    return data


def fit(recipe: Any, cell: Cell, parts: Parts, judge: Judge) -> tuple[Any, Learning]:
    """(the fitted model, how it learned)."""
    model, events, learning = cell.model, visible(parts.learned, cell.model), Learning()
    began = CLOCK.now()
    if model.stop is not None and not can_stop_early(recipe):
        raise OptionError(cannot_stop(model.name))
    if isinstance(recipe, Trainable):
        fitted = _by_epochs(recipe, cell, parts, events, judge, learning)
    else:
        fitted = recipe.fit(events)
    learning.seconds = CLOCK.now() - began - learning.aside
    return fitted, learning


def shown(model: Any, events: Dataset | None) -> Any:
    """The fitted model with these events known, where it goes by what came before."""
    return model if events is None or not goes_by_past(model) else model.extended(events)


def fit_to_epoch(recipe: Any, data: Dataset, epochs: int | None) -> Any:
    """The model of that epoch of a training planned for the recipe's own number of epochs."""
    if epochs is None:
        return recipe.fit(data)
    *_, last = islice(recipe.train(data), epochs)
    return last.recommender()


def _by_epochs(
    recipe: Any, cell: Cell, parts: Parts, events: Dataset, judge: Judge, learning: Learning
) -> Any:
    stop = None
    if parts.held_out is not None:
        held_out = visible(parts.held_out, cell.model)
        threads = getattr(recipe, "threads", None)
        stop = Validation(events, held_out, cell.stop_by, cell.model.stop or 1, threads)

    def watch(epoch: Any) -> None:
        learning.passed += 1
        spent = epoch.seconds + (learning.curve[-1][1] if learning.curve else 0.0)
        row = [epoch.number, spent, float(epoch.loss), parts.watched_part]
        learning.curve.append([*row, None, None])
        if stop is None or epoch.value > learning.best:
            learning.epochs, learning.best = epoch.number, epoch.value or 0.0
        if cell.curve and (epoch.number % cell.curve == 0 or epoch.number == recipe.epochs):
            began = CLOCK.now()
            values = judge(epoch.recommender())
            learning.curve += [[*row, name, value] for name, value in values.items()]
            learning.aside += CLOCK.now() - began

    return best_epoch(recipe.train(events), stop, watch, recipe.epochs)


def _named(what: str, wanted: tuple[str, ...], known: Any) -> list[str]:
    for name in wanted:
        if name not in known:
            raise OptionError(unknown(what, name, known))
    return list(wanted)
