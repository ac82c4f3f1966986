"""Output of a report: the HTML page, the files in a folder, the tables on the terminal."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import wrap
from typing import Any

import polars as pl

from fmpair.experiment.folder import Results
from fmpair.files import make_folder, write_atomically
from fmpair.report import figures
from fmpair.report.model_comparison import ModelComparison, comparison
from fmpair.report.result_tables import P_VALUE, field_tables, main_table, one_fit_note
from fmpair.report.run_tables import times_table
from fmpair.report.sections import sections, warnings
from fmpair.report.table import ReportTable, Section, TableCell, slug, unique_names
from fmpair.report.table_formats import (
    csv,
    latex,
    markdown,
    markdown_report,
    paper_tables,
    wraprec_results,
)
from fmpair.report.verdict import headline, rating_warnings, repeat_warnings
from fmpair.text import harmless, isolated

# Inline styles are allowed because SVG figures use style attributes; everything else is blocked.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
FOLDERS = ("tables", "figures")
HEADING = 10  # characters in a line of a heading on the terminal, where its words allow
FILE_LIST = ".report"  # the names of the report's files, one per line


def page(title: str, verdict: str, warnings: Sequence[str], sections: Sequence[Section]) -> str:
    """Return a self-contained HTML page: no script, no other file, no link to other sites.

    The content security policy blocks anything that a name might inject.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    loader = PackageLoader(__package__)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else harmless(str(value)),
    )  # fmt: skip
    return environment.get_template("report.html").render(
        title=title,
        verdict=verdict,
        warnings=warnings,
        sections=dict(zip(unique_names([section.name for section in sections]), sections)),
        policy=POLICY,
        inlined=lambda figure: Markup(figures.inlined(figure)),
        css=Markup(loader.get_source(environment, "report.css")[0]),
    )


def terminal(results: Results) -> Any:
    """Return a rich group: a table per protocol, tables of field effects, verdict, warnings."""
    from rich.console import Group
    from rich.text import Text

    comparisons = [comparison(results, label) for label in results.experiment.protocols]
    times = {row[0].text: row[1].text for row in times_table(results).rows}
    tables = [_short_table(each, times) for each in comparisons if len(each.rows)]
    for table in (table for each in comparisons for table in field_tables(each)):
        rows = tuple(tuple(replace(cell, detail="") for cell in row) for row in table.rows)
        tables.append(rich_table(replace(table, title=f" {table.title}", rows=rows)))
    lines = [Text(headline(results, comparisons[0]))] if comparisons else []
    lines += [Text(one_fit_note(each)) for each in comparisons[:1] if one_fit_note(each)]
    doubts = [*repeat_warnings(results), *rating_warnings(results)]
    lines += [Text(f"Warning: {text}", "yellow") for text in doubts]
    return Group(*tables, *lines)


def rich_table(table: ReportTable) -> Any:
    """Return a table for the terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable
    from rich.text import Text

    rich = RichTable(
        box=SIMPLE_HEAD,
        title=Text(harmless(table.title)),
        title_justify="left",
        title_style="bold",
        padding=(0, 1, 0, 0),  # names of models fit a terminal of 80 columns
    )
    for index, name in enumerate(table.columns):
        is_text = index < table.text_columns
        heading = Text(harmless(name) if is_text else _broken(harmless(name)))
        rich.add_column(
            heading, justify="left" if is_text else "right", overflow="fold", no_wrap=not is_text
        )
    for row in table.rows:
        rich.add_row(*(_rich_cell(cell) for cell in row))
    return rich


def _broken(heading: str) -> str:
    """Break a heading between words, since a narrow terminal would break it within one."""
    lines = heading.replace("[", "\n[").splitlines()
    words = [wrap(line, HEADING, break_long_words=False, break_on_hyphens=False) for line in lines]
    return "\n".join(line for part in words for line in part)


def _short_table(compared: ModelComparison, times: dict[str, str]) -> Any:
    """Values, difference, p, what was detectable, and training time; the page has the rest."""
    table = main_table(compared)
    tested = table.columns.index(P_VALUE)
    shown = [*range(len(compared.metrics) + 1), tested - 1, tested, tested + 1]
    columns = (*(table.columns[n] for n in shown), "train s")
    rows = tuple(
        (*(replace(row[n], detail="") for n in shown), TableCell(times.get(known["model"], "")))
        for row, known in zip(table.rows, compared.of(compared.metric))
    )
    main = 1 + compared.metrics.index(compared.metric)
    others = [n for n in range(len(compared.metrics), 0, -1) if n != main]
    short = ReportTable(table.name, f" {table.title}", columns, rows, table.data)
    return _FittingTable(short, (len(columns) - 1, *others))


@dataclass(frozen=True)
class _FittingTable:
    """A table that leaves out columns, in the order of `spare`, until no word of it is broken."""

    table: ReportTable
    spare: tuple[int, ...]

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.text import Text

        columns = self.table.columns
        for count in range(len(self.spare) + 1):
            kept = [n for n in range(len(columns)) if n not in self.spare[:count]]
            rows = tuple(tuple(row[n] for n in kept) for row in self.table.rows)
            table = replace(self.table, columns=tuple(columns[n] for n in kept), rows=rows)
            if _least_width(table) <= options.max_width:
                break
        yield rich_table(table)
        left_out = ", ".join(columns[n] for n in sorted(self.spare[:count]))
        if left_out:
            yield Text(f" Too wide for here: {left_out}. The page has all columns.\n", "dim")


def _least_width(table: ReportTable) -> int:
    """Return the width of a terminal on which no word of a table is broken."""
    from rich.cells import cell_len

    width = 1
    for index, heading in enumerate(table.columns):
        texts = [row[index].text + row[index].mark for row in table.rows]
        if index < table.text_columns:  # only names are wrapped
            parts = [word for text in (heading, *texts) for word in text.split()]
        else:
            parts = [line for text in (_broken(heading), *texts) for line in text.splitlines()]
        width += max(map(cell_len, parts), default=0) + 2
    return width


def _rich_cell(cell: TableCell) -> Any:
    from rich.text import Text

    style = "bold" if cell.bold else "underline" if cell.underlined else ""
    text = Text(isolated(cell.text), style)
    text.append(cell.mark, "")
    return text.append(f" {cell.detail}", "dim") if cell.detail else text


def write(results: Results, folder: str | Path, exact: bool = False) -> Path:
    """Write the report into the folder and return the path of report.html.

    Files: report.html, report.md; tables/*.csv, *.md, *.tex, and for papers
    tables/*-column.tex and *-page.tex; figures/*.svg, *.png; results.csv and
    results.parquet (every value); wraprec.csv. Each file is written atomically, the page last;
    files of an earlier report that this one lacks are removed.
    exact: do not quote text in CSV that a spreadsheet would take for a formula.
    """
    folder = Path(folder)
    comparisons = [comparison(results, label) for label in results.experiment.protocols]
    verdict = headline(results, comparisons[0]) if comparisons else ""
    parts, doubts = sections(results, comparisons), warnings(results, comparisons)
    title = results.experiment.name
    labels = unique_names([slug(each.label) for each in comparisons])
    papers = {
        f"tables/{label}-{suffix}.tex": text.encode()
        for label, each in zip(labels, comparisons)
        for suffix, text in paper_tables(each).items()
    }
    files = {
        **papers,
        **{name: data for part in parts for name, data in _files(part, exact)},
        **_values(results, exact),
        "report.md": markdown_report(title, verdict, parts, warnings=doubts).encode(),
        "report.html": page(title, verdict, doubts, parts).encode(),
    }
    for name in FOLDERS:
        make_folder(folder / name)
    with _replacing_earlier_files(folder, list(files)):
        for name, data in files.items():
            write_atomically(folder / name, data)
    return folder / "report.html"


def long_values(results: Results) -> pl.DataFrame:
    """Return every value with the id of its protocol and the times of its cell."""
    ids = {label: protocol.id for label, protocol in results.experiment.protocols.items()}
    columns = ("cell", "options", "train_seconds", "judge_seconds", "epoch_seconds", "epochs",
            "peak_mb")  # fmt: skip
    named = results.values.with_columns(
        protocol_id=pl.col("protocol").replace_strict(ids, return_dtype=pl.String)
    )
    return named.join(results.cells.select(columns), on="cell", how="left", maintain_order="left")


@contextmanager
def _replacing_earlier_files(folder: Path, names: list[str]) -> Iterator[None]:
    """Remove the files of the earlier report that this one lacks, and no others."""
    listed = folder / FILE_LIST
    text = listed.read_text("utf-8", "replace") if listed.is_file() else ""
    before = [name for name in text.splitlines() if _is_ours(name)]
    write_atomically(listed, "\n".join(dict.fromkeys([*before, *names])).encode())
    yield
    for name in set(before) - set(names):
        if (folder / name).is_file():
            (folder / name).unlink()
    write_atomically(listed, "\n".join(names).encode())


def _is_ours(name: str) -> bool:
    """Whether a report can have a file of that name: the list may have been tampered with."""
    folder, _, file = name.rpartition("/")
    return folder in ("", *FOLDERS) and file not in ("", ".", "..")


def _files(part: Section, exact: bool) -> Iterator[tuple[str, bytes]]:
    """(name, contents) of the files of a section's tables and figures."""
    for table in part.tables:
        yield f"tables/{table.name}.csv", csv(table.data, exact)
        yield f"tables/{table.name}.md", markdown(table).encode()
        yield f"tables/{table.name}.tex", latex(table).encode()
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
