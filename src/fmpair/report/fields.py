"""The table of which fields help a model."""

from __future__ import annotations

from typing import Any

from fmpair.report.comparison import Table
from fmpair.report.number import NOTHING, figure, metric_title, p_value, percent, signed, slug
from fmpair.report.sheet import Cell, Sheet
from fmpair.report.tables import DETECTABLE, MINUS, P_VALUE, margin_text, test_text
from fmpair.text import isolated


def fields_sheets(table: Table) -> list[Sheet]:
    """A table for each model of the protocol that was run with and without its fields."""
    return [_sheet(table, model) for model in table.fields]


def _sheet(table: Table, model: str) -> Sheet:
    data, metric = table.fields[model], metric_title(table.metric)
    alone = data["alone"][1:].is_not_null().any()
    rows = [
        (
            Cell(row["field"]),
            Cell(row["verdict"] or NOTHING, bold=row["verdict"] in ("helps", "hurts")),
            _change(row),
            Cell(p_value(row["p"])),
            Cell(figure(row["detectable"])),
            Cell(figure(row["without"])),
            *([Cell(figure(row["alone"]), mark=row["mark"].replace("-", MINUS))] if alone else []),
        )
        for row in data.to_dicts()
    ]
    columns = (
        "Field",
        "Verdict",
        "Difference",
        P_VALUE,
        DETECTABLE,
        "Without it",
        *(["Only it"] if alone else []),
    )
    name = f"{slug(table.label)}-fields-{slug(model)}"
    title = f"Which fields help {isolated(model)}: {metric}"
    return Sheet(name, title, columns, tuple(rows), data, 2, _notes(table, model, alone))


def _change(row: dict[str, Any]) -> Cell:
    if row["relative"] is None:
        return Cell(signed(row["difference"]))
    rise = "+" if row["relative"] > 0 else ""
    return Cell(signed(row["difference"]), f"{rise}{percent(row['relative'])}")


def _notes(table: Table, model: str, alone: bool) -> tuple[str, ...]:
    whole = table.fields[model].row(0, named=True)
    metric = metric_title(table.metric)
    notes = [
        f"{isolated(model)} has {metric} {figure(whole['alone'])} with all fields and "
        f"{figure(whole['without'])} with none. Without it: with all fields but this one. "
        "Difference: the effect of adding it to the others.",
        f"Helps and hurts: significantly at {table.level:g}. No difference: shown to be within "
        f"{margin_text(table)}. Undecided: neither was shown; from {DETECTABLE.lower()} on an "
        f"effect would have been. {test_text(table)}",
    ]
    if any(" x " in name for name in table.fields[model]["field"]):
        notes.append(
            "Two fields with an x between them: the terms of order three in which they meet; "
            "without it: with every other such term."
        )
    if alone:
        notes.append(
            f"Only it: with this field and no other; + and {MINUS}: significantly better and worse "
            "than with none, =: level with it. "
            "A field that helps alone and adds nothing to the others is redundant."
        )
    return tuple(notes)
