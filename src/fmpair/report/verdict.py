"""The verdict: the result in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from fmpair.config.option_schema import options_of
from fmpair.data.columns.leakage import Information
from fmpair.errors import FmpairError, in_file, spelled
from fmpair.evaluation.protocol import repeat_note, repeats_inflate
from fmpair.experiment.results import Results
from fmpair.models import catalog
from fmpair.report.comparison import Table
from fmpair.report.significance import has_a_winner, lower_is_better
from fmpair.report.table import Cell, Sheet, figure, interval, metric_title, p_claim, percent
from fmpair.text import isolated

NAMED = 3  # of the models not significantly worse than the best; the table has them all


def verdict(table: Table) -> str:
    """Which model is best by the main metric, by how much, and whether that is significant."""
    rows = table.of(table.metric)
    if not rows:
        return "No model finished, so there is nothing to compare."
    name = metric_title(table.metric)
    way = 1 if lower_is_better(table.metric) else -1
    ranked = sorted(rows, key=lambda row: way * row["mean"])
    first, others = ranked[0], ranked[1:]
    best, value = isolated(first["model"]), f"{name} {figure(first['mean'])}"
    if not others:
        bounds = f" (95 % interval {interval(first['low'], first['high'])})"
        told = bounds if first["low"] is not None else ""
        return f"{best} reaches {value}{told}; there is no other model to compare it with."
    if not has_a_winner(table.metric):
        return f"{name} only describes lists, so no model is best by it."
    near = [row for row in others if row["near_best"]]
    if near:
        return _draw(table, first, near, others)
    return f"{best} is best: {value}, {_leads(table, first, others)}."


def _draw(table: Table, first: Any, near: list[Any], others: list[Any]) -> str:
    """Some are not significantly worse than the best."""
    end = "lowest" if lower_is_better(table.metric) else "highest"
    names = ", ".join(
        f"{isolated(row['model'])} ({p_claim(row['p_best'])})" for row in near[:NAMED]
    )
    if len(near) > NAMED:
        names += f" and {len(near) - NAMED} more"
    value = f"{metric_title(table.metric)}, {figure(first['mean'])}"
    told = f"{isolated(first['model'])} has the {end} {value}, "
    told += f"but is not significantly better than {names}"
    behind = [row for row in others if not row["near_best"]]
    return f"{told}; it is {_leads(table, first, behind)}." if behind else f"{told}."


def _leads(table: Table, first: Any, behind: list[Any]) -> str:
    """How far ahead of the next one, and of the baseline where that is another."""
    chosen = [behind[0]]
    chosen += [r for r in behind[1:] if r["model"] == r["baseline"]]
    if len(chosen) == 1 and len(behind) > 1:
        chosen.append(behind[-1])
    correction = ", Holm"
    told = []
    for row in chosen:
        sure = f" ({p_claim(row['p_best'])}{correction})" if row["p_best"] is not None else ""
        told.append(f"{_ahead(table, first['mean'], row['mean'])} {isolated(row['model'])}{sure}")
        correction = ""
    return " and ".join(told)


def _ahead(table: Table, ours: float, theirs: float) -> str:
    word = "below" if lower_is_better(table.metric) else "above"
    if theirs == 0:
        return f"{figure(abs(ours - theirs))} {word}"
    return f"{percent(abs(ours - theirs) / abs(theirs))} {word}"


# What context columns give away of the item, and the verdict that names the suspicion.


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


# What a protocol makes of users who choose an item again: a warning beside the verdict.


def cautions(results: Results) -> list[str]:
    """A line for each protocol whose numbers repeats make too good, and what to write instead."""
    again, events = _repeated(results.manifest)
    return [
        f"{isolated(label)}: {spelled(repeat_note(again, events, protocol), in_file)}"
        for label, protocol in results.experiment.protocols.items()
        if repeats_inflate(again, events, protocol)
    ]


def _repeated(manifest: Mapping[str, Any]) -> tuple[int, int]:
    """(test events that repeat an item their user had in training, test events), of all folds."""
    rows = [row for fold in manifest.get("leakage", []) for row in fold["figures"]]
    counts = [
        row["count"]
        for row in rows
        if (row["before"], row["after"], row["figure"]) == ("train", "test", "same_pair")
    ]
    return sum(counts), sum(fold["test"] for fold in manifest.get("split", {}).get("folds", []))
