"""The run folder: what is in it is whole, or does not count.

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

from fmpair.errors import DataError
from fmpair.experiment.cell import TEST, Cell
from fmpair.experiment.work import Outcome
from fmpair.files import atomic_path, lock, make_folder, remove_leftovers, write_atomically

FOLDERS = ("cells", "trials")
EXPERIMENT, PLAN, MANIFEST = "experiment.json", "plan.json", "manifest.json"
SPLITS = "splits.parquet"
MODEL, WINNER = "model.fmpair", "winner.json"
LOCK = ".lock"


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
        if record is None or record.get("id") != id or "files" not in record:
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
                f"another run is at work in {folder}: wait for it, or choose another folder "
                "with --folder"
            )
        yield
    finally:
        os.close(file)


def model_of(folder: str | Path) -> Path:
    """The file of a run's winner."""
    path = Path(folder) / MODEL
    if not path.is_file():
        raise DataError(
            f"{folder} holds no model: finish its run, with refit: true in the file's output"
        )
    return path


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Plain values to a file, whole or not at all."""
    write_atomically(path, (json.dumps(value, indent=1, default=str) + "\n").encode())


def read_json(path: Path) -> dict[str, Any] | None:
    """The object a file holds, None where there is no such file or it is not whole."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        hashed = sha256()
        while block := file.read(1 << 20):
            hashed.update(block)
    return hashed.hexdigest()
