"""Execute cells: in this process, in worker processes, or on a Ray cluster.

An executor takes cells and yields (cell, record) in any order; the record is None where the
process of a cell died.
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

from fmpair.cluster import connect, each, one_line_errors
from fmpair.config.experiment import Experiment
from fmpair.errors import DataError
from fmpair.experiment.cell import Cell, Outcome, run_cell
from fmpair.experiment.folder import RunFolder
from fmpair.experiment.prepared import PreparedData, prepare
from fmpair.threads import all_threads

Record = dict[str, Any]
Execute = Callable[[Iterable[Cell]], Iterator[tuple[Cell, Record | None]]]

# Libraries read these when they are loaded, so a worker process must start with them.
LIBRARIES = ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "NUMBA_NUM", "POLARS_MAX", "RAYON_NUM")
THREAD_VARIABLES = [f"{library}_THREADS" for library in LIBRARIES]
EXIT_SECONDS = 5.0  # given to an idle worker to exit by itself


@contextmanager
def executor(experiment: Experiment, on: str | None = None) -> Iterator[Execute]:
    """Yield the function that executes the experiment's cells and saves their results.

    It uses this process, `run.workers` processes, or the cluster `on`. No process outlives the
    block.
    """
    if on is not None:
        ray = connect(on)
        with one_line_errors():
            prepared = ray.put(prepare(experiment.data, experiment.filters, experiment.split))
        yield partial(_on_cluster, ray, prepared, experiment)
        return
    workers, threads = experiment.run.workers, threads_per_worker(experiment)
    run_and_save = partial(_run_and_save, experiment, threads)
    if workers == 1:
        yield lambda cells: ((cell, run_and_save(cell)) for cell in cells)
        return
    pool: list[_Worker] = []
    try:
        yield partial(_in_workers, pool, workers, partial(_start_worker, run_and_save, threads))
    finally:
        for worker in pool:
            worker.stop()


def threads_per_worker(experiment: Experiment) -> int | None:
    """Return the threads of each worker: by default an equal share of the cores."""
    workers, threads = experiment.run.workers, experiment.run.threads
    return max(1, all_threads() // workers) if threads is None and workers > 1 else threads


def _run_and_save(experiment: Experiment, threads: int | None, cell: Cell) -> Record:
    prepared = prepare(experiment.data, experiment.filters, experiment.split)
    return _save(experiment, cell, _run(prepared, threads, cell))


def _run(prepared: PreparedData, threads: int | None, cell: Cell) -> Outcome:
    if (cell.data, cell.split) != (prepared.fingerprint, prepared.hashes[cell.fold]):
        raise DataError("the data changed during the run: start it again")
    return run_cell(cell, *prepared.fold(cell.fold), threads)


def _save(experiment: Experiment, cell: Cell, outcome: Outcome) -> Record:
    folder = RunFolder(Path(experiment.output.folder))
    return folder.save(cell, outcome, experiment.output.models)


# Worker processes.


@dataclass
class _Worker:
    """A process that executes one cell at a time, and the pipe to it."""

    process: Any
    pipe: connection.Connection
    cell: Any = None

    def start(self, cell: Cell) -> None:
        self.cell = cell
        with suppress(OSError):  # a dead process is detected when its result is read
            self.pipe.send(cell)

    def result(self) -> Record | None:
        """Return the record, None where the process died; raise what the work raised."""
        self.cell = None
        try:
            record = self.pipe.recv()
        except (EOFError, OSError):
            return None
        if isinstance(record, BaseException):
            raise record
        return record

    def stop(self) -> None:
        """Let an idle process exit by itself; kill a busy one."""
        self.pipe.close()
        if self.cell is None:
            self.process.join(EXIT_SECONDS)
        self.process.kill()
        self.process.join()


def _in_workers(
    pool: list[_Worker], workers: int, start: Callable[[], _Worker], cells: Iterable[Cell]
) -> Iterator[tuple[Cell, Record | None]]:
    """Execute cells in the pool, which grows as needed and stays for the next cells."""
    waiting = iter(cells)
    while True:
        while len(busy := [worker for worker in pool if worker.cell is not None]) < workers:
            cell = next(waiting, None)
            if cell is None:
                break
            idle = next((worker for worker in pool if worker.cell is None), None)
            if idle is None:
                pool.append(idle := start())
            idle.start(cell)
        if not busy:
            return
        ready = connection.wait([worker.pipe for worker in busy])
        for worker in [worker for worker in busy if worker.pipe in ready]:
            cell, record = worker.cell, worker.result()
            if record is None:
                pool.remove(worker)
                worker.stop()
            yield cell, record


def _start_worker(work: Callable[[Cell], Record], threads: int | None) -> _Worker:
    context = get_context("spawn")  # a fork would copy locks that other threads hold
    parent_end, child_end = context.Pipe()
    process = context.Process(target=_worker_main, args=(work, child_end), daemon=True)
    with _environment({name: str(threads or all_threads()) for name in THREAD_VARIABLES}):
        process.start()
    child_end.close()  # so that the pipe ends when the process does
    return _Worker(process, parent_end)


def _worker_main(work: Callable[[Cell], Record], pipe: connection.Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            cell = pipe.recv()
            try:
                result: Any = work(cell)
            except Exception as error:
                result = error
            pipe.send(result)


def _exit_with_parent() -> None:
    """Exit when the parent does: a killed run leaves no process behind."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set environment variables within the block; those the user has set take precedence."""
    added = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


# A Ray cluster, whose machines need none of this machine's files.


def _on_cluster(
    ray: Any, prepared: Any, experiment: Experiment, cells: Iterable[Cell]
) -> Iterator[tuple[Cell, Record | None]]:
    """Execute cells as Ray tasks, one core each by default; this process saves the outcomes.

    prepared: the reference of the prepared data. A cell whose machine is lost runs on another.
    """
    threads, keep_model = experiment.run.threads or 1, experiment.output.models
    with one_line_errors():
        shared = (prepared, threads, keep_model)
        for cell, outcome in each(ray, _run_on_cluster, shared, cells, threads):
            yield cell, None if outcome is None else _save(experiment, cell, outcome)


def _run_on_cluster(prepared: PreparedData, threads: int, keep_model: bool, cell: Cell) -> Outcome:
    outcome = _run(prepared, threads, cell)
    return outcome if keep_model else replace(outcome, model=None)  # do not send it for nothing
