"""Run an experiment: prepare, tune, execute every cell, save. The same call resumes a run.

Experiment -prepare-> PreparedData -plan.cells-> Cell, ... -execute-> records -results-> Results
"""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fmpair.cluster import check_on
from fmpair.config.experiment import Experiment, Source, as_plain
from fmpair.config.model_section import check_code
from fmpair.config.node import line_of
from fmpair.data import split_leakage
from fmpair.data import splits as splitting
from fmpair.data.columns.context_leakage import context_leakage
from fmpair.data.describe import figures
from fmpair.data.parts import hash_of
from fmpair.errors import in_file, spelled
from fmpair.evaluation.protocol import default_protocol_reason
from fmpair.experiment import folder as files
from fmpair.experiment import plan
from fmpair.experiment.cell import Cell, failed
from fmpair.experiment.folder import (
    Results,
    RunFolder,
    digest,
    forget,
    open_folder,
    read_json,
    results,
    write_json,
)
from fmpair.experiment.pool import Execute, Record, executor, threads_per_worker
from fmpair.experiment.prepared import (
    PreparedData,
    files_of,
    low_ratings,
    prepare,
    source_files,
    with_defaults,
)
from fmpair.experiment.progress import Progress, Show, show_progress
from fmpair.experiment.tuning import Winner, choose, refit, tune
from fmpair.training.search import canonical

DIED = "its process ended before it was done: killed, or out of memory"
PACKAGES = ("fmpair", "numpy", "polars", "numba")  # whose versions the manifest has


class Stopped(KeyboardInterrupt):
    """A run was interrupted; the message says how many cells are done."""


def run(experiment: Experiment, progress: Show = False, on: str | None = None) -> Results:
    """Run the experiment, or what is left of it, in its folder and return the results.

    progress: True shows a bar, or lines where standard error is no terminal; a function is called
    with each line. on: a cluster whose machines execute the cells, see `fmpair.cluster`; the
    folder stays here. An interrupt raises Stopped; finished cells are kept.
    """
    if on is not None:
        check_on(on)
    check_code(experiment)
    with open_folder(experiment.output.folder) as folder:
        prepared = prepare(experiment.data, experiment.filters, experiment.split)
        reason = ""
        if not (experiment.protocols or (folder.path / files.PLAN).exists()):
            why = spelled(default_protocol_reason(prepared.data), in_file)
            reason = f"protocol: {why}"
        experiment = with_defaults(experiment, prepared)
        if reason and next(iter(experiment.protocols.values())).unit == "user":
            reason += "; each user has one list of relevant items, so means are over users"
        plan.check(experiment, prepared)
        began = _begin(experiment, prepared, folder)
        sizes = plan.sizes(experiment, len(prepared.splits))
        with executor(experiment, on) as execute, show_progress(progress, sizes) as display:
            for line in (reason, prepared.removed(), low_ratings(experiment, prepared.data)):
                if line:
                    display.tell(line)
            runner = Runner(folder, experiment.output.models, execute, display)
            threads = threads_per_worker(experiment) if on is None else experiment.run.threads or 1
            try:
                _execute(experiment, prepared, runner, threads, began)
            except KeyboardInterrupt:
                raise Stopped(
                    f"stopped: {display.count} cells are done; the same command resumes the run"
                ) from None
        return results(folder.path)


def _begin(experiment: Experiment, prepared: PreparedData, folder: RunFolder) -> str:
    """Save the experiment and its splits; return when the run was first started."""
    path, spec = folder.path, as_plain(experiment)
    if canonical(read_json(path / files.EXPERIMENT)) != canonical(spec):  # the results will differ
        for name in (files.PLAN, files.MANIFEST, files.WINNER):
            forget(path / name)
    before = read_json(path / files.MANIFEST) or {"began": now()}
    write_json(path / files.EXPERIMENT, spec)
    write_json(path / files.MANIFEST, {**before, "command": anonymous(_command())})
    splitting.save(prepared.splits, path / files.SPLITS)
    return before["began"]


def _execute(
    experiment: Experiment, prepared: PreparedData, runner: Runner, threads: int | None, began: str
) -> None:
    path = runner.folder.path
    budgets = [model.tune for model in experiment.models if model.tune is not None]
    runner.progress.by_time = any(budget.seconds is not None for budget in budgets)
    chosen, trials = tune(experiment, prepared, runner.run, runner.progress.tell)
    planned = plan.cells(experiment, prepared, chosen)
    runner.progress.by_time = False
    runner.progress.expect(planned)
    write_json(path / files.PLAN, plan.as_plain(planned, trials))
    records = runner.run(planned)
    if experiment.output.refit:
        best = choose(experiment, planned, trials, records)
        _refit(best, prepared, runner, threads)
    used = [*planned, *(trial.cell for trial in trials)]
    done = {cell.id: records[cell.id] for cell in used}
    write_json(path / files.MANIFEST, manifest(experiment, prepared, done.values(), began))


def _refit(
    best: Winner | None, prepared: PreparedData, runner: Runner, threads: int | None
) -> None:
    """Fit the winner to all events; if that fails, the run ends without a model."""
    why = "no model has a result in every cell"
    if best is not None:
        try:
            refit(best, prepared, runner.folder, threads, runner.progress.show)
            return
        except Exception as error:
            why = f"{best.model.name} failed on all events: {line_of(error)}"
            runner.progress.tell(f"the best model, {why}")
    path = runner.folder.path
    forget(path / files.MODEL)  # it belongs to an earlier run
    write_json(path / files.WINNER, {"model": best and best.model.name, "error": why})


@dataclass(frozen=True, eq=False)
class Runner:
    """Executes cells that the folder does not have; records: of all cells done so far, by id."""

    folder: RunFolder
    keep_models: bool
    execute: Execute
    progress: Progress
    records: dict[str, Record] = field(default_factory=dict)

    def run(self, cells: Sequence[Cell]) -> dict[str, Record]:
        """Return the records by cell id; finished and repeated cells are not executed again."""
        new: dict[str, Cell] = {}
        self.progress.total = max(self.progress.total, self.progress.done + len(cells))
        for cell in cells:
            if cell.id not in self.records and cell.id not in new:
                stored = self.folder.finished(cell, self.keep_models)
                if stored is None:
                    new[cell.id] = cell
                    continue
                self.records[cell.id] = stored
            self.progress.skip(cell)
        died = []
        for cell, record in self.execute(self._announced(list(new.values()))):
            if record is None:
                died.append(cell)
            else:
                self._keep(cell, record)
        for cell in died:
            self._keep(cell, self._retry(cell))
        return self.records

    def _retry(self, cell: Cell) -> Record:
        """Execute a cell whose process died again, alone: there may be too little memory."""
        stored = self.folder.finished(cell, self.keep_models)  # it may have died after saving
        if stored is not None:
            return stored
        self.progress.tell(f"{cell}: {DIED}; retrying it alone")
        [(_, record)] = self.execute(self._announced([cell]))
        return record or self.folder.save(cell, failed(cell, f"{DIED}, twice"))

    def _keep(self, cell: Cell, record: Record) -> None:
        self.records[cell.id] = record
        self.progress.end(cell, record)

    def _announced(self, cells: Sequence[Cell]) -> Iterator[Cell]:
        for cell in cells:
            self.progress.begin(cell)
            yield cell


# The manifest: data, software, machine and times, without names of people or machines.


def manifest(
    experiment: Experiment, prepared: PreparedData, records: Iterable[Mapping[str, Any]], began: str
) -> dict[str, Any]:
    """Return the provenance as plain values; began: when the run was first started."""
    done = [record for record in records if record["error"] is None]
    return anonymous({
        "experiment": as_plain(experiment),
        "data": {
            "fingerprint": prepared.fingerprint,
            "files": _digests(experiment.data),
            "statistics": figures(prepared.whole()),
            "filters": [str(step) for step in experiment.filters],
            "removed": prepared.removed(),
            "low_ratings": low_ratings(experiment, prepared.data),
        },
        "split": {"hash": hash_of(prepared.splits), "folds": _folds(prepared)},
        "leakage": _leakage(prepared),
        "context": _context(prepared),
        "versions": _versions(),
        "provenance": {r["cell"]["kind"]: r["provenance"] for r in done if r["provenance"]},
        "machine": _machine(),
        "seeds": list(experiment.seeds),
        "command": _command(),
        "began": began,
        "ended": now(),
        "seconds": sum(record["train_seconds"] + record["judge_seconds"] for record in done),
        "peak_mb": max((record["peak_mb"] for record in done), default=None),
    })  # fmt: skip


def _command() -> str:
    """Return the command of this process, as a shell takes it; run FILE for a call in Python."""
    program = Path(sys.argv[0])
    from_shell = program.stem == "fmpair" or program.parts[-2:] == ("fmpair", "__main__.py")
    return shlex.join(["fmpair", *sys.argv[1:]]) if from_shell else "fmpair run FILE"


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def anonymous(value: Any) -> Any:
    """Return the value with the home folder, which names its owner, written as ~."""
    if isinstance(value, str):
        home = str(Path.home())
        return value.replace(home, "~") if len(home) > 1 else value
    if isinstance(value, Mapping):
        return {key: anonymous(inner) for key, inner in value.items()}
    return [anonymous(inner) for inner in value] if isinstance(value, list | tuple) else value


def _digests(source: Source) -> dict[str, str]:
    """Return the SHA-256 by name of every file that was read."""
    paths = [Path(path) for path in source_files(source)]
    return {file.name: digest(file) for path in paths if path.exists() for file in files_of(path)}


def _folds(prepared: PreparedData) -> list[dict[str, Any]]:
    return [
        {
            "fold": fold,
            "hash": prepared.hashes[fold],
            "train": len(split.train),
            "validation": len(split.validation),
            "test": len(split.test),
        }
        for fold, (_, split) in enumerate(map(prepared.fold, range(len(prepared.splits))))
    ]


def _leakage(prepared: PreparedData) -> list[dict[str, Any]]:
    rows = []
    for fold in range(len(prepared.splits)):
        data, split = prepared.fold(fold)
        train, validation, test = split.parts(data)
        report = split_leakage.report(train, test, validation if len(validation) else None)
        rows.append({"fold": fold, "lines": report.lines(), "figures": report.frame().to_dicts()})
    return rows


def _context(prepared: PreparedData) -> list[dict[str, Any]]:
    """Return how much each context column reveals of the item, in the first fold's events."""
    data, _ = prepared.fold(0)
    columns = context_leakage(data.user, data.item, data.columns, data.context)
    return [{**asdict(column), "degree": column.degree} for column in columns.values()]


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "unknown"
    return versions


def _machine() -> dict[str, Any]:
    cpuinfo, memory_gb = Path("/proc/cpuinfo"), None
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    with suppress(AttributeError, ValueError, OSError):
        memory_gb = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    return {
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "processor": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "memory_gb": memory_gb,
    }
