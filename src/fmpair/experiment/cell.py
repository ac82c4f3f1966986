"""The smallest piece of a run: one model, fitted and evaluated once, named by its hash."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fmpair import __version__
from fmpair.compile_time import CLOCK
from fmpair.config.experiment import Candidate
from fmpair.config.model_section import cannot_stop, needs_validation
from fmpair.config.node import line_of
from fmpair.config.option_schema import options_of
from fmpair.data import Dataset
from fmpair.data.splits import Split
from fmpair.errors import FmpairError, MachineError, OptionError, unknown
from fmpair.evaluation import Evaluation, Protocol, evaluate, views
from fmpair.evaluation.evaluation import undefined_reason
from fmpair.fitted.extension import goes_by_past
from fmpair.fitted.recipe import Sourced
from fmpair.metrics import Metric
from fmpair.models.catalog import find
from fmpair.training.epochs import Validation, best_epoch
from fmpair.training.trainable import Trainable, can_stop_early

TEST, VALIDATION = "test", "validation"


@dataclass(frozen=True, eq=False)
class Cell:
    """All that a result depends on, and nothing else: equal ids have equal results.

    data: fingerprint of the events; split: hash of the fold's rows. model: what tuning chose
    stands among its options. part: what it is evaluated on, test, or validation for a trial.
    metrics: of every protocol. stop_by: the metric that early stopping watches. curve: see
    `Running`. Labels, threads and workers are no part of it.
    """

    data: str
    split: str
    fold: int
    seed: int
    model: Candidate
    protocols: tuple[Protocol, ...]
    metrics: tuple[str, ...]
    views: tuple[str, ...] = ()
    part: str = TEST
    stop_by: str = "ndcg@10"
    curve: int = 0

    def spec(self) -> dict[str, Any]:
        """The cell as plain values, which its id is made of."""
        model = self.model
        return {
            "fmpair": __version__,
            "data": self.data,
            "split": self.split,
            "fold": self.fold,
            "seed": self.seed,
            "part": self.part,
            "kind": model.kind,
            "options": dict(model.options),
            "context": model.context,
            "user_fields": model.user_fields,
            "item_fields": model.item_fields,
            "stop": None if model.stop is None else [model.stop, self.stop_by],
            "protocols": [protocol.id for protocol in self.protocols],
            "metrics": self.metrics,
            "views": self.views,
            "curve": self.curve,
            **({} if model.learns is None else {"learns": model.learns}),
        }

    @cached_property
    def id(self) -> str:
        """16 hex digits; the same wherever and whenever the same is asked."""
        return sha256(canonical(self.spec()).encode()).hexdigest()[:16]

    def __str__(self) -> str:
        trial = ", trial" if self.part == VALIDATION else ""
        return f"{self.model.name}, fold {self.fold}, seed {self.seed}{trial}"


def canonical(value: Any) -> str:
    """JSON that is the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


# How much memory this process has taken at most.


def reset_peak() -> None:
    """Forget the peak so far, where the system can (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_mb() -> float:
    """The most memory held at once since `reset_peak`, or since the start of the process."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return round(int(line.split()[1]) / 1024, 1)
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(most / (1 << 20 if sys.platform == "darwin" else 1 << 10), 1)


# Whether a failure is a model's own word about its options, or a fault of the machine.
#
# A model that diverges would do so again, wherever it is run. A process that was killed, a full
# disk
# or too little memory say nothing of the model: what they end must never count as its result.


OWN_WORD = (FmpairError, ArithmeticError, np.linalg.LinAlgError)
# Polars tells of a full disk or a missing file by errors of its own.
FAULTS = (MachineError, MemoryError, OSError, pl.exceptions.PolarsError)


def by_model(error: BaseException) -> bool:
    """Whether the model said so of itself, and no fault of the machine is behind it."""
    return isinstance(error, OWN_WORD) and not any(isinstance(e, FAULTS) for e in _behind(error))


def _behind(error: BaseException | None) -> Iterator[BaseException]:
    """The error, what it was raised from or while handling, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


# A candidate fitted: its recipe, its columns, its learning curve.


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


# One cell: fitted, evaluated under every protocol, timed.


MISSING = "(none)"  # the group of units whose context value is missing


@dataclass(frozen=True, eq=False)
class Outcome:
    """record: plain values; units: per protocol the values of each unit; model: the fitted one."""

    record: Mapping[str, Any]
    units: tuple[pl.DataFrame, ...] = ()
    model: Any = None


@dataclass(frozen=True, eq=False)
class Judged:
    """A model under one protocol, and by view."""

    evaluation: Evaluation
    views: list[dict[str, Any]] = field(default_factory=list)


def run_cell(cell: Cell, data: Dataset, split: Split, threads: int | None = None) -> Outcome:
    """Fit and evaluate; a failure is an outcome too, with its error in one line."""
    try:
        return _run(cell, data, split, threads)
    except Exception as error:
        return failed(cell, line_of(error), by_model(error))


def failed(cell: Cell, why: str, by_model: bool = False) -> Outcome:
    """The outcome of a cell that did not come to its end; by_model: see `fault`."""
    return Outcome({"id": cell.id, "cell": cell.spec(), "error": why, "by_model": by_model})


def _run(cell: Cell, data: Dataset, split: Split, threads: int | None) -> Outcome:
    reset_peak()
    parts = parts_of(cell, data, split)
    recipe = recipe_of(cell.model, cell.seed, threads)
    first = cell.protocols[0]

    def watch(model: Any) -> Mapping[str, float | None]:
        wanted = possible(cell.metrics, parts.watched, first)
        known, watched = parts.watched_known, parts.watched
        return _plain(evaluate(model, known, watched, first, wanted, threads).means)

    model, learning = fit(recipe, cell, parts, watch)
    informed = shown(model, parts.shown)
    began = CLOCK.now()
    judged = [_judge(informed, cell, parts, protocol, threads) for protocol in cell.protocols]
    seconds = CLOCK.now() - began
    provenance = recipe.provenance() if isinstance(recipe, Sourced) else {}
    record = {**_record(cell, learning, judged, seconds), "provenance": provenance}
    return Outcome(record, tuple(one.evaluation.units for one in judged), model)


def possible(metrics: tuple[str, ...], test: Dataset, protocol: Protocol) -> list[str]:
    """The metrics that are defined under the protocol; some need all items, or ratings."""
    kept = [name for name in metrics if not undefined_reason(Metric.parse(name), test, protocol)]
    if not kept:
        raise OptionError(f"none of {', '.join(metrics)} is defined under {protocol.id}")
    return kept


def _judge(model: Any, cell: Cell, parts: Parts, protocol: Protocol, threads: int | None) -> Judged:
    wanted = possible(cell.metrics, parts.judged, protocol)
    evaluation = evaluate(model, parts.known, parts.judged, protocol, wanted, threads)
    by_item = protocol.unit == "interaction"  # other units may have several items
    names = [name for name in cell.views if by_item or name != "popularity"]
    grouped = evaluation if by_item else _without_items(evaluation)
    return Judged(evaluation, [row for name in names for row in _view(name, grouped, parts)])


def _without_items(evaluation: Evaluation) -> Evaluation:
    units = evaluation.units
    return replace(evaluation, units=units.with_columns(item=pl.lit(None, units["item"].dtype)))


def _view(name: str, evaluation: Evaluation, parts: Parts) -> list[dict[str, Any]]:
    """One row per group; what is about all lists together, as coverage, has no value in one."""
    groups = views.groups(name, evaluation, parts.known, parts.judged, parts.every)
    groups = groups.cast(pl.String).fill_null(MISSING)
    return [
        {
            "view": name,
            "group": row.pop("group"),
            "units": row.pop("units"),
            "means": {key: value for key, value in _plain(row).items() if value is not None},
        }
        for row in views.view(evaluation, groups).to_dicts()
    ]


def _record(cell: Cell, learning: Learning, judged: list[Judged], seconds: float) -> dict[str, Any]:
    epoch = learning.curve[-1][1] / learning.passed if learning.curve else None
    return {
        "id": cell.id,
        "cell": cell.spec(),
        "error": None,
        "train_seconds": learning.seconds,
        "judge_seconds": seconds,
        "epoch_seconds": epoch,
        "epochs": learning.epochs,
        "peak_mb": peak_mb(),
        "curve": learning.curve,
        "protocols": [
            {
                "means": _plain(one.evaluation.means),
                "corrected": _plain(one.evaluation.corrected),
                "coverage": one.evaluation.coverage,
                "views": one.views,
            }
            for one in judged
        ],
    }


def _plain(values: Mapping[str, Any]) -> dict[str, float | None]:
    """NaN, which JSON lacks, as null."""
    return {name: None if math.isnan(value) else float(value) for name, value in values.items()}
