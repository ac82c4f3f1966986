"""Where cells are carried out: what a process must know beside the cell itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fmpair.config.experiment import Experiment, Source, Step
from fmpair.errors import DataError
from fmpair.experiment.cell import Cell
from fmpair.experiment.folder import RunFolder
from fmpair.experiment.prepare import PreparedData, prepare
from fmpair.experiment.work import Outcome, run_cell
from fmpair.threads import all_threads


@dataclass(frozen=True)
class JobContext:
    """Small and picklable; called with a cell it carries it out and keeps the result."""

    source: Source
    filters: tuple[Step, ...]
    split: Step
    folder: Path
    threads: int | None = None
    keep_models: bool = False

    def bench(self) -> PreparedData:
        return prepare(self.source, self.filters, self.split)

    def __call__(self, cell: Cell) -> dict[str, Any]:
        return self.keep(cell, self.outcome(self.bench(), cell))

    def outcome(self, bench: PreparedData, cell: Cell) -> Outcome:
        """The cell carried out on the prepared data."""
        if (cell.data, cell.split) != (bench.fingerprint, bench.hashes[cell.fold]):
            raise DataError("the data changed during the run: start it again")
        return run_cell(cell, *bench.fold(cell.fold), self.threads)

    def keep(self, cell: Cell, outcome: Outcome) -> dict[str, Any]:
        """What is kept of an outcome; its record."""
        return RunFolder(self.folder).save(cell, outcome, self.keep_models)


def workplace_of(experiment: Experiment, folder: Path) -> JobContext:
    """Where the experiment's cells are carried out."""
    return JobContext(
        experiment.data,
        experiment.filters,
        experiment.split,
        folder,
        threads_of(experiment),
        experiment.output.models,
    )


def threads_of(experiment: Experiment) -> int | None:
    """Each worker's share of the cores: threads inside threads slow everything down many times."""
    running = experiment.run
    if running.threads is None and running.workers > 1:
        return max(1, all_threads() // running.workers)
    return running.threads
