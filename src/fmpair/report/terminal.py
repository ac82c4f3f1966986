"""The tables of a run for a terminal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fmpair.experiment.results import Results
from fmpair.report.caution import cautions
from fmpair.report.comparison import Table, comparison
from fmpair.report.fields import fields_sheets
from fmpair.report.giveaway import headline
from fmpair.report.run_tables import times_sheet
from fmpair.report.sheet import Cell, Sheet
from fmpair.report.tables import P_VALUE, main_sheet
from fmpair.text import harmless, isolated


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
