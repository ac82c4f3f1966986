"""The unit of work of a run: one model, fitted once and evaluated under every protocol.

A cell is identified by a hash of everything its result depends on.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
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
from fmpair.config.experiment import Candidate
from fmpair.config.model_section import cannot_stop, needs_validation
from fmpair.config.node import line_of
from fmpair.config.option_schema import options_of
from fmpair.data import Dataset
from fmpair.data.splits import Split
from fmpair.errors import FmpairError, MachineError, OptionError, unknown
from fmpair.evaluation import Evaluation, Protocol, evaluate, views
from fmpair.evaluation.evaluation import undefined_reason
from fmpair.fitted.recipe import Sourced
from fmpair.kernel_cache import CLOCK
from fmpair.metrics import Metric
from fmpair.models.catalog import find
from fmpair.training.epochs import Validation, best_epoch
from fmpair.training.search import canonical
from fmpair.training.trainable import Trainable, can_stop_early

TEST, VALIDATION = "test", "validation"
NO_VALUE = "(none)"  # the group of units whose context value is missing


@dataclass(frozen=True, eq=False)
class Cell:
    """Everything a result depends on, and nothing else: equal ids have equal results.

    data: fingerprint of the events. split: hash of the fold's rows. model: with tuned options.
    part: test, or validation for a tuning trial. stop_by: the metric of early stopping. curve: see
    `Running`. trial: of a trial, its number and how far the search is. Labels, the text of a
    trial, threads and workers do not affect the id.
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
    trial: str = "trial"

    def spec(self) -> dict[str, Any]:
        """Return the plain values that the id hashes."""
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
        """16 hexadecimal digits, the same on every machine."""
        return sha256(canonical(self.spec()).encode()).hexdigest()[:16]

    def __str__(self) -> str:
        if self.part == VALIDATION:  # trials have the same seed
            return f"{self.model.name}, fold {self.fold}, {self.trial}"
        return f"{self.model.name}, fold {self.fold}, seed {self.seed}"


@dataclass(frozen=True, eq=False)
class Outcome:
    """record: plain values; units: values of each unit by protocol; model: the fitted model."""

    record: Mapping[str, Any]
    units: tuple[pl.DataFrame, ...] = ()
    model: Any = None


def run_cell(cell: Cell, data: Dataset, split: Split, threads: int | None = None) -> Outcome:
    """Fit and evaluate a model; errors are returned as a failed outcome, in one line."""
    try:
        reset_peak()
        parts = parts_of(cell, data, split)
        recipe = recipe_of(cell.model, cell.seed, threads)
        model, log = fit(recipe, cell, parts, threads)
        with_history = model
        if parts.added_history is not None and getattr(model, "uses_last_events", False):
            with_history = model.extended(parts.added_history)
        began = CLOCK.now()
        evaluated = [
            _evaluate(with_history, cell, parts, protocol, threads) for protocol in cell.protocols
        ]
        record = {
            "id": cell.id,
            "cell": cell.spec(),
            "error": None,
            "train_seconds": log.seconds,
            "judge_seconds": CLOCK.now() - began,
            "epoch_seconds": log.epoch_seconds,
            "epochs": log.epochs,
            "peak_mb": peak_mb(),
            "curve": log.curve,
            "protocols": [values for values, _ in evaluated],
            "provenance": recipe.provenance() if isinstance(recipe, Sourced) else {},
        }
        return Outcome(record, tuple(units for _, units in evaluated), model)
    except Exception as error:
        return failed(cell, line_of(error), by_model(error))


def failed(cell: Cell, why: str, by_model: bool = False) -> Outcome:
    """Return the outcome of a cell that failed; by_model: see `by_model`."""
    return Outcome({"id": cell.id, "cell": cell.spec(), "error": why, "by_model": by_model})


# A model that diverges does so on any machine. A killed process, a full disk or a lack of memory is
# a fault of the machine and must never be stored as a result of the model.
MODEL_ERRORS = (FmpairError, ArithmeticError, np.linalg.LinAlgError)
# Polars has separate error types for a full disk or a missing file.
MACHINE_ERRORS = (MachineError, MemoryError, OSError, pl.exceptions.PolarsError)


def by_model(error: BaseException) -> bool:
    """Return whether the model itself failed, not the machine."""
    if not isinstance(error, MODEL_ERRORS):
        return False
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MACHINE_ERRORS):
            return False
        cause = cause.__cause__ or cause.__context__
    return True


# The events, the recipe and the columns of a cell.


@dataclass(frozen=True, eq=False)
class CellData:
    """The events of one cell.

    train: training events. validation: events for early stopping, if any. known: events that
    define seen items. test: test events. curve_test, curve_known: those of the learning curve;
    curve_part: their part. all_events: of all parts. added_history: events added to the histories
    of the fitted model without training, if any.
    """

    train: Dataset
    validation: Dataset | None
    known: Dataset
    test: Dataset
    curve_test: Dataset
    curve_known: Dataset
    curve_part: str
    all_events: Dataset
    added_history: Dataset | None = None


def parts_of(cell: Cell, data: Dataset, split: Split) -> CellData:
    """Return the events the cell is trained and evaluated on.

    For the test set, train on train and validation together, unless the model stops early or
    learns from train only. In that case add the validation events to its histories after the fit.
    """
    train, validation = split.training(data), data.take(split.validation)
    stops_early = cell.model.stop is not None
    if not len(validation) and (stops_early or cell.part == VALIDATION):
        raise OptionError(needs_validation(cell.model.name))
    for_stopping = validation if stops_early else None
    if cell.part == VALIDATION:
        return CellData(train, for_stopping, train, validation, validation, train, VALIDATION, data)
    both = split.before_test(data)
    test = data.take(split.test)
    if stops_early or cell.model.learns == "train":
        return CellData(
            train, for_stopping, both, test, validation, train, VALIDATION, data, validation
        )
    return CellData(both, None, both, test, test, both, TEST, data)


def recipe_of(model: Candidate, seed: int, threads: int | None) -> Any:
    """Return the recipe of a candidate, with seed and threads unless the file sets them."""
    kind = find(model.kind)
    known, options = options_of(kind).known, dict(model.options)
    for name, value in (("seed", seed), ("threads", threads)):
        if name in known:
            options.setdefault(name, value)
    if "times" in known and model.context is not None:  # the model has this context and no other
        options.setdefault("times", False)
    try:
        return kind(**options)
    except (TypeError, ValueError) as error:  # raised by user-defined classes for invalid options
        if isinstance(error, OptionError):
            raise
        raise OptionError(f"{model.name} rejects its options: {error}") from error


def visible(data: Dataset, model: Candidate) -> Dataset:
    """Return the events with only the columns the candidate may use."""
    if model.context is not None:
        names = _checked_names("context column", model.context, data.context)
        hidden = [name for name in data.context if name not in names]
        data = replace(data, context=tuple(names), columns=data.columns.drop(hidden))
    if model.user_fields is not None:
        names = _checked_names("user attribute", model.user_fields, data.user_table.columns)
        data = replace(data, user_table=data.user_table.select(names))
    if model.item_fields is not None:
        names = _checked_names("item attribute", model.item_fields, data.item_table.columns)
        data = replace(data, item_table=data.item_table.select(names))
    return data


def _checked_names(what: str, names: tuple[str, ...], known: Any) -> list[str]:
    for name in names:
        if name not in known:
            raise OptionError(unknown(what, name, known))
    return list(names)


# Training.


@dataclass
class FitLog:
    """Measurements of a fit.

    curve: rows (epoch, seconds so far, loss, part, metric, value). epochs: of the selected model,
    None if the recipe has no epochs. curve_seconds: spent on evaluating the curve.
    """

    curve: list[list[Any]] = field(default_factory=list)
    seconds: float = 0.0
    passed: int = 0
    epochs: int | None = None
    best: float = -np.inf
    curve_seconds: float = 0.0

    @property
    def epoch_seconds(self) -> float | None:
        """Mean seconds per epoch, None without epochs."""
        return self.curve[-1][1] / self.passed if self.curve else None


def fit(recipe: Any, cell: Cell, parts: CellData, threads: int | None) -> tuple[Any, FitLog]:
    """Return the fitted model and the measurements of its training."""
    events, log = visible(parts.train, cell.model), FitLog()
    began = CLOCK.now()
    if cell.model.stop is not None and not can_stop_early(recipe):
        raise OptionError(cannot_stop(cell.model.name))
    if isinstance(recipe, Trainable):
        model = _by_epochs(recipe, cell, parts, events, log, threads)
    else:
        model = recipe.fit(events)
    log.seconds = CLOCK.now() - began - log.curve_seconds
    return model, log


def fit_to_epoch(recipe: Any, data: Dataset, epochs: int | None) -> Any:
    """Return the model after `epochs` epochs, with the schedule of the recipe's full training."""
    if epochs is None:
        return recipe.fit(data)
    *_, last = islice(recipe.train(data), epochs)
    return last.recommender()


def _by_epochs(
    recipe: Any, cell: Cell, parts: CellData, events: Dataset, log: FitLog, threads: int | None
) -> Any:
    stop = None
    if parts.validation is not None:
        validation = visible(parts.validation, cell.model)
        fit_threads = getattr(recipe, "threads", None)
        stop = Validation(events, validation, cell.stop_by, cell.model.stop or 1, fit_threads)
    protocol = cell.protocols[0]

    def watch(epoch: Any) -> None:
        log.passed += 1
        seconds = epoch.seconds + (log.curve[-1][1] if log.curve else 0.0)
        row = [epoch.number, seconds, float(epoch.loss), parts.curve_part]
        log.curve.append([*row, None, None])
        if stop is None or epoch.value > log.best:
            log.epochs, log.best = epoch.number, epoch.value or 0.0
        if cell.curve and (epoch.number % cell.curve == 0 or epoch.number == recipe.epochs):
            began = CLOCK.now()
            model, known, test = epoch.recommender(), parts.curve_known, parts.curve_test
            metrics = defined_metrics(cell.metrics, test, protocol)
            means = evaluate(model, known, test, protocol, metrics, threads).means
            log.curve += [[*row, name, value] for name, value in _plain(means).items()]
            log.curve_seconds += CLOCK.now() - began

    return best_epoch(recipe.train(events), stop, watch, recipe.epochs)


# Evaluation.


def defined_metrics(metrics: tuple[str, ...], test: Dataset, protocol: Protocol) -> list[str]:
    """Return the metrics that are defined under the protocol; some need all items, or ratings."""
    usable = [name for name in metrics if not undefined_reason(Metric.parse(name), test, protocol)]
    if not usable:
        raise OptionError(f"none of {', '.join(metrics)} is defined under {protocol.id}")
    return usable


def _evaluate(
    model: Any, cell: Cell, parts: CellData, protocol: Protocol, threads: int | None
) -> tuple[dict[str, Any], pl.DataFrame]:
    """Return the values of a model under one protocol as plain values, and those of each unit."""
    metrics = defined_metrics(cell.metrics, parts.test, protocol)
    evaluation = evaluate(model, parts.known, parts.test, protocol, metrics, threads)
    units, names, grouped = evaluation.units, cell.views, evaluation
    if protocol.unit != "interaction":  # other units may have several relevant items
        names = tuple(name for name in names if name not in views.BY_ITEM)
        no_item = units.with_columns(item=pl.lit(None, units["item"].dtype))
        grouped = replace(evaluation, units=no_item)
    values = {
        "means": _plain(evaluation.means),
        "corrected": _plain(evaluation.corrected),
        "coverage": evaluation.coverage,
        "cold": {"users": evaluation.cold_users, "items": evaluation.cold_items},
        "views": [row for name in names for row in _view(name, grouped, parts)],
    }
    return values, units


def _view(name: str, evaluation: Evaluation, parts: CellData) -> list[dict[str, Any]]:
    """Return one row per group, without metrics over all lists, such as coverage."""
    groups = views.groups(name, evaluation, parts.known, parts.test, parts.all_events)
    groups = groups.cast(pl.String).fill_null(NO_VALUE)
    return [
        {
            "view": name,
            "group": row.pop("group"),
            "units": row.pop("units"),
            "means": {key: value for key, value in _plain(row).items() if value is not None},
        }
        for row in views.view(evaluation, groups).to_dicts()
    ]


def _plain(values: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the values with NaN, which JSON lacks, as null."""
    return {name: None if math.isnan(value) else float(value) for name, value in values.items()}


# The memory of this process.


def reset_peak() -> None:
    """Reset the peak memory, if the system supports it (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_mb() -> float:
    """Return the peak memory since `reset_peak`, or since the start of the process."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return round(int(line.split()[1]) / 1024, 1)
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1 << 20 if sys.platform == "darwin" else 1 << 10), 1)
