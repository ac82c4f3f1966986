"""A whole run: prepared, tuned, run, stored. The same call resumes where the last stopped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from fmpair.cluster.address import check_on
from fmpair.cluster.connection import connect
from fmpair.config import code
from fmpair.config.experiment import Experiment
from fmpair.config.node import line_of
from fmpair.config.plain import as_plain
from fmpair.data import split as splitting
from fmpair.experiment import plan, store
from fmpair.experiment.cell import Cell, canonical
from fmpair.experiment.folder import (
    EXPERIMENT,
    MANIFEST,
    MODEL,
    PLAN,
    SPLITS,
    WINNER,
    RunFolder,
    forget,
    opened,
    read_json,
    write_json,
)
from fmpair.experiment.job_context import JobContext, workplace_of
from fmpair.experiment.location import located
from fmpair.experiment.manifest import manifest, now
from fmpair.experiment.on_cluster import on_cluster
from fmpair.experiment.pool import Execute, executor
from fmpair.experiment.prepare import PreparedData
from fmpair.experiment.progress import Progress, Show, shown
from fmpair.experiment.results import Results
from fmpair.experiment.tuning import require_optuna, tune
from fmpair.experiment.usual import settled, why
from fmpair.experiment.winner import Winner, choose, refit
from fmpair.experiment.work import failed
from fmpair.threads import all_threads

DIED = "its process ended before it was done: killed, or out of memory"


class Stopped(KeyboardInterrupt):
    """A run was interrupted; the message says how far it is."""


@dataclass(frozen=True, eq=False)
class _Runner:
    """What carrying out cells takes; records: of all that are done, by id."""

    folder: RunFolder
    work: JobContext
    execute: Execute
    progress: Progress
    records: dict[str, dict[str, Any]]

    def carry_out(self, cells: Sequence[Cell]) -> dict[str, dict[str, Any]]:
        """Records by id; what is stored whole, or is asked for twice, is not done again."""
        fresh: dict[str, Cell] = {}
        for cell in cells:
            if cell.id not in self.records and cell.id not in fresh:
                stored = self.folder.finished(cell, self.work.keep_models)
                if stored is None:
                    fresh[cell.id] = cell
                    continue
                self.records[cell.id] = stored
            self.progress.found()
        died = []
        for cell, record in self.execute(self.work, self._announced(list(fresh.values()))):
            if record is None:
                died.append(cell)
            else:
                self._keep(cell, record)
        for cell in died:
            self._keep(cell, self._once_more(cell))
        return self.records

    def _once_more(self, cell: Cell) -> dict[str, Any]:
        """The record of a cell whose process died; now alone: there may be too little memory."""
        stored = self.folder.finished(cell, self.work.keep_models)  # it may have died thereafter
        if stored is not None:
            return stored
        self.progress.tell(f"{cell}: {DIED}; it is tried once more, alone")
        [(_, record)] = self.execute(self.work, self._announced([cell]))
        return record or self.folder.save(cell, failed(cell, f"{DIED}, twice"))

    def _keep(self, cell: Cell, record: dict[str, Any]) -> None:
        self.records[cell.id] = record
        self.progress.end(cell, record)

    def _announced(self, cells: Sequence[Cell]) -> Iterator[Cell]:
        for cell in cells:
            self.progress.begin(cell)
            yield cell


def run(experiment: Experiment, progress: Show = False, on: str | None = None) -> Results:
    """Carry out the experiment, or what is left of it, in its folder.

    progress: True for a bar or lines on standard error; or a function that is given each line.
    on: a cluster whose machines carry out the cells, see `fmpair.cluster`; the folder stays here.
    Interrupted by hand it raises Stopped; all that was finished stays.
    """
    if on is not None:
        check_on(on)
    code.check(experiment)
    require_optuna(experiment)
    with opened(experiment.output.folder) as folder:
        work = workplace_of(experiment, folder.path)
        if on is not None:
            work = replace(work, threads=experiment.run.threads or 1)
        bench = work.bench()
        reason = "" if (folder.path / PLAN).exists() else why(experiment, bench.data)
        experiment = located(settled(experiment, bench.data))
        plan.check(experiment, bench)
        began = _begin(experiment, bench, folder)
        total = plan.size(experiment, len(bench.splits))
        with (
            _executor(experiment, work, on) as execute,
            shown(progress, total) as counter,
        ):
            desk = _Runner(folder, work, execute, counter, {})
            if reason:
                counter.tell(reason)
            try:
                _carry_out(experiment, bench, desk, began)
            except KeyboardInterrupt:
                raise Stopped(
                    f"stopped: {counter.done} of {total} cells are done; the same command resumes "
                    "from there"
                ) from None
        return store.results(folder.path)


def _executor(
    experiment: Experiment, work: JobContext, on: str | None
) -> AbstractContextManager[Execute]:
    """Who carries out cells: this process, several, or a cluster."""
    if on is not None:
        return nullcontext(on_cluster(connect(on)))
    return executor(experiment.run.workers, work.threads or all_threads())


def _carry_out(experiment: Experiment, bench: PreparedData, desk: _Runner, began: str) -> None:
    path = desk.folder.path
    chosen, trials = tune(experiment, bench, desk.carry_out, desk.progress.tell)
    planned = plan.cells(experiment, bench, chosen)
    write_json(path / PLAN, plan.as_plain(planned, trials))
    records = desk.carry_out(planned)
    best = choose(experiment, planned, trials, records)
    if experiment.output.refit:
        _refit(best, bench, desk)
    used = {id: records[id] for id in (*(c.id for c in planned), *(t.cell.id for t in trials))}
    write_json(path / MANIFEST, manifest(experiment, bench, used.values(), began))


def _refit(best: Winner | None, bench: PreparedData, desk: _Runner) -> None:
    """The winner fitted to all events; where that fails the results stand without it."""
    path = desk.folder.path
    why = "no model has a result in every cell" if best is None else ""
    if best is not None:
        try:
            refit(best, bench, desk.folder, desk.work.threads)
            return
        except Exception as error:
            why = f"{best.model.name} failed on all events: {line_of(error)}"
            desk.progress.tell(f"the winner, {why}")
    forget(path / MODEL)  # it is of another run
    write_json(path / WINNER, {"model": best and best.model.name, "error": why})


def _begin(experiment: Experiment, bench: PreparedData, folder: RunFolder) -> str:
    """Keep what is to be done; when it was first begun."""
    path, spec = folder.path, as_plain(experiment)
    if canonical(read_json(path / EXPERIMENT)) != canonical(spec):  # its results are others
        for name in (PLAN, MANIFEST, WINNER):
            forget(path / name)
    before = read_json(path / MANIFEST) or {"began": now()}
    write_json(path / EXPERIMENT, spec)
    write_json(path / MANIFEST, before)
    splitting.save(bench.splits, path / SPLITS)
    return before["began"]
