"""Time and memory of a run, from a short trial of every model on the real data."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import polars as pl

from fmpair.bridges.recbole import RecBole
from fmpair.config import model_section
from fmpair.config.experiment import Candidate, Experiment
from fmpair.config.node import line_of
from fmpair.data import Dataset
from fmpair.errors import OptionError
from fmpair.evaluation import evaluate
from fmpair.experiment import plan
from fmpair.experiment.cell import (
    Cell,
    Parts,
    parts_of,
    peak_mb,
    possible,
    recipe_of,
    reset_peak,
    visible,
)
from fmpair.experiment.plan import trials_of
from fmpair.experiment.pool import threads_of
from fmpair.experiment.prepared import PreparedData, located, prepare, with_default_protocol
from fmpair.experiment.run import duration
from fmpair.training.epochs import Validation
from fmpair.training.trainable import Trainable

FITTED = 20_000  # events that a model without epochs is fitted to, scaled up from there
WARM = 500  # events of a first fit, which compiles what has to be compiled
JUDGED = (200, 1000)  # test events: the second call less the first gives the cost of one

SCHEMA = {
    "model": pl.String,
    "cells": pl.Int64,
    "trials": pl.Int64,
    "train_seconds": pl.Float64,
    "judge_seconds": pl.Float64,
    "seconds": pl.Float64,
    "peak_mb": pl.Float64,
    "error": pl.String,
}


@dataclass(frozen=True, eq=False)
class Estimate:
    """models: per model the cells and trials, seconds of one fit and its evaluation, of all of
    its cells one after the other, and peak memory; error: why it could not be tried.

    seconds, peak_mb: of the whole run, with its workers.
    """

    models: pl.DataFrame
    seconds: float
    peak_mb: float

    def __str__(self) -> str:
        cells, trials = sum(self.models["cells"]), sum(self.models["trials"])
        tuned = f" and {trials} trials" if trials else ""
        time, memory = duration(self.seconds), f"{self.peak_mb / 1024:.1f} GB"
        return f"{cells} cells{tuned} in about {time} and {memory} of memory"


def estimate(experiment: Experiment) -> Estimate:
    """Time and memory of a run that starts from nothing."""
    model_section.check(experiment)
    bench = prepare(experiment.data, experiment.filters, experiment.split)
    experiment = located(with_default_protocol(experiment, bench.data))
    plan.check(experiment, bench)
    rows = [_row(experiment, bench, model) for model in experiment.models]
    frame = pl.DataFrame(rows, SCHEMA, orient="row")
    workers = min(experiment.run.workers, sum(frame["cells"]))
    largest = max(frame["peak_mb"].drop_nulls(), default=peak_mb())
    return Estimate(frame, sum(frame["seconds"].drop_nulls()) / workers, largest * workers)


def _row(experiment: Experiment, bench: PreparedData, model: Candidate) -> tuple[Any, ...]:
    folds = len(bench.splits)
    cells = folds * len(model.seeds or experiment.seeds)
    trials = folds * trials_of(model, experiment.tune.trials)
    cell = plan.cell_of(
        experiment, bench, plan.with_options(model, {}), 0, experiment.seeds[0]
    )  # fmt: skip
    parts = parts_of(cell, *bench.fold(0))
    threads = threads_of(experiment)
    reset_peak()
    try:
        train, fitted, epochs = _training(cell, parts, threads)
        judge = _judging(cell, parts, fitted, threads)
    except Exception as error:
        return model.name, cells, trials, None, None, None, None, line_of(error)
    curve = judge / len(cell.protocols) * (epochs // cell.curve if cell.curve else 0)
    share = len(bench.splits[0].validation) / max(len(parts.judged), 1)
    seconds = cells * (train + judge + curve) + trials * (train + share * judge)
    return model.name, cells, trials, train, judge, seconds, peak_mb(), None


def _training(cell: Cell, parts: Parts, threads: int | None) -> tuple[float, Any, int]:
    """(seconds of one whole fit, a model fitted more or less, its epochs)."""
    recipe = recipe_of(cell.model, cell.seed, threads)
    if isinstance(recipe, RecBole) and not recipe.requirement.executable.exists():
        raise OptionError("recbole is not installed yet, which the run will do first")
    events, by_epochs = visible(parts.learned, cell.model), isinstance(recipe, Trainable)
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
    setting_up = time.perf_counter() - began - sum(inside)
    began = time.perf_counter()
    fitted = epoch.recommender()
    watching = _watching(cell, parts, events, fitted, threads) + time.perf_counter() - began
    each = inside[-1] + (watching if cell.model.stop is not None else 0.0)
    return setting_up + recipe.epochs * each, fitted, recipe.epochs


def _watching(cell: Cell, parts: Parts, events: Dataset, fitted: Any, threads: int | None) -> float:
    """Seconds of evaluating one epoch on the validation set, where training stops early."""
    if parts.held_out is None:
        return 0.0
    judge = Validation(events, visible(parts.held_out, cell.model), cell.stop_by, 1, threads)
    judge.judge(fitted)  # compiles
    began = time.perf_counter()
    judge.judge(fitted)
    return time.perf_counter() - began


def _judging(cell: Cell, parts: Parts, fitted: Any, threads: int | None) -> float:
    """Seconds of evaluating once under every protocol."""

    def seconds(events: int) -> float:
        test, began = _some(parts.judged, events), time.perf_counter()
        for protocol in cell.protocols:
            wanted = possible(cell.metrics, test, protocol)
            evaluate(fitted, parts.known, test, protocol, wanted, threads)
        return time.perf_counter() - began

    few, many = JUDGED
    seconds(few)  # compiles
    first = seconds(few)
    if len(parts.judged) <= many:
        return seconds(len(parts.judged))
    each = max(seconds(many) - first, 0.0) / (many - few)
    return first + each * (len(parts.judged) - few)


def _some(data: Dataset, events: int) -> Dataset:
    """Events spread evenly over the data, at most so many."""
    if len(data) <= events:
        return data
    return data.take(np.linspace(0, len(data) - 1, events).astype(np.int64))
