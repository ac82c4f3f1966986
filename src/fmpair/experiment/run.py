"""A whole run: prepared, tuned, run, stored. The same call resumes where the last stopped."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from fmpair.cluster import check_on, connect
from fmpair.config import model_section
from fmpair.config.experiment import Experiment, as_plain
from fmpair.config.node import line_of
from fmpair.data import splits as splitting
from fmpair.experiment import plan, results
from fmpair.experiment.cell import Cell, canonical, failed
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
from fmpair.experiment.manifest import manifest, now
from fmpair.experiment.pool import Execute, JobContext, executor, on_cluster, workplace_of
from fmpair.experiment.prepared import PreparedData, located, why, with_default_protocol
from fmpair.experiment.results import Results
from fmpair.experiment.tuning import Winner, choose, refit, require_optuna, tune
from fmpair.text import harmless
from fmpair.threads import all_threads

# How far a run is: a bar on a terminal, plain lines elsewhere.


Show = bool | Callable[[str], None]


@dataclass
class Progress:
    """Counts cells; tell: where lines go. fresh: those carried out now, not found stored.

    say: where the line of every cell goes, by default where all lines do.
    """

    total: int
    tell: Callable[[str], None]
    say: Callable[[str], None] | None = None
    move: Callable[[int, str], None] = lambda done, text: None
    done: int = 0
    fresh: int = 0
    began: float = field(default_factory=time.perf_counter)

    def begin(self, cell: Cell) -> None:
        """A cell is under way."""
        self.move(self.done, f"{cell}{self._left()}")

    def found(self) -> None:
        """A cell was already done, by an earlier run or under another name."""
        self.done += 1
        self.move(self.done, "")

    def end(self, cell: Cell, record: Mapping[str, Any]) -> None:
        """A cell is done."""
        self.done += 1
        self.fresh += 1
        self.move(self.done, f"{cell}{self._left()}")
        line = f"{self.done} of {self.total}: {cell}: {_figures(record)}{self._left()}"
        (self.say or self.tell)(harmless(line))

    def _left(self) -> str:
        """The remaining time, at the speed so far."""
        if not self.fresh or self.done >= self.total:
            return ""
        pace = (time.perf_counter() - self.began) / self.fresh
        return f", about {duration(pace * (self.total - self.done))} left"


@contextmanager
def shown(show: Show, total: int) -> Iterator[Progress]:
    """show: True for a bar or lines on standard error, False for silence, or where lines go."""
    if callable(show):
        yield Progress(total, show)
    elif not show:
        yield Progress(total, lambda line: None)
    elif sys.stderr.isatty():
        with _bar(total) as progress:
            yield progress
    else:
        yield Progress(total, lambda line: print(line, file=sys.stderr, flush=True))


def duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


@contextmanager
def _bar(total: int) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)

        def move(done: int, text: str) -> None:
            bar.update(task, completed=done, description=text)

        def tell(line: str) -> None:
            bar.console.print(line, markup=False, highlight=False)

        def say(line: str) -> None:
            if " failed: " in line:  # the bar says the rest
                tell(line)

        yield Progress(total, tell, say, move)


def _figures(record: Mapping[str, Any]) -> str:
    if record["error"] is not None:
        return f"failed: {record['error']}"
    metric, value = next(iter(record["protocols"][0]["means"].items()))
    seconds = record["train_seconds"] + record["judge_seconds"]
    shown = "none" if value is None else f"{value:.4f}"
    return f"{metric} {shown} after {seconds:.1f} s"


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
    model_section.check(experiment)
    require_optuna(experiment)
    with opened(experiment.output.folder) as folder:
        work = workplace_of(experiment, folder.path)
        if on is not None:
            work = replace(work, threads=experiment.run.threads or 1)
        bench = work.bench()
        reason = "" if (folder.path / PLAN).exists() else why(experiment, bench.data)
        experiment = located(with_default_protocol(experiment, bench.data))
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
        return results.results(folder.path)


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
