"""`reproduce`: the paper's tables and figures beside its own numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fmpair.cli.experiment_commands import note_failures
from fmpair.cli.output import INTERRUPTED, USER_MISTAKE, note, note_no_figures, show
from fmpair.errors import DataError, OptionError

if TYPE_CHECKING:
    from fmpair.report.table import ReportTable


# Commands for the results of runs: report, compare.


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
    from fmpair.experiment.results import results
    from fmpair.report.output import write

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
    from fmpair.experiment.results import results
    from fmpair.files import write_atomically
    from fmpair.report.merge_runs import merged
    from fmpair.report.model_comparison import comparison
    from fmpair.report.output import terminal
    from fmpair.report.result_tables import main_table

    if output is not None and output.suffix not in FORMATS:
        raise OptionError(f"-o {output}: the name must end in one of {', '.join(FORMATS)}")
    found = merged({name: results(run) for name, run in zip(_names(runs), runs)})
    if found.values.is_empty():
        raise DataError("no model of these runs finished, so there is nothing to compare")
    if output is None:
        show(terminal(found))
        return
    sheets = [main_table(comparison(found, label)) for label in found.experiment.protocols]
    for path, content in _files(sheets, output, exact).items():
        write_atomically(path, content)
        note(f"wrote {path}")


def _names(runs: list[Path]) -> list[str]:
    """The folders' names, or their paths where two have one name."""
    names = [run.resolve().name for run in runs]
    return names if len(set(names)) == len(names) else [str(run) for run in runs]


def _files(sheets: list[ReportTable], output: Path, exact: bool) -> dict[Path, bytes]:
    """Path -> contents; tables of different protocols never share a CSV file."""
    from fmpair.report.table import unique_names
    from fmpair.report.table_formats import csv, latex, markdown

    if output.suffix != ".csv":
        shown = markdown if output.suffix == ".md" else latex
        return {output: "\n".join(shown(sheet) for sheet in sheets).encode()}
    if len(sheets) == 1:
        return {output: csv(sheets[0].data, exact)}
    names = unique_names([sheet.name for sheet in sheets])
    return {
        output.with_stem(f"{output.stem}-{name}"): csv(sheet.data, exact)
        for name, sheet in zip(names, sheets)
    }


FOLDER, QUICK_FOLDER = Path("runs/paper"), Path("runs/paper-quick")


def reproduce(
    part: Annotated[
        str,
        typer.Argument(
            metavar="PART",
            help="table1 to table4, epoch-time, convergence, complexity, ablation, or all.",
        ),
    ] = "all",
    quick: Annotated[
        bool, typer.Option("--quick", help="A smoke test on a few events, in about a minute.")
    ] = False,
    folder: Annotated[
        Path | None, typer.Option("--folder", "-f", metavar="DIR", help="Where results go.")
    ] = None,
    listing: Annotated[
        bool, typer.Option("--list", help="Name the experiment files and stop.")
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write reproduction.md and its images here too."),
    ] = None,
) -> None:
    """Reproduce the FM-Pair paper: its tables and figures, and a verdict on every claim."""
    from fmpair.experiment.run import Stopped
    from fmpair.reproduction.page import write, write_page
    from fmpair.reproduction.run import files
    from fmpair.reproduction.run import reproduce as carry_out

    if listing:
        show(*(str(path) for path in files(part)))
        return
    place = folder or (QUICK_FOLDER if quick else FOLDER)
    try:
        found = carry_out(part, place, quick, note, progress=not quick)
    except Stopped as stop:
        note(str(stop))
        raise typer.Exit(INTERRUPTED) from None
    if page is not None:
        note(f"wrote {write_page(found, page)}")
    show(str(write(found, place)))
    _note_missing([path.stem for path in files(part) if path.stem not in found])


def _note_missing(names: list[str]) -> None:
    if names:
        note(f"not finished, and so not on the page: {', '.join(names)}")
        raise typer.Exit(USER_MISTAKE)
