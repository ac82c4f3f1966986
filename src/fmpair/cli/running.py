"""Commands that run an experiment file: run, and estimate, which says how long it will take."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fmpair.cli.failure import INTERRUPTED, USER_MISTAKE
from fmpair.cli.flags import On
from fmpair.cli.show import busy, note, note_no_figures, show

if TYPE_CHECKING:
    import polars as pl

    from fmpair.config.experiment import Experiment
    from fmpair.experiment.results import Results

File = Annotated[
    str, typer.Argument(metavar="FILE", help="An experiment file: YAML, TOML or JSON.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE", help="Override a value of the file, such as models.0.factors=16."
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, max=256, help="Processes in parallel, in place of the file's number."),
]

Device = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Where models learn: cpu, cuda, torch or auto, in place of the file's."
    ),
]

AllowCode = Annotated[
    bool,
    typer.Option("--allow-code", help="Run models that the file names as package.module:Class."),
]


def run(
    file: File,
    overrides: Overrides = None,
    folder: Annotated[
        Path | None, typer.Option("--folder", "-f", metavar="DIR", help="Where results go.")
    ] = None,
    workers: Workers = None,
    device: Device = None,
    on: On = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    allow_code: AllowCode = False,
) -> None:
    """Run an experiment; the same command resumes an interrupted run."""
    experiment = _experiment(file, _with_device(overrides, device), folder, workers, allow_code)
    note_no_figures()
    results = carried_out(experiment, progress=not quiet, on=on)
    show(comparison(results))
    conclude(results, quiet)


def carried_out(experiment: Experiment, progress: bool = True, on: str | None = None) -> Results:
    """The results; interrupted, what is done is kept and one line says so."""
    from fmpair.experiment.run import Stopped, run

    try:
        return run(experiment, progress=progress, on=on)
    except Stopped as stop:
        note(str(stop))
        raise typer.Exit(INTERRUPTED) from None


def comparison(results: Results) -> Any:
    """The tables of a run, to be shown."""
    from fmpair.report.terminal import terminal

    return terminal(results)


def conclude(results: Results, quiet: bool = False) -> None:
    """Write the report and say where it is; exit code 1 where a cell or the winner failed."""
    from fmpair.report.write import write

    with nullcontext() if quiet else busy("writing the report"):
        page = write(results, results.experiment.output.folder)
    failed = note_failures(results)
    show(str(_shortest(page)))
    if failed:
        raise typer.Exit(USER_MISTAKE)


def note_failures(results: Results) -> bool:
    """Say what failed, if anything did: a line per model, or one where nothing went well."""
    from fmpair.experiment.winner import failure

    errors = results.cells.filter(results.cells["error"].is_not_null())
    failed, total = len(errors), len(results.cells)
    if failed and failed == total:
        note(f"no model finished: all {total} cells failed, first {errors['model'][0]}: "
             f"{errors['error'][0]}; fmpair run tries them again")  # fmt: skip
        return True
    for (model,), part in errors.group_by("model", maintain_order=True):
        note(f"{model} failed {len(part)} times, first: {part['error'][0]}")
    if failed:
        note(f"{failed} of {total} cells failed; the same command tries them again")
    winner = failure(results.experiment.output.folder) if results.experiment.output.refit else ""
    note(f"no model is kept: {winner}" if winner else "")
    return bool(failed or winner)


def estimate(
    file: File,
    overrides: Overrides = None,
    workers: Workers = None,
    device: Device = None,
    allow_code: AllowCode = False,
) -> None:
    """How long an experiment will take, and how much memory."""
    from fmpair.experiment.estimate import estimate as estimated

    experiment = _experiment(file, _with_device(overrides, device), None, workers, allow_code)
    with busy("trying each model briefly"):
        found = estimated(experiment)
    show(_estimates(found.models), str(found))


def _estimates(models: pl.DataFrame) -> Any:
    """A row per model; beside its name the reason where one could not be tried."""
    from fmpair.report.number import seconds
    from fmpair.report.sheet import Cell, Sheet
    from fmpair.report.terminal import rich_table

    columns = ("model", "cells", "trials", "s to fit", "s to evaluate", "s in all", "peak MB")
    rows = []
    for name, cells, trials, *figures, error in models.rows():
        first = Cell(name if error is None else f"{name}: {error}")
        rows.append((first, Cell(str(cells)), Cell(str(trials)), *map(Cell, map(seconds, figures))))
    return rich_table(Sheet("estimate", "", columns, tuple(rows), models))


def _with_device(overrides: list[str] | None, device: str | None) -> list[str]:
    """The overrides, with the flag's device among them."""
    return [*(overrides or []), *([] if device is None else [f"run.device={device}"])]


def _experiment(
    file: str,
    overrides: list[str],
    folder: Path | None,
    workers: int | None,
    allow_code: bool,
) -> Experiment:
    """The file's experiment, with what the flags say in place of its own."""
    from fmpair.config.read import read

    experiment = read(file, overrides, allow_code)
    if folder is not None:
        output = replace(experiment.output, folder=str(folder.absolute()))
        experiment = replace(experiment, output=output)
    if workers is not None:
        experiment = replace(experiment, run=replace(experiment.run, workers=workers))
    return experiment


def _shortest(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
