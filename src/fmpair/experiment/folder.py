"""The run folder, and the tables of results read from it.

Incomplete files are ignored; every JSON file holds its checksum.

experiment.json        the experiment, with all defaults filled in
plan.json              the cells and trials of the results, in order
manifest.json          provenance
splits.parquet         the rows of each part of every fold
cells/ID.json          one result; written last, with the digests of its other files
cells/ID.0.parquet     the values of every unit under the first protocol
trials/ID.json         one trial of tuning
winner.json            which model was fitted to all events
model.fmpair           that model
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl

from fmpair.config.experiment import Experiment, from_plain
from fmpair.errors import DataError, named
from fmpair.experiment.cell import TEST, VALIDATION, Cell, Outcome
from fmpair.experiment.plan import tuning_metric
from fmpair.files import atomic_path, lock, make_folder, remove_leftovers, write_atomically
from fmpair.training.search import canonical

CELLS, TRIALS = "cells", "trials"
EXPERIMENT, PLAN, MANIFEST = "experiment.json", "plan.json", "manifest.json"
SPLITS = "splits.parquet"
MODEL, WINNER = "model.fmpair", "winner.json"
LOCK = ".lock"
CHECKSUM = "checksum"  # the key of the checksum in a JSON file


@dataclass(frozen=True)
class RunFolder:
    """Save and read the results of cells in one run folder."""

    path: Path

    def save(self, cell: Cell, outcome: Outcome, keep_model: bool = False) -> dict[str, Any]:
        """Save an outcome and return its record; the JSON file, written last, completes it."""
        folder, files = self._folder(cell.part), {}
        if cell.part == TEST:
            for number, units in enumerate(outcome.units):
                name = f"{cell.id}.{number}.parquet"
                with atomic_path(folder / name) as path:
                    units.write_parquet(path)
                    files[name] = digest(path)
            if keep_model and outcome.model is not None:
                name = f"{cell.id}.fmpair"
                outcome.model.save(folder / name)
                files[name] = digest(folder / name)
        record = {**outcome.record, "files": files}
        write_json(folder / f"{cell.id}.json", record)
        return record

    def finished(self, cell: Cell, keep_model: bool = False) -> dict[str, Any] | None:
        """Return the record of a cell that succeeded and whose files are all intact."""
        record = self.record(cell.part, cell.id)
        if record is None or record["error"] is not None:
            return None
        needs_model = keep_model and cell.part == TEST
        return record if not needs_model or f"{cell.id}.fmpair" in record["files"] else None

    def record(self, part: str, id: str) -> dict[str, Any] | None:
        """Return the record of a cell id, None where there is none or a file is damaged."""
        folder = self._folder(part)
        record = read_json(folder / f"{id}.json")
        if record is None or record.get("id") != id:
            return None
        intact = all(
            (folder / name).is_file() and digest(folder / name) == expected
            for name, expected in record["files"].items()
        )
        return record if intact else None

    def units(self, id: str, protocol: int) -> Path:
        """Return the file with the values of every unit under a protocol, by its number."""
        return self.path / CELLS / f"{id}.{protocol}.parquet"

    def _folder(self, part: str) -> Path:
        return self.path / (CELLS if part == TEST else TRIALS)


@contextmanager
def open_folder(folder: str | Path) -> Iterator[RunFolder]:
    """Create the run folder where needed, lock it, and remove incomplete files.

    A new folder is removed again if the run ends by an error before anything is in it.
    """
    path = Path(folder)
    new = not path.exists()
    for name in (CELLS, TRIALS):
        make_folder(path / name)
    try:
        with _locked(path):
            for name in (".", CELLS, TRIALS):
                remove_leftovers(path / name)
            yield RunFolder(path)
    except BaseException:
        if new:
            _remove_empty(path)
        raise


def _remove_empty(folder: Path) -> None:
    """Remove a folder in which nothing but its lock has been written."""
    if not any(path.is_file() and path.name != LOCK for path in folder.rglob("*")):
        with suppress(OSError):  # another process has removed it, or written into it
            (folder / LOCK).unlink(missing_ok=True)
            for path in (folder / CELLS, folder / TRIALS, folder):
                path.rmdir()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of the folder; the system releases it however the process ends."""
    if os.name == "nt":  # two runs in one folder still give correct files, but do the work twice
        yield
        return
    try:  # do not follow a link, or wait for a pipe, of that name
        file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise DataError(f"cannot write {folder / LOCK}: {error.strerror}") from error
    try:
        if not lock(file):
            raise DataError(
                f"another run is using {folder}: wait for it, or choose another {named('folder')}"
            )
        yield
    finally:
        os.close(file)


def model_of(folder: str | Path) -> Path:
    """Return the file of a run's best model, after checking that it is intact."""
    path, winner = Path(folder) / MODEL, whole_json(Path(folder) / WINNER)
    if winner is not None and winner.get("error"):
        raise DataError(f"{folder} holds no model: {winner['error']}")
    if not path.is_file() or winner is None:
        raise DataError(
            f"{folder} holds no model: finish the run, with output: {{refit: true}} in its file"
        )
    if winner.get("sha256") != digest(path):
        raise DataError(f"{path} is not the model this run saved: fmpair run FILE fits it again")
    return path


def forget(path: Path) -> None:
    """Delete a file that is out of date, if it exists."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"cannot remove {path}: {error.strerror}") from error


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write plain values and their checksum to a file, completely or not at all."""
    plain = json.loads(json.dumps(value, default=str))
    signed = {**plain, CHECKSUM: _checksum(plain)}
    write_atomically(path, (json.dumps(signed, indent=1) + "\n").encode())


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in a file, None where it is missing or its checksum is wrong."""
    try:
        plain = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(plain, dict):
        return None
    expected = plain.pop(CHECKSUM, None)
    return plain if expected == _checksum(plain) else None


def whole_json(path: Path) -> dict[str, Any] | None:
    """Return the object in a file, None where it is missing; raise where it is damaged."""
    plain = read_json(path)
    if plain is None and path.exists():
        raise DataError(f"{path} is damaged or of another version: fmpair run FILE writes it again")
    return plain


def _checksum(plain: Mapping[str, Any]) -> str:
    return sha256(canonical(plain).encode()).hexdigest()


def digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    hashed = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            hashed.update(block)
    return hashed.hexdigest()


# The results of a run as frames, in the order of the plan.

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
CELL_ROWS = {
    **dict.fromkeys(("cell", "model", "options"), TEXT),
    "fold": INT,
    "seed": INT,
    **FIGURES,
}
MEAN = {"metric": TEXT, "value": FLOAT}
VALUES = {"cell": TEXT, **KEYS, "protocol": TEXT, **MEAN, "corrected": FLOAT, "coverage": FLOAT}
VIEWS = {**KEYS, **dict.fromkeys(("protocol", "view", "group"), TEXT), "units": INT, **MEAN}
CURVES = {**KEYS, "epoch": INT, "seconds": FLOAT, "loss": FLOAT, "part": TEXT, **MEAN}
TRIAL = {"model": TEXT, "fold": INT, "trial": INT, "options": TEXT, "chosen": pl.Boolean}
TRIAL_ROWS = {**TRIAL, **MEAN, "seconds": FLOAT, "error": TEXT}


@dataclass(frozen=True, eq=False)
class Results:
    """The tables of one run; fold and seed number the repeats of a model.

    cells: one row per model, fold and seed: cell (its hash), model, options (JSON), fold, seed,
        error (null: it succeeded; "not run yet": the run was interrupted), train_seconds,
        judge_seconds, epoch_seconds (mean, null without epochs), epochs, peak_mb.
    values: (cell, model, fold, seed, protocol, metric, value, corrected, coverage); protocol is
        the key of experiment.protocols, metric as `Protocol.name` writes it; corrected may be null.
    views: (model, fold, seed, protocol, view, group, units, metric, value).
    curves: (model, fold, seed, epoch, seconds, loss, part, metric, value); metric null: loss only.
    trials: (model, fold, trial, options (JSON), chosen, metric, value, seconds, error) of tuning;
        trials are numbered from 1; chosen: whether the cells of the fold have this setting.
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

    @property
    def failed(self) -> pl.DataFrame:
        """The rows of `cells` that were run and have an error."""
        return self.cells.filter(pl.col("error") != NOT_RUN)

    @property
    def waiting(self) -> pl.DataFrame:
        """The rows of `cells` that an interrupted run has not run yet."""
        return self.cells.filter(pl.col("error") == NOT_RUN)


def results(folder: str | Path) -> Results:
    """Read the results of a run from its folder."""
    run = RunFolder(Path(folder))
    spec, plan = (whole_json(run.path / name) for name in (EXPERIMENT, PLAN))
    manifest = whole_json(run.path / MANIFEST) or {}
    if spec is not None and plan is None and "command" in manifest:  # interrupted while tuning
        raise DataError(f"{folder} holds no results yet: {manifest['command']} continues the run")
    if spec is None or plan is None:
        raise DataError(f"{folder} holds no results: create them with fmpair run FILE")
    experiment = from_plain(spec)
    rows = [(row, run.record(TEST, row["id"])) for row in plan["cells"]]
    done = [(row, record) for row, record in rows if record and record["error"] is None]
    return Results(
        experiment=experiment,
        cells=pl.DataFrame([_cell(row, record) for row, record in rows], CELL_ROWS, orient="row"),
        values=pl.DataFrame(list(_values(experiment, done)), VALUES, orient="row"),
        views=pl.DataFrame(list(_views(experiment, done)), VIEWS, orient="row"),
        curves=pl.DataFrame(list(_curves(done)), CURVES, orient="row"),
        trials=pl.DataFrame(list(_trials(experiment, run, plan)), TRIAL_ROWS, orient="row"),
        units={
            label: _units(run, number, [row for row, _ in done])
            for number, label in enumerate(experiment.protocols)
        },
        manifest=manifest,
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
        yield *(row.get(name) for name in TRIAL), metric, value, seconds, error


def _units(run: RunFolder, protocol: int, rows: list[PlanRow]) -> pl.DataFrame:
    if not rows:
        return pl.DataFrame(schema=KEYS)
    frames = []
    for row in rows:
        keys = zip(KEYS.items(), _key(row))
        columns = [pl.lit(value, kind).alias(name) for (name, kind), value in keys]
        frames.append(pl.read_parquet(run.units(row["id"], protocol)).select(*columns, pl.all()))
    return pl.concat(frames)
