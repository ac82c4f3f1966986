"""Estimate the time and memory of a run from a short trial of every model on the real data."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import polars as pl

from fmpair.bridges.recbole import RecBole
from fmpair.config.experiment import Candidate, Experiment
from fmpair.config.model_section import check_code
from fmpair.config.node import line_of
from fmpair.data import Dataset
from fmpair.errors import OptionError
from fmpair.evaluation import evaluate
from fmpair.experiment import cell as cell_module
from fmpair.experiment import plan
from fmpair.experiment.cell import Cell, CellData, peak_mb, recipe_of, reset_peak, visible
from fmpair.experiment.pool import threads_per_worker
from fmpair.experiment.prepared import PreparedData, prepare, with_defaults
from fmpair.experiment.progress import duration
from fmpair.training.epochs import Validation
from fmpair.training.trainable import Trainable

FITTED = 20_000  # events a model without epochs is fitted to; its time is scaled up from there
WARM = 500  # events of a first fit, which compiles the kernels
TEST_EVENTS = (200, 1000)  # test events: the difference of the two gives the cost of one

COSTS = ("train_seconds", "judge_seconds", "seconds", "peak_mb")
SCHEMA = {
    "model": pl.String,
    "cells": pl.Int64,
    "trials": pl.Int64,
    **dict.fromkeys(COSTS, pl.Float64),
    "error": pl.String,
}


@dataclass(frozen=True, eq=False)
class Estimate:
    """The cost of a run; seconds, peak_mb: of the whole run, with its workers.

    models: per model its cells and trials, the seconds of one fit, of its evaluation and of all
    its cells one after the other, peak memory, and the error if it could not be tried.
    """

    models: pl.DataFrame
    seconds: float
    peak_mb: float

    def __str__(self) -> str:
        cells, trials = sum(self.models["cells"]), sum(self.models["trials"])
        tuned = f" and {trials} trials" if trials else ""
        time, memory = duration(self.seconds), f"{self.peak_mb / 1024:.1f} GB"
        return f"{cells} cells{tuned} in about {time} and {memory} of memory"


def estimate(
    experiment: Experiment, progress: Callable[[str], None] = lambda line: None
) -> Estimate:
    """Estimate the time and memory of a run in an empty folder.

    progress: called with a line before each model is tried.
    """
    check_code(experiment)
    prepared = prepare(experiment.data, experiment.filters, experiment.split)
    experiment = with_defaults(experiment, prepared)
    plan.check(experiment, prepared)
    rows = []
    for number, model in enumerate(experiment.models, 1):
        progress(f"trying {model.name} briefly, {number} of {len(experiment.models)}")
        rows.append(_row(experiment, prepared, model))
    frame = pl.DataFrame(rows, SCHEMA, orient="row")
    workers = min(experiment.run.workers, sum(frame["cells"]))
    largest = max(frame["peak_mb"].drop_nulls(), default=peak_mb())
    return Estimate(frame, sum(frame["seconds"].drop_nulls()) / workers, largest * workers)


def _row(experiment: Experiment, prepared: PreparedData, model: Candidate) -> tuple[Any, ...]:
    folds = len(prepared.splits)
    cells = folds * len(model.seeds or experiment.seeds)
    trials = folds * plan.trials_of(model, experiment.tune.trials)
    untuned = plan.with_options(model, {})
    cell = plan.cell_of(experiment, prepared, untuned, 0, experiment.seeds[0])
    parts = cell_module.parts_of(cell, *prepared.fold(0))
    threads = threads_per_worker(experiment)
    reset_peak()
    try:
        train, fitted, epochs = _training_cost(cell, parts, threads)
        evaluation = _evaluation_seconds(cell, parts, fitted, threads)
    except Exception as error:
        return model.name, cells, trials, None, None, None, None, line_of(error)
    curve = evaluation / len(cell.protocols) * (epochs // cell.curve if cell.curve else 0)
    share = len(prepared.splits[0].validation) / max(len(parts.test), 1)
    seconds = cells * (train + evaluation + curve) + trials * (train + share * evaluation)
    if model.tune is not None:
        seconds += folds * (model.tune.seconds or 0.0)
    return model.name, cells, trials, train, evaluation, seconds, peak_mb(), None


def _training_cost(cell: Cell, parts: CellData, threads: int | None) -> tuple[float, Any, int]:
    """Return the seconds of one whole fit, a partly fitted model, and its epochs."""
    recipe = recipe_of(cell.model, cell.seed, threads)
    if isinstance(recipe, RecBole) and not recipe.requirement.executable.exists():
        raise OptionError("recbole is not installed yet: the run installs it first")
    events, by_epochs = visible(parts.train, cell.model), isinstance(recipe, Trainable)
    if not by_epochs:
        recipe.fit(_some(events, WARM))
        part = _some(events, FITTED)
        began = time.perf_counter()
        fitted = recipe.fit(part)
        return (time.perf_counter() - began) * len(events) / len(part), fitted, 0
    next(recipe.train(_some(events, WARM)))
    began, inside = time.perf_counter(), []
    for epoch in islice(recipe.train(events), 2):
        inside.append(epoch.seconds)
    setup = time.perf_counter() - began - sum(inside)
    began = time.perf_counter()
    fitted = epoch.recommender()
    validation = (
        _validation_seconds(cell, parts, events, fitted, threads) + time.perf_counter() - began
    )
    each = inside[-1] + (validation if cell.model.stop is not None else 0.0)
    return setup + recipe.epochs * each, fitted, recipe.epochs


def _validation_seconds(
    cell: Cell, parts: CellData, events: Dataset, fitted: Any, threads: int | None
) -> float:
    """Return the seconds of one evaluation for early stopping, 0 without it."""
    if parts.validation is None:
        return 0.0
    validation = Validation(events, visible(parts.validation, cell.model), cell.stop_by, 1, threads)
    validation.judge(fitted)  # compiles
    began = time.perf_counter()
    validation.judge(fitted)
    return time.perf_counter() - began


def _evaluation_seconds(cell: Cell, parts: CellData, fitted: Any, threads: int | None) -> float:
    """Return the seconds of one evaluation under every protocol."""

    def seconds(events: int) -> float:
        test, began = _some(parts.test, events), time.perf_counter()
        for protocol in cell.protocols:
            metrics = cell_module.defined_metrics(cell.metrics, test, protocol)
            evaluate(fitted, parts.known, test, protocol, metrics, threads)
        return time.perf_counter() - began

    few, many = TEST_EVENTS
    seconds(few)  # compiles
    first = seconds(few)
    if len(parts.test) <= many:
        return seconds(len(parts.test))
    each = max(seconds(many) - first, 0.0) / (many - few)
    return first + each * (len(parts.test) - few)


def _some(data: Dataset, events: int) -> Dataset:
    """Return at most this many events, spread evenly over the data."""
    if len(data) <= events:
        return data
    return data.take(np.linspace(0, len(data) - 1, events).astype(np.int64))
