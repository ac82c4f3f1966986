"""Commands for the results of runs: report, compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fmpair.cli.failure import USER_MISTAKE
from fmpair.cli.running import note_failures
from fmpair.cli.show import note, note_no_figures, show
from fmpair.errors import DataError, OptionError

if TYPE_CHECKING:
    from fmpair.report.sheet import Sheet

FORMATS = (".csv", ".md", ".tex")
Exact = Annotated[
    bool,
    typer.Option(
        "--exact-csv", help="Text in CSV as it is, also what a spreadsheet takes for a formula."
    ),
]


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Where to write; by default the run's folder."
        ),
    ] = None,
    exact: Exact = False,
) -> None:
    """Write a run's report again: one page, tables, figures."""
    from fmpair.experiment.store import results
    from fmpair.report.write import write

    note_no_figures()
    found = results(run)
    print(write(found, output or run, exact))
    if found.values.is_empty():
        note_failures(found)
        raise typer.Exit(USER_MISTAKE)


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write: .csv, .md or .tex."),
    ] = None,
    exact: Exact = False,
) -> None:
    """Put the models of several runs into one table, with significance tests across runs."""
    from fmpair.experiment.store import results
    from fmpair.files import write_atomically
    from fmpair.report.comparison import comparison
    from fmpair.report.merge import merged
    from fmpair.report.tables import main_sheet
    from fmpair.report.terminal import terminal

    if output is not None and output.suffix not in FORMATS:
        raise OptionError(f"-o {output}: the name must end in one of {', '.join(FORMATS)}")
    found = merged({name: results(run) for name, run in zip(_names(runs), runs)})
    if found.values.is_empty():
        raise DataError("no model of these runs finished, so there is nothing to compare")
    if output is None:
        show(terminal(found))
        return
    sheets = [main_sheet(comparison(found, label)) for label in found.experiment.protocols]
    for path, content in _files(sheets, output, exact).items():
        write_atomically(path, content)
        note(f"wrote {path}")


def _names(runs: list[Path]) -> list[str]:
    """The folders' names, or their paths where two have one name."""
    names = [run.resolve().name for run in runs]
    return names if len(set(names)) == len(names) else [str(run) for run in runs]


def _files(sheets: list[Sheet], output: Path, exact: bool) -> dict[Path, bytes]:
    """Path -> contents; tables of different protocols never share a CSV file."""
    from fmpair.report.csv import csv
    from fmpair.report.latex import latex
    from fmpair.report.markdown import markdown
    from fmpair.report.number import told_apart

    if output.suffix != ".csv":
        shown = markdown if output.suffix == ".md" else latex
        return {output: "\n".join(shown(sheet) for sheet in sheets).encode()}
    if len(sheets) == 1:
        return {output: csv(sheets[0].data, exact)}
    names = told_apart([sheet.name for sheet in sheets])
    return {
        output.with_stem(f"{output.stem}-{name}"): csv(sheet.data, exact)
        for name, sheet in zip(names, sheets)
    }
