"""One cell: fitted, evaluated under every protocol, timed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from fmpair.compile_time import CLOCK
from fmpair.config.node import line_of
from fmpair.data import Dataset
from fmpair.data.split import Split
from fmpair.errors import OptionError
from fmpair.evaluation import Evaluation, Protocol, evaluate, views
from fmpair.evaluation.evaluate import obstacle
from fmpair.experiment.cell import Cell
from fmpair.experiment.fault import by_model
from fmpair.experiment.fitting import Learning, Parts, fit, parts_of, recipe_of, shown
from fmpair.experiment.memory import peak_mb, reset_peak
from fmpair.fitted.recipe import Sourced
from fmpair.metrics import Metric

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
    kept = [name for name in metrics if not obstacle(Metric.parse(name), test, protocol)]
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
