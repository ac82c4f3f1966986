"""What context columns give away of the item, and the verdict that names the suspicion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from fmpair.config.option_schema import options_of
from fmpair.data.information import Information
from fmpair.errors import FmpairError
from fmpair.experiment.results import Results
from fmpair.models import catalog
from fmpair.report.comparison import Table
from fmpair.report.number import percent
from fmpair.report.sheet import Cell, Sheet
from fmpair.report.significance import lower_is_better
from fmpair.report.verdict import verdict
from fmpair.text import isolated

IS_IT_BAD = {
    "none": "no",
    "suspect": "perhaps: is it known before the choice?",
    "likely": "yes: it describes the item",
    "certain": "yes: it describes the item",
}


def giveaway_sheet(manifest: Mapping[str, Any]) -> Sheet | None:
    """Each context column with what it tells of the item, beyond chance."""
    rows = manifest.get("context", [])
    if not rows:
        return None
    shown = [
        (
            Cell(isolated(row["column"])),
            Cell(IS_IT_BAD[row["degree"]]),
            Cell(percent(row["of_item"])),
            Cell(percent(row["of_column"])),
        )
        for row in rows
    ]
    columns = ("Context column", "Is it bad?", "Tells of the item", "The item tells of it")
    note = "Shares of the entropy, beyond chance. What describes the item is no context: it is "
    note += "not known before the choice, and as context it tells the answer."
    title = "What each context column gives away"
    return Sheet("context", title, columns, tuple(shown), pl.DataFrame(rows), 2, (note,))


def headline(results: Results, table: Table) -> str:
    """The verdict; where the best model has context that may give the item away, that first."""
    told = verdict(table)
    suspects = _suspects(results, _best(table))
    if not suspects:
        return told
    named = ", ".join(f"{isolated(one.column)}: {one.line}" for one in suspects)
    sure = any(one.degree != "suspect" for one in suspects)
    if sure:
        return f"Not to be believed as it stands: context gives the item away ({named}). {told}"
    return f"{told} Context may give the item away ({named}): see Leakage."


def _best(table: Table) -> str | None:
    way = 1 if lower_is_better(table.metric) else -1
    ranked = sorted(table.of(table.metric), key=lambda row: way * row["mean"])
    return ranked[0]["model"] if ranked else None


def _suspects(results: Results, model: str | None) -> list[Information]:
    """The columns in question among those that the model may use."""
    own = next((one for one in results.experiment.models if one.name == model), None)
    if own is None or not _reads_context(own.kind):
        return []
    return [
        Information(row["column"], row["of_item"], row["of_column"])
        for row in results.manifest.get("context", [])
        if row["degree"] != "none" and (own.context is None or row["column"] in own.context)
    ]


def _reads_context(kind: str) -> bool:
    """Whether models of a kind have fields at all; popularity and neighbours have none."""
    try:
        return "fields" in options_of(catalog.find(kind)).known
    except FmpairError:  # not here, so that nothing is known of it
        return True
