"""The run folder. Incomplete files are ignored; every JSON file holds its checksum.

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

from fmpair.errors import DataError, named
from fmpair.experiment.cell import TEST, Cell, Outcome
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
