"""Commands for results: report, compare, reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fmpair.cli.experiment_commands import note_failures
from fmpair.cli.flags import ResultsFolder
from fmpair.cli.output import INTERRUPTED, USER_MISTAKE, note, note_no_figures, show
from fmpair.errors import DataError, OptionError

if TYPE_CHECKING:
    from fmpair.report.model_comparison import ModelComparison
    from fmpair.report.table import ReportTable

FORMATS = (".csv", ".md", ".tex")
Exact = Annotated[
    bool,
    typer.Option(
        "--exact-csv", help="Do not escape text in CSV that a spreadsheet takes for a formula."
    ),
]


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="The folder to write; by default the run's."
        ),
    ] = None,
    exact: Exact = False,
) -> None:
    """Write the report of a run again: one page, tables, figures."""
    from fmpair.experiment.folder import results
    from fmpair.report.output import write
    from fmpair.report.verdict import waiting_warnings

    note_no_figures()
    run_results = results(run)
    print(write(run_results, output or run, exact))
    note("\n".join(waiting_warnings(run_results)))
    if run_results.values.is_empty():
        note_failures(run_results)
        raise typer.Exit(USER_MISTAKE)


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The file to write: .csv, .md or .tex; .tex also "
            "writes tables for papers, *-column.tex and *-page.tex.",
        ),
    ] = None,
    exact: Exact = False,
) -> None:
    """Compare the models of several runs in one table, with significance tests."""
    from fmpair.experiment.folder import results
    from fmpair.files import write_atomically
    from fmpair.report.model_comparison import comparison, merged
    from fmpair.report.output import terminal
    from fmpair.report.result_tables import main_table

    if output is not None and output.suffix not in FORMATS:
        raise OptionError(f"-o {output}: the name must end in one of {', '.join(FORMATS)}")
    all_results = merged({name: results(run) for name, run in zip(_names(runs), runs)})
    if all_results.values.is_empty():
        raise DataError("nothing to compare: no model of these runs finished")
    if output is None:
        show(terminal(all_results))
        return
    compared = [comparison(all_results, label) for label in all_results.experiment.protocols]
    files = _files([main_table(each) for each in compared], output, exact)
    if output.suffix == ".tex":
        files |= _paper_files(compared, output)
    for path, content in files.items():
        write_atomically(path, content)
        note(f"wrote {path}")


def _names(runs: list[Path]) -> list[str]:
    """Return the names of the folders, or their paths if two have the same name."""
    names = [run.resolve().name for run in runs]
    return names if len(set(names)) == len(names) else [str(run) for run in runs]


def _files(sheets: list[ReportTable], output: Path, exact: bool) -> dict[Path, bytes]:
    """Return path -> content; each protocol gets its own CSV file."""
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


def _paper_files(compared: list[ModelComparison], output: Path) -> dict[Path, bytes]:
    """Return path -> content of the tables for one column and for both."""
    from fmpair.report.table_formats import paper_tables

    tables = [paper_tables(each) for each in compared]
    return {
        output.with_stem(f"{output.stem}-{width}"): "\n".join(
            table[width] for table in tables if width in table
        ).encode()
        for width in ("column", "page")
    }


FOLDER, QUICK_FOLDER = Path("runs/paper"), Path("runs/paper-quick")


Section = Annotated[
    str,
    typer.Argument(
        metavar="PART",
        help="table1 to table4, epoch-time, convergence, complexity, ablation, or all.",
    ),
]
Page = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write reproduction.md and its images here too.")
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Run a smoke test on a few events, in about a minute.")
]
Listing = Annotated[bool, typer.Option("--list", help="Only list the experiment files.")]


def reproduce(
    part: Section = "all",
    quick: Quick = False,
    folder: ResultsFolder = None,
    listing: Listing = False,
    page: Page = None,
) -> None:
    """Reproduce the FM-Pair paper: its tables and figures, and a verdict on every claim."""
    from fmpair.experiment.run import Stopped
    from fmpair.reproduction.page import write, write_page
    from fmpair.reproduction.run import files
    from fmpair.reproduction.run import reproduce as run_all

    if listing:
        show(*(str(path) for path in files(part)))
        return
    target = folder or (QUICK_FOLDER if quick else FOLDER)
    try:
        done = run_all(part, target, quick, note, progress=not quick)
    except Stopped as stop:
        note(str(stop))
        raise typer.Exit(INTERRUPTED) from None
    if page is not None:
        note(f"wrote {write_page(done, page)}")
    show(str(write(done, target)))
    missing = [path.stem for path in files(part) if path.stem not in done]
    if missing:
        note(f"not finished, so not on the page: {', '.join(missing)}")
        raise typer.Exit(USER_MISTAKE)
