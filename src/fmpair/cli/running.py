"""Commands that run an experiment file: run, and estimate, which says how long it will take."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fmpair.cli.failure import INTERRUPTED, USER_MISTAKE
from fmpair.cli.show import busy, note, show

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
    int | None, typer.Option(min=1, help="Processes in parallel, in place of the file's number.")
]


def run(
    file: File,
    overrides: Overrides = None,
    folder: Annotated[
        Path | None, typer.Option("--folder", "-f", metavar="DIR", help="Where results go.")
    ] = None,
    workers: Workers = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Run an experiment; the same command resumes an interrupted run."""
    experiment = _experiment(file, overrides, folder, workers)
    results = carried_out(experiment, progress=not quiet)
    show(comparison(results))
    conclude(results, quiet)


def carried_out(experiment: Experiment, progress: bool = True) -> Results:
    """The results; interrupted, what is done is kept and one line says so."""
    from fmpair.experiment.run import Stopped, run

    try:
        return run(experiment, progress=progress)
    except Stopped as stop:
        note(str(stop))
        raise typer.Exit(INTERRUPTED) from None


def comparison(results: Results) -> Any:
    """The tables of a run, to be shown."""
    from fmpair.report.terminal import terminal

    return terminal(results)


def conclude(results: Results, quiet: bool = False) -> None:
    """Write the report and say where it is; exit code 1 where a cell failed."""
    from fmpair.report.write import write

    with nullcontext() if quiet else busy("writing the report"):
        page = write(results, results.experiment.output.folder)
    failed = _note_failures(results)
    show(str(_shortest(page)))
    if failed:
        raise typer.Exit(USER_MISTAKE)


def _note_failures(results: Results) -> int:
    """How many cells failed; a line per model says why the first of its cells did."""
    failed = results.cells.filter(results.cells["error"].is_not_null())
    for (model,), part in failed.group_by("model", maintain_order=True):
        note(f"{model} failed {len(part)} times, first: {part['error'][0]}")
    if len(failed):
        total = len(results.cells)
        note(f"{len(failed)} of {total} cells failed; the same command tries them again")
    return len(failed)


def estimate(file: File, overrides: Overrides = None, workers: Workers = None) -> None:
    """How long an experiment will take, and how much memory."""
    from fmpair.experiment.estimate import estimate as estimated

    experiment = _experiment(file, overrides, None, workers)
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


def _experiment(
    file: str, overrides: list[str] | None, folder: Path | None, workers: int | None
) -> Experiment:
    """The file's experiment, with what the flags say in place of its own."""
    from fmpair.config.read import read

    experiment = read(file, overrides or [])
    if folder is not None:
        output = replace(experiment.output, folder=str(folder.absolute()))
        experiment = replace(experiment, output=output)
    if workers is not None:
        experiment = replace(experiment, run=replace(experiment.run, workers=workers))
    return experiment


def _shortest(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
