"""The results of a run: all that a report needs, as frames."""

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


@dataclass(frozen=True, eq=False)
class Results:
    """The tables of one run; fold and seed number a model's repeats.

    cells: one row per model, fold and seed: cell (its hash), model, options (JSON), fold, seed,
        error (null: it went well), train_seconds, judge_seconds, epoch_seconds (mean, null where
        there are no epochs), epochs, peak_mb.
    values: (cell, model, fold, seed, protocol, metric, value, corrected, coverage); protocol is the
        key of experiment.protocols, metric as `Protocol.name` writes it; corrected may be null.
    views: (model, fold, seed, protocol, view, group, units, metric, value).
    curves: (model, fold, seed, epoch, seconds, loss, part, metric, value); metric null: loss only.
    trials: (model, fold, trial, options (JSON), metric, value, seconds, error) of tuning.
    units: by protocol a frame (model, fold, seed, unit, row, user, item, one column per metric).
    manifest: provenance: see `experiment.manifest`.
    """

    experiment: Experiment
    cells: pl.DataFrame
    values: pl.DataFrame
    views: pl.DataFrame
    curves: pl.DataFrame
    trials: pl.DataFrame
    units: Mapping[str, pl.DataFrame]
    manifest: Mapping[str, Any]


# A run folder read back: results as frames, in the order of the plan.


NOT_RUN = "not run yet"

KEYS = {"model": pl.String, "fold": pl.Int64, "seed": pl.Int64}
CELLS = {
    "cell": pl.String,
    "model": pl.String,
    "options": pl.String,
    "fold": pl.Int64,
    "seed": pl.Int64,
    "error": pl.String,
    "train_seconds": pl.Float64,
    "judge_seconds": pl.Float64,
    "epoch_seconds": pl.Float64,
    "epochs": pl.Int64,
    "peak_mb": pl.Float64,
}
VALUES = {
    "cell": pl.String,
    **KEYS,
    "protocol": pl.String,
    "metric": pl.String,
    "value": pl.Float64,
    "corrected": pl.Float64,
    "coverage": pl.Float64,
}
VIEWS = {
    **KEYS,
    "protocol": pl.String,
    "view": pl.String,
    "group": pl.String,
    "units": pl.Int64,
    "metric": pl.String,
    "value": pl.Float64,
}
CURVES = {
    **KEYS,
    "epoch": pl.Int64,
    "seconds": pl.Float64,
    "loss": pl.Float64,
    "part": pl.String,
    "metric": pl.String,
    "value": pl.Float64,
}
TRIALS = {
    "model": pl.String,
    "fold": pl.Int64,
    "trial": pl.Int64,
    "options": pl.String,
    "metric": pl.String,
    "value": pl.Float64,
    "seconds": pl.Float64,
    "error": pl.String,
}


def results(folder: str | Path) -> Results:
    """All that a run has left in its folder."""
    place = RunFolder(Path(folder))
    spec, plan = (whole_json(place.path / name) for name in (EXPERIMENT, PLAN))
    if spec is None or plan is None:
        raise DataError(f"{folder} holds no results: make them with fmpair run FILE")
    experiment = from_plain(spec)
    rows = [(row, place.record(TEST, row["id"])) for row in plan["cells"]]
    done = [(row, record) for row, record in rows if record and record["error"] is None]
    return Results(
        experiment=experiment,
        cells=pl.DataFrame([_cell(*both) for both in rows], CELLS, orient="row"),
        values=pl.DataFrame(list(_values(experiment, done)), VALUES, orient="row"),
        views=pl.DataFrame(list(_views(experiment, done)), VIEWS, orient="row"),
        curves=pl.DataFrame(list(_curves(done)), CURVES, orient="row"),
        trials=pl.DataFrame(list(_trials(experiment, place, plan)), TRIALS, orient="row"),
        units=_units(experiment, place, done),
        manifest=whole_json(place.path / MANIFEST) or {},
    )


Rows = list[tuple[dict[str, Any], dict[str, Any]]]


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["model"], row["fold"], row["seed"]


def _cell(row: dict[str, Any], record: dict[str, Any] | None) -> tuple[Any, ...]:
    found = record or {"error": NOT_RUN}
    figures = (found.get(name) for name in list(CELLS)[5:])
    return row["id"], row["model"], row["options"], row["fold"], row["seed"], *figures


def _values(experiment: Experiment, rows: Rows) -> Iterator[tuple[Any, ...]]:
    for row, record in rows:
        for (label, protocol), found in zip(experiment.protocols.items(), record["protocols"]):
            estimates = {protocol.name(k): value for k, value in found["corrected"].items()}
            for metric, value in found["means"].items():
                yield (
                    row["id"],
                    *_key(row),
                    label,
                    metric,
                    value,
                    estimates.get(metric),
                    found["coverage"],
                )


def _views(experiment: Experiment, rows: Rows) -> Iterator[tuple[Any, ...]]:
    for row, record in rows:
        for label, found in zip(experiment.protocols, record["protocols"]):
            for view in found["views"]:
                group = (view["view"], view["group"], view["units"])
                for metric, value in view["means"].items():
                    yield *_key(row), label, *group, metric, value


def _curves(rows: Rows) -> Iterator[tuple[Any, ...]]:
    for row, record in rows:
        for point in record["curve"]:
            yield *_key(row), *point


def _trials(
    experiment: Experiment, place: RunFolder, plan: dict[str, Any]
) -> Iterator[tuple[Any, ...]]:
    protocol = next(iter(experiment.protocols.values()))
    metric = protocol.name(tuning_metric(experiment))
    for row in plan["trials"]:
        record = place.record(VALIDATION, row["id"]) or {"error": NOT_RUN}
        value = record["protocols"][0]["means"][metric] if record["error"] is None else None
        yield (
            row["model"],
            row["fold"],
            row["trial"],
            row["options"],
            metric,
            value,
            record.get("train_seconds"),
            record["error"],
        )


def _units(experiment: Experiment, place: RunFolder, rows: Rows) -> dict[str, pl.DataFrame]:
    found = {}
    for number, label in enumerate(experiment.protocols):
        frames = [
            pl.read_parquet(place.path / "cells" / f"{row['id']}.{number}.parquet").select(
                *(
                    pl.lit(value, kind).alias(name)
                    for (name, kind), value in zip(KEYS.items(), _key(row))
                ),
                pl.all(),
            )
            for row, _ in rows
        ]
        found[label] = pl.concat(frames) if frames else pl.DataFrame(schema=KEYS)
    return found
