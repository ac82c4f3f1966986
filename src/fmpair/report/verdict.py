"""The verdict: the result of an experiment in one sentence, and warnings about it.

Warnings are about context columns that reveal the item (context leakage), protocols under which
repeated items make results too high, and low ratings that count as positive.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from fmpair.config.option_schema import options_of
from fmpair.data.columns.context_leakage import ContextLeakage
from fmpair.errors import FmpairError, in_file, listing, spelled
from fmpair.evaluation.protocol import repeat_note, repeats_inflate
from fmpair.experiment.folder import Results
from fmpair.models import catalog
from fmpair.report.model_comparison import ModelComparison
from fmpair.report.significance import has_a_winner, lower_is_better
from fmpair.report.table import (
    ReportTable,
    cells,
    figure,
    interval,
    metric_title,
    p_claim,
    percent,
)
from fmpair.text import isolated

NAMED = 3  # how many models that are not significantly worse the verdict names
LEAKAGE_DEGREES = {
    "none": "no",
    "suspect": "perhaps: is it known before the choice?",
    "likely": "yes: it describes the item",
    "certain": "yes: it describes the item",
}


def headline(results: Results, compared: ModelComparison) -> str:
    """Return the verdict and a warning if the best model uses context that may reveal the item.

    If there are several protocols, the verdict names the one it is about.
    """
    several = len(results.experiment.protocols) > 1
    sentence = f"{isolated(compared.label)}: {verdict(compared)}" if several else verdict(compared)
    ranked = compared.ranked()
    suspects = _leaking_columns(results, ranked[0]["model"] if ranked else None)
    if not suspects:
        return sentence
    names = ", ".join(f"{isolated(column.column)}: {column.line}" for column in suspects)
    if any(column.degree != "suspect" for column in suspects):
        return f"Do not trust this result: context reveals the item ({names}). {sentence}"
    return f"{sentence} Context may reveal the item ({names}): see Leakage."


def verdict(compared: ModelComparison) -> str:
    """Return which model is best by the main metric, by how much, and whether significantly."""
    if not (ranked := compared.ranked()):
        return "No model finished, so there is nothing to compare."
    name = metric_title(compared.metric)
    first, others = ranked[0], ranked[1:]
    best, value = isolated(first["model"]), f"{name} {figure(first['mean'])}"
    if not others:
        bounds = f" (95 % interval {interval(first['low'], first['high'])})"
        bounds = bounds if first["low"] is not None else ""
        return f"{best} reaches {value}{bounds}; there is no other model to compare with."
    if not has_a_winner(compared.metric):
        return f"{name} only describes lists, so there is no best model."
    beaten = _against_baselines(compared, ranked)
    if beaten:
        return beaten
    near = [row for row in others if row["near_best"]]
    if not near:
        return f"{best} is best: {value}, {_leads(compared, first, others)}."
    end = "lowest" if lower_is_better(compared.metric) else "highest"
    sentence = f"{best} has the {end} {name}, {figure(first['mean'])}, "
    sentence += f"but is not significantly better than {_names(near, first['model'])}"
    behind = [row for row in others if not row["near_best"]]
    return f"{sentence}; it is {_leads(compared, first, behind)}." if behind else f"{sentence}."


def _missed(row: Any, best: str) -> str:
    """Return the difference that the test would have detected, as a share of the mean of the best.

    Empty if the row was not tested against the best model.
    """
    if row["baseline"] != best or row["detectable"] is None or not row["relative"]:
        return ""
    base = abs(row["difference"] / row["relative"])
    return f"; {percent(row['detectable'] / base)} would have been found"


def _names(near: list[Any], best: str) -> str:
    """Return the first NAMED models that are not significantly worse, and how many more are not."""
    names = ", ".join(
        f"{isolated(row['model'])} ({p_claim(row['p_best'])}{_missed(row, best)})"
        for row in near[:NAMED]
    )
    return f"{names} and {len(near) - NAMED} more" if len(near) > NAMED else names


def _against_baselines(compared: ModelComparison, ranked: list[Any]) -> str:
    """Compare the best model with the best baseline; empty if there are not at least two."""
    baselines = [row for row in ranked if row["model"] in compared.baselines]
    models = [row for row in ranked if row["model"] not in compared.baselines]
    if len(baselines) < 2 or not models:
        return ""
    name = metric_title(compared.metric)
    base, model = baselines[0], models[0]
    of_all = f"the best of {len(baselines)} baselines"
    if ranked[0] is base:
        worse = "is not significantly worse" if model["near_best"] else "is worse"
        if figure(model["mean"]) == figure(base["mean"]):
            worse = "has the same"
        p = f" ({p_claim(model['p_best'])}, Holm)" if model["p_best"] is not None else ""
        return (
            f"No model beats {of_all}, {isolated(base['model'])}: {name} {figure(base['mean'])}. "
            f"{isolated(model['model'])} {worse}: {figure(model['mean'])}{p}."
        )
    beats = "does not significantly beat" if base["near_best"] else "beats"
    change = f"{name} {figure(base['mean'])} → {figure(model['mean'])}"
    sentence = f"{isolated(model['model'])} {beats} {of_all} ({isolated(base['model'])}: {change}"
    sentence += f", {p_claim(base['p_best'])}, Holm)" if base["p_best"] is not None else ")"
    near = [row for row in models[1:] if row["near_best"]]
    behind = [row for row in models[1:] if not row["near_best"]]
    sentence += (
        f"; it is not significantly better than {_names(near, model['model'])}" if near else ""
    )
    sentence += f"; it is {_leads(compared, model, behind[:1])}" if behind else ""
    return f"{sentence}."


def _leads(compared: ModelComparison, first: Any, behind: list[Any]) -> str:
    """Return the lead over the next model, and over the baseline or the last model."""
    chosen = [behind[0], *(row for row in behind[1:] if row["model"] == row["baseline"])]
    if len(chosen) == 1 and len(behind) > 1:
        chosen.append(behind[-1])
    word = "below" if lower_is_better(compared.metric) else "above"
    parts: list[str] = []
    for row in chosen:
        gap = abs(first["mean"] - row["mean"])
        lead = figure(gap) if row["mean"] == 0 else percent(gap / abs(row["mean"]))
        holm = "" if parts else ", Holm"
        test = f" ({p_claim(row['p_best'])}{holm})" if row["p_best"] is not None else ""
        parts.append(f"{lead} {word} {isolated(row['model'])}{test}")
    return " and ".join(parts)


def context_leakage_table(manifest: Mapping[str, Any]) -> ReportTable | None:
    """Return a table of what each context column reveals about the item, beyond chance."""
    columns = manifest.get("context", [])
    if not columns:
        return None
    rows = [
        cells(
            isolated(row["column"]),
            LEAKAGE_DEGREES[row["degree"]],
            percent(row["of_item"]),
            percent(row["of_column"]),
        )
        for row in columns
    ]
    headings = ("Context column", "Leak?", "Reveals of the item", "Item reveals of it")
    note = "Shares of the entropy, corrected for chance. A column that describes the item is not "
    note += "context: it is not known before the choice, and reveals the answer."
    title = "What context columns reveal about the item"
    return ReportTable("context", title, headings, tuple(rows), pl.DataFrame(columns), 2, (note,))


def _leaking_columns(results: Results, model: str | None) -> list[ContextLeakage]:
    """Return the context columns that may reveal the item and that the model may use."""
    chosen = next((each for each in results.experiment.models if each.name == model), None)
    if chosen is None or not _uses_context(chosen.kind):
        return []
    return [
        ContextLeakage(row["column"], row["of_item"], row["of_column"])
        for row in results.manifest.get("context", [])
        if row["degree"] != "none" and (chosen.context is None or row["column"] in chosen.context)
    ]


def _uses_context(kind: str) -> bool:
    """Return whether models of a kind use context: whether they have the option `fields`."""
    try:
        return "fields" in options_of(catalog.find(kind)).known
    except FmpairError:  # the model is not installed here, so it may use context
        return True


def repeat_warnings(results: Results) -> list[str]:
    """Return a line for each protocol whose results are too high because users repeat items."""
    repeats, events = _repeat_counts(results.manifest)
    return [
        f"{isolated(label)}: {spelled(repeat_note(repeats, events, protocol), in_file)}"
        for label, protocol in results.experiment.protocols.items()
        if repeats_inflate(repeats, events, protocol)
    ]


def command_of(results: Results) -> str:
    """Return the command that made the run, which also resumes it."""
    return str(results.manifest.get("command", "fmpair run FILE"))


def waiting_warnings(results: Results) -> list[str]:
    """Return a line if the run was interrupted: what is not run, and the command to continue."""
    waiting = results.waiting
    if waiting.is_empty():
        return []
    names = listing(map(isolated, waiting["model"].unique(maintain_order=True)))
    verb = "is" if len(waiting) == 1 else "are"
    return [
        f"{len(waiting)} of {len(results.cells)} repeats {verb} not run yet ({names}): "
        f"{command_of(results)} continues the run."
    ]


def rating_warnings(results: Results) -> list[str]:
    """Return a line if events with low ratings count as positive."""
    note = results.manifest.get("data", {}).get("low_ratings")
    return [note] if note else []


def _repeat_counts(manifest: Mapping[str, Any]) -> tuple[int, int]:
    """Return (test events whose user and item are a training pair, test events), over all folds."""
    rows = [row for fold in manifest.get("leakage", []) for row in fold["figures"]]
    counts = [
        row["count"]
        for row in rows
        if (row["before"], row["after"], row["figure"]) == ("train", "test", "same_pair")
    ]
    return sum(counts), sum(fold["test"] for fold in manifest.get("split", {}).get("folds", []))
