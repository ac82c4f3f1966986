"""Carrying out cells: one after the other here, or side by side in processes.

An executor is shaped like `map`: a function and cells in, records out, in any order.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from typing import Any

from fmpair.cluster import each, one_line_errors
from fmpair.config.experiment import Experiment, Source, Step
from fmpair.errors import DataError
from fmpair.experiment.cell import Cell, Outcome, run_cell
from fmpair.experiment.folder import RunFolder
from fmpair.experiment.prepared import PreparedData, prepare
from fmpair.threads import all_threads

# Where cells are carried out: what a process must know beside the cell itself.


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


Work = Callable[[Cell], dict[str, Any]]
Execute = Callable[[Work, Iterable[Cell]], Iterator[tuple[Cell, dict[str, Any] | None]]]

# Read by libraries when they are loaded, so a worker must be born with them.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
)
PATIENCE = 5.0  # seconds that a process has to leave in order


@contextmanager
def executor(workers: int, threads: int) -> Iterator[Execute]:
    """Carries out cells here, or by so many processes of so many threads each.

    A cell whose process dies gives None, and another process takes over. However the block ends,
    no process stays behind.
    """
    if workers == 1:
        yield _in_this_process
        return
    crew: list[_Worker] = []
    try:
        yield partial(_by_crew, crew, workers, threads)
    finally:
        for worker in crew:
            worker.dismiss()


def _in_this_process(work: Work, cells: Iterable[Cell]) -> Iterator[tuple[Cell, dict[str, Any]]]:
    for cell in cells:
        yield cell, work(cell)


def _by_crew(
    crew: list[_Worker], workers: int, threads: int, work: Work, cells: Iterable[Cell]
) -> Iterator[tuple[Cell, dict[str, Any] | None]]:
    """The crew grows as it is needed, and stays for the next cells."""
    waiting = iter(cells)
    while True:
        while len(busy := [worker for worker in crew if worker.cell is not None]) < workers:
            cell = next(waiting, None)
            if cell is None:
                break
            idle = next((worker for worker in crew if worker.cell is None), None)
            if idle is None:
                crew.append(idle := _hired(work, threads))
            idle.give(cell)
        if not busy:
            return
        for worker in _ready(busy):
            cell, record = worker.cell, worker.answer()
            if record is None:
                crew.remove(worker)
                worker.dismiss()
            yield cell, record


@dataclass
class _Worker:
    """A process that carries out one cell at a time, and the line to it."""

    process: Any
    line: connection.Connection
    cell: Any = None

    def give(self, cell: Cell) -> None:
        self.cell = cell
        with suppress(OSError):  # a dead process is noticed when its answer is read
            self.line.send(cell)

    def answer(self) -> dict[str, Any] | None:
        """The record; None where the process died; what the work itself raised is raised."""
        self.cell = None
        try:
            found = self.line.recv()
        except (EOFError, OSError):
            return None
        if isinstance(found, BaseException):
            raise found
        return found

    def dismiss(self) -> None:
        """An idle process may leave in order, a busy one is ended."""
        self.line.close()
        if self.cell is None:
            self.process.join(PATIENCE)
        self.process.kill()
        self.process.join()


def _hired(work: Work, threads: int) -> _Worker:
    context = get_context("spawn")  # a fork would copy locks that other threads hold
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(work, there), daemon=True)
    with _environment({name: str(threads) for name in THREAD_VARIABLES}):
        process.start()
    there.close()  # so that the line ends when the process does
    return _Worker(process, here)


def _ready(workers: list[_Worker]) -> list[_Worker]:
    """Those that have answered or died, after waiting for the first."""
    lines = connection.wait([worker.line for worker in workers])
    return [worker for worker in workers if worker.line in lines]


def _serve(work: Work, line: connection.Connection) -> None:
    """The life of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    threading.Thread(target=_die_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            cell = line.recv()
            try:
                found: Any = work(cell)
            except Exception as error:
                found = error
            line.send(found)


def _die_with_parent() -> None:
    """A run that is killed leaves nobody behind who goes on computing."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Variables set for as long as the block runs; those the user set himself win."""
    before = dict(os.environ)
    os.environ.update({name: value for name, value in values.items() if name not in before})
    try:
        yield
    finally:
        for name in values:
            if name not in before:
                os.environ.pop(name, None)


# Carrying out cells as tasks of a Ray cluster, which need nothing of this machine's disk.


def on_cluster(ray: Any) -> Execute:
    """An executor whose cells run on the machines of a cluster, a core each unless they say more.

    The prepared data lie in the object store; outcomes come back and are kept by this process. A
    cell whose machine is lost runs on another; one that is lost again and again gives None.
    """
    return partial(_by_tasks, ray, [])


def _by_tasks(
    ray: Any, stored: list[Any], work: JobContext, cells: Iterable[Cell]
) -> Iterator[tuple[Cell, dict[str, Any] | None]]:
    """stored: the ref of the prepared data, once they lie there."""
    with one_line_errors():
        if not stored:
            stored.append(ray.put(work.bench()))
        for cell, outcome in each(ray, _outcome, (work, stored[0]), cells, work.threads or 1):
            yield cell, None if outcome is None else work.keep(cell, outcome)


def _outcome(work: JobContext, bench: PreparedData, cell: Cell) -> Outcome:
    found = work.outcome(bench, cell)
    return found if work.keep_models else replace(found, model=None)  # which would only travel
