"""The results of a run: read from its folder, as frames, in the order of the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from fmpair.config.experiment import Experiment, from_plain
from fmpair.errors import DataError
from fmpair.experiment.cell import TEST, VALIDATION
from fmpair.experiment.folder import EXPERIMENT, MANIFEST, PLAN, RunFolder, whole_json
from fmpair.experiment.plan import tuning_metric

NOT_RUN = "not run yet"

# The columns of each table.
TEXT, INT, FLOAT = pl.String, pl.Int64, pl.Float64
KEYS = {"model": TEXT, "fold": INT, "seed": INT}
FIGURES = {
    "error": TEXT,
    **dict.fromkeys(("train_seconds", "judge_seconds", "epoch_seconds"), FLOAT),
    "epochs": INT,
    "peak_mb": FLOAT,
}
CELLS = {**dict.fromkeys(("cell", "model", "options"), TEXT), "fold": INT, "seed": INT, **FIGURES}
MEAN = {"metric": TEXT, "value": FLOAT}
VALUES = {"cell": TEXT, **KEYS, "protocol": TEXT, **MEAN, "corrected": FLOAT, "coverage": FLOAT}
VIEWS = {**KEYS, **dict.fromkeys(("protocol", "view", "group"), TEXT), "units": INT, **MEAN}
CURVES = {**KEYS, "epoch": INT, "seconds": FLOAT, "loss": FLOAT, "part": TEXT, **MEAN}
TRIAL = {"model": TEXT, "fold": INT, "trial": INT, "options": TEXT}
TRIALS = {**TRIAL, **MEAN, "seconds": FLOAT, "error": TEXT}


@dataclass(frozen=True, eq=False)
class Results:
    """The tables of one run; fold and seed number the repeats of a model.

    cells: one row per model, fold and seed: cell (its hash), model, options (JSON), fold, seed,
        error (null: it succeeded), train_seconds, judge_seconds, epoch_seconds (mean, null
        without epochs), epochs, peak_mb.
    values: (cell, model, fold, seed, protocol, metric, value, corrected, coverage); protocol is
        the key of experiment.protocols, metric as `Protocol.name` writes it; corrected may be null.
    views: (model, fold, seed, protocol, view, group, units, metric, value).
    curves: (model, fold, seed, epoch, seconds, loss, part, metric, value); metric null: loss only.
    trials: (model, fold, trial, options (JSON), metric, value, seconds, error) of tuning.
    units: by protocol a frame (model, fold, seed, unit, row, user, item, one column per metric).
    manifest: provenance, see `fmpair.experiment.run.manifest`.
    """

    experiment: Experiment
    cells: pl.DataFrame
    values: pl.DataFrame
    views: pl.DataFrame
    curves: pl.DataFrame
    trials: pl.DataFrame
    units: Mapping[str, pl.DataFrame]
    manifest: Mapping[str, Any]


def results(folder: str | Path) -> Results:
    """Read the results of a run from its folder."""
    run = RunFolder(Path(folder))
    spec, plan = (whole_json(run.path / name) for name in (EXPERIMENT, PLAN))
    if spec is None or plan is None:
        raise DataError(f"{folder} holds no results: create them with fmpair run FILE")
    experiment = from_plain(spec)
    rows = [(row, run.record(TEST, row["id"])) for row in plan["cells"]]
    done = [(row, record) for row, record in rows if record and record["error"] is None]
    return Results(
        experiment=experiment,
        cells=pl.DataFrame([_cell(row, record) for row, record in rows], CELLS, orient="row"),
        values=pl.DataFrame(list(_values(experiment, done)), VALUES, orient="row"),
        views=pl.DataFrame(list(_views(experiment, done)), VIEWS, orient="row"),
        curves=pl.DataFrame(list(_curves(done)), CURVES, orient="row"),
        trials=pl.DataFrame(list(_trials(experiment, run, plan)), TRIALS, orient="row"),
        units={
            label: _units(run, number, [row for row, _ in done])
            for number, label in enumerate(experiment.protocols)
        },
        manifest=whole_json(run.path / MANIFEST) or {},
    )


PlanRow = Mapping[str, Any]  # a cell or trial of plan.json
Finished = list[tuple[PlanRow, dict[str, Any]]]  # rows of the plan, each with its record


def _key(row: PlanRow) -> tuple[Any, ...]:
    return row["model"], row["fold"], row["seed"]


def _cell(row: PlanRow, record: Mapping[str, Any] | None) -> tuple[Any, ...]:
    figures = record or {"error": NOT_RUN}
    keys = (row["id"], row["model"], row["options"], row["fold"], row["seed"])
    return *keys, *(figures.get(name) for name in FIGURES)


def _values(experiment: Experiment, rows: Finished) -> Iterator[tuple[Any, ...]]:
    for row, record in rows:
        for (label, protocol), judged in zip(experiment.protocols.items(), record["protocols"]):
            corrected = {protocol.name(k): value for k, value in judged["corrected"].items()}
            for metric, value in judged["means"].items():
                estimates = corrected.get(metric), judged["coverage"]
                yield row["id"], *_key(row), label, metric, value, *estimates


def _views(experiment: Experiment, rows: Finished) -> Iterator[tuple[Any, ...]]:
    for row, record in rows:
        for label, judged in zip(experiment.protocols, record["protocols"]):
            for view in judged["views"]:
                group = (view["view"], view["group"], view["units"])
                for metric, value in view["means"].items():
                    yield *_key(row), label, *group, metric, value


def _curves(rows: Finished) -> Iterator[tuple[Any, ...]]:
    for row, record in rows:
        for point in record["curve"]:
            yield *_key(row), *point


def _trials(
    experiment: Experiment, run: RunFolder, plan: Mapping[str, Any]
) -> Iterator[tuple[Any, ...]]:
    protocol = next(iter(experiment.protocols.values()))
    metric = protocol.name(tuning_metric(experiment))
    for row in plan["trials"]:
        record = run.record(VALIDATION, row["id"]) or {"error": NOT_RUN}
        error, seconds = record["error"], record.get("train_seconds")
        value = record["protocols"][0]["means"][metric] if error is None else None
        yield *(row[name] for name in TRIAL), metric, value, seconds, error


def _units(run: RunFolder, protocol: int, rows: list[PlanRow]) -> pl.DataFrame:
    if not rows:
        return pl.DataFrame(schema=KEYS)
    frames = []
    for row in rows:
        keys = zip(KEYS.items(), _key(row))
        columns = [pl.lit(value, kind).alias(name) for (name, kind), value in keys]
        frames.append(pl.read_parquet(run.units(row["id"], protocol)).select(*columns, pl.all()))
    return pl.concat(frames)
