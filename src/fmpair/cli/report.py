"""Commands for the results of runs: report, compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fmpair.cli.show import note, show
from fmpair.errors import OptionError

if TYPE_CHECKING:
    from fmpair.report.sheet import Sheet

FORMATS = (".csv", ".md", ".tex")


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Where to write; by default the run's folder."
        ),
    ] = None,
) -> None:
    """Write a run's report again: one page, tables, figures."""
    from fmpair.experiment.store import results
    from fmpair.report.write import write

    print(write(results(run), output or run))


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write: .csv, .md or .tex."),
    ] = None,
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
    if output is None:
        show(terminal(found))
        return
    sheets = [main_sheet(comparison(found, label)) for label in found.experiment.protocols]
    for path, text in _files(sheets, output).items():
        write_atomically(path, text.encode())
        note(f"wrote {path}")


def _names(runs: list[Path]) -> list[str]:
    """The folders' names, or their paths where two have one name."""
    names = [run.resolve().name for run in runs]
    return names if len(set(names)) == len(names) else [str(run) for run in runs]


def _files(sheets: list[Sheet], output: Path) -> dict[Path, str]:
    """Path -> text; tables of different protocols never share a CSV file."""
    from fmpair.report.latex import latex
    from fmpair.report.markdown import markdown

    if output.suffix != ".csv":
        shown = markdown if output.suffix == ".md" else latex
        return {output: "\n".join(shown(sheet) for sheet in sheets)}
    if len(sheets) == 1:
        return {output: sheets[0].data.write_csv()}
    return {
        output.with_stem(f"{output.stem}-{sheet.name}"): sheet.data.write_csv() for sheet in sheets
    }
