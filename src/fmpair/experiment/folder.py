"""The run folder: what is in it is whole, or does not count. Every JSON has a checksum inside.

experiment.json        the experiment, resolved
plan.json              which cells and trials make the results, in their order
manifest.json          provenance
splits.parquet         the rows of each part of every fold
cells/ID.json          one result; written last, it names its other files and their digests
cells/ID.0.parquet     values of every unit under the first protocol
trials/ID.json         one trial of tuning
winner.json            which model was fitted to all events
model.fmpair           that model
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from fmpair.errors import DataError, named
from fmpair.experiment.cell import TEST, Cell, Outcome, canonical
from fmpair.files import atomic_path, lock, make_folder, remove_leftovers, write_atomically

FOLDERS = ("cells", "trials")
EXPERIMENT, PLAN, MANIFEST = "experiment.json", "plan.json", "manifest.json"
SPLITS = "splits.parquet"
MODEL, WINNER = "model.fmpair", "winner.json"
LOCK = ".lock"
CHECKSUM = "checksum"  # of all else in a JSON


@dataclass(frozen=True)
class RunFolder:
    """Reads and writes of one run folder."""

    path: Path

    def save(self, cell: Cell, outcome: Outcome, keep_model: bool = False) -> dict[str, Any]:
        """Keep an outcome; it counts once its JSON, the last file, is there. Gives the record."""
        place, files = self._place(cell), {}
        if cell.part == TEST:
            for number, units in enumerate(outcome.units):
                name = f"{cell.id}.{number}.parquet"
                with atomic_path(place / name) as path:
                    units.write_parquet(path)
                    files[name] = digest(path)
            if keep_model and outcome.model is not None:
                name = f"{cell.id}.fmpair"
                outcome.model.save(place / name)
                files[name] = digest(place / name)
        record = {**outcome.record, "files": files}
        write_json(place / f"{cell.id}.json", record)
        return record

    def finished(self, cell: Cell, keep_model: bool = False) -> dict[str, Any] | None:
        """The record of a cell that went well and whose files are all as they were written."""
        record = self.record(cell.part, cell.id)
        if record is None or record["error"] is not None:
            return None
        wanted = keep_model and cell.part == TEST
        return record if not wanted or f"{cell.id}.fmpair" in record["files"] else None

    def record(self, part: str, id: str) -> dict[str, Any] | None:
        """What is kept under the id, None where nothing is or a file of it is not whole."""
        place = self.path / ("cells" if part == TEST else "trials")
        record = read_json(place / f"{id}.json")
        if record is None or record.get("id") != id:
            return None
        whole = all(
            (place / name).is_file() and digest(place / name) == known
            for name, known in record["files"].items()
        )
        return record if whole else None

    def _place(self, cell: Cell) -> Path:
        return self.path / ("cells" if cell.part == TEST else "trials")


@contextmanager
def opened(folder: str | Path) -> Iterator[RunFolder]:
    """The run folder, made where need be, cleared of half-written files, for this process alone."""
    place = Path(folder)
    for name in FOLDERS:
        make_folder(place / name)
    with _locked(place):
        for name in (".", *FOLDERS):
            remove_leftovers(place / name)
        yield RunFolder(place)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Alone in the folder; the system itself lifts the lock when the process ends in any way."""
    if os.name == "nt":  # two runs in one folder are still whole, but do the work twice
        yield
        return
    try:  # a link or a pipe of that name is neither followed nor waited for
        file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise DataError(f"cannot write {folder / LOCK}: {error.strerror}") from error
    try:
        if not lock(file):
            raise DataError(
                f"another run is at work in {folder}: wait for it, or choose another "
                f"{named('folder')}"
            )
        yield
    finally:
        os.close(file)


def model_of(folder: str | Path) -> Path:
    """The file of a run's winner, as it was written."""
    path, winner = Path(folder) / MODEL, whole_json(Path(folder) / WINNER)
    if winner is not None and winner.get("error"):
        raise DataError(f"{folder} holds no model: {winner['error']}")
    if not path.is_file() or winner is None:
        raise DataError(
            f"{folder} holds no model: finish its run, with refit: true in the file's output"
        )
    if winner.get("sha256") != digest(path):
        raise DataError(f"{path} is not the winner of its run: fmpair run FILE fits it again")
    return path


def forget(path: Path) -> None:
    """Take a file away that is no longer true, if it is there."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"cannot remove {path}: {error.strerror}") from error


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Plain values to a file, whole or not at all, with the checksum that `read_json` asks for."""
    plain = json.loads(json.dumps(value, default=str))
    signed = {**plain, CHECKSUM: _checksum(plain)}
    write_atomically(path, (json.dumps(signed, indent=1) + "\n").encode())


def read_json(path: Path) -> dict[str, Any] | None:
    """The object a file holds, None where there is no such file or it is not as it was written."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    known = found.pop(CHECKSUM, None)
    return found if known == _checksum(found) else None


def whole_json(path: Path) -> dict[str, Any] | None:
    """As `read_json`, but a file that is there and not as it was written is an error."""
    found = read_json(path)
    if found is None and path.exists():
        raise DataError(f"{path} is damaged, or of another version: fmpair run FILE makes it again")
    return found


def _checksum(plain: Mapping[str, Any]) -> str:
    return sha256(canonical(plain).encode()).hexdigest()


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        hashed = sha256()
        while block := file.read(1 << 20):
            hashed.update(block)
    return hashed.hexdigest()
