"""Everything a report consists of, written to a folder."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from fmpair.experiment.results import Results
from fmpair.files import make_folder, write_atomically
from fmpair.report import style
from fmpair.report.comparison import Table, comparison
from fmpair.report.result_tables import P_VALUE, fields_sheets, main_sheet
from fmpair.report.run_tables import times_sheet
from fmpair.report.sections import sections, warnings
from fmpair.report.table import Cell, Section, Sheet, told_apart
from fmpair.report.table_formats import csv, latex, markdown, markdown_report, wraprec_results
from fmpair.report.verdict import cautions, headline
from fmpair.text import harmless, isolated

# The report as one self-contained page.


# Figures style their parts one by one, by attributes, so style is allowed inside; all else is not.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(title: str, verdict: str, warnings: Sequence[str], sections: Sequence[Section]) -> str:
    """HTML with its style and its figures inside: no script, no other file, no address.

    Its policy makes a browser refuse whatever else a name might smuggle in.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    loader = PackageLoader("fmpair.report")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else harmless(str(value)),
    )  # fmt: skip
    return environment.get_template("report.html").render(
        title=title,
        verdict=verdict,
        warnings=warnings,
        sections=dict(zip(told_apart([section.name for section in sections]), sections)),
        policy=POLICY,
        inlined=lambda figure: Markup(style.inlined(figure)),
        css=Markup(loader.get_source(environment, "report.css")[0]),
    )


# The tables of a run for a terminal.


def terminal(results: Results) -> Any:
    """A table per protocol with the training time of each model, those of fields, the verdict.

    Below the verdict stand warnings of what makes its numbers too good.
    """
    from rich.console import Group
    from rich.text import Text

    found = [comparison(results, label) for label in results.experiment.protocols]
    times = {row[0].text: row[1].text for row in times_sheet(results).rows}
    shown = [_table(table, times) for table in found if len(table.rows)]
    shown += [_fields(sheet) for table in found for sheet in fields_sheets(table)]
    lines = [Text(headline(results, found[0]))] if found else []
    lines += [Text(f"Warning: {told}", "yellow") for told in cautions(results)]
    return Group(*shown, *lines)


def rich_table(sheet: Sheet) -> Any:
    """Any sheet as a rich table."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Rich
    from rich.text import Text

    made = Rich(
        box=SIMPLE_HEAD, title=Text(harmless(sheet.title)), title_justify="left", title_style="bold"
    )
    for place, name in enumerate(sheet.columns):
        heading = Text(
            harmless(name).replace("[", "\n[")
        )  # where a narrow terminal would cut anywhere
        made.add_column(
            heading, justify="left" if place < sheet.words else "right", overflow="fold"
        )
    for row in sheet.rows:
        made.add_row(*(_cell(cell) for cell in row))
    return made


def _table(table: Table, times: dict[str, str]) -> Any:
    """Values, difference and p; the page has the rest."""
    sheet = main_sheet(table)
    tested = sheet.columns.index(P_VALUE)
    kept = [*range(len(table.metrics) + 1), tested - 1, tested]
    columns = (*(sheet.columns[n] for n in kept), "train s")
    rows = tuple(
        (*(replace(row[n], detail="") for n in kept), Cell(times.get(known["model"], "")))
        for row, known in zip(sheet.rows, table.of(table.metric))
    )
    return rich_table(Sheet(sheet.name, f" {sheet.title}", columns, rows, sheet.data))


def _fields(sheet: Sheet) -> Any:
    """Without the relative differences, which the page has."""
    rows = tuple(tuple(replace(cell, detail="") for cell in row) for row in sheet.rows)
    return rich_table(replace(sheet, title=f" {sheet.title}", rows=rows))


def _cell(cell: Cell) -> Any:
    from rich.text import Text

    style = "bold" if cell.bold else "underline" if cell.underlined else ""
    made = Text(isolated(cell.text), style)
    made.append(cell.mark, "")
    return made.append(f" {cell.detail}", "dim") if cell.detail else made


FOLDERS = ("tables", "figures")
LISTED = ".report"  # names the files of the report, one a line


def write(results: Results, folder: str | Path, exact: bool = False) -> Path:
    """Write the page, its tables and figures into the folder; gives the path of report.html.

    report.html, report.md; tables/*.csv, *.md, *.tex; figures/*.svg, *.png; results.csv and
    results.parquet (every value); wraprec.csv. Each file is written whole or not at all, the
    page last; those of an earlier report in the folder that this one lacks are removed.
    exact: text in CSV as it is, also where a spreadsheet would take it for a formula.
    """
    place = Path(folder)
    found = [comparison(results, label) for label in results.experiment.protocols]
    told = headline(results, found[0]) if found else ""
    parts, doubts = sections(results, found), warnings(results, found)
    title = results.experiment.name
    files = {
        **{name: data for part in parts for name, data in _files(part, exact)},
        **_values(results, exact),
        "report.md": markdown_report(title, told, parts, warnings=doubts).encode(),
        "report.html": page(title, told, doubts, parts).encode(),
    }
    for name in FOLDERS:
        make_folder(place / name)
    with _in_place_of_the_last(place, list(files)):
        for name, data in files.items():
            write_atomically(place / name, data)
    return place / "report.html"


def long_values(results: Results) -> pl.DataFrame:
    """Every value with the id of its protocol and the times of its cell."""
    ids = {label: protocol.id for label, protocol in results.experiment.protocols.items()}
    kept = (
        "cell",
        "options",
        "train_seconds",
        "judge_seconds",
        "epoch_seconds",
        "epochs",
        "peak_mb",
    )
    named = results.values.with_columns(
        protocol_id=pl.col("protocol").replace_strict(ids, return_dtype=pl.String)
    )
    return named.join(results.cells.select(kept), on="cell", how="left", maintain_order="left")


@contextmanager
def _in_place_of_the_last(folder: Path, names: list[str]) -> Iterator[None]:
    """Files that the last report had and this one does not are gone afterwards; no others are."""
    listed = folder / LISTED
    text = listed.read_text("utf-8", "replace") if listed.is_file() else ""
    before = [name for name in text.splitlines() if _is_ours(name)]
    write_atomically(listed, "\n".join(dict.fromkeys([*before, *names])).encode())
    yield
    for name in set(before) - set(names):
        if (folder / name).is_file():
            (folder / name).unlink()
    write_atomically(listed, "\n".join(names).encode())


def _is_ours(name: str) -> bool:
    """Whether a report could have a file of that name: the list may have been tampered with."""
    folder, _, file = name.rpartition("/")
    return folder in ("", *FOLDERS) and file not in ("", ".", "..")


def _files(part: Section, exact: bool) -> Iterator[tuple[str, bytes]]:
    """(name, contents) of the files of a part's tables and figures."""
    for sheet in part.sheets:
        yield f"tables/{sheet.name}.csv", csv(sheet.data, exact)
        yield f"tables/{sheet.name}.md", markdown(sheet).encode()
        yield f"tables/{sheet.name}.tex", latex(sheet).encode()
    for figure in part.figures:
        yield f"figures/{figure.name}.svg", figure.svg.encode()
        yield f"figures/{figure.name}.png", figure.png


def _values(results: Results, exact: bool) -> dict[str, bytes]:
    values, parquet = long_values(results), io.BytesIO()
    values.write_parquet(parquet)
    return {
        "results.parquet": parquet.getvalue(),
        "results.csv": csv(values, exact),
        "wraprec.csv": csv(wraprec_results(results), exact),
    }
