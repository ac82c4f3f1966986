"""The verdict: the result in a sentence."""

from __future__ import annotations

from typing import Any

from fmpair.report.comparison import Table
from fmpair.report.number import figure, interval, metric_title, p_claim, percent
from fmpair.report.significance import has_a_winner, lower_is_better

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
    value = f"{name} {figure(first['mean'])}"
    if not others:
        bounds = f" (95 % interval {interval(first['low'], first['high'])})"
        told = bounds if first["low"] is not None else ""
        return (
            f"{first['model']} reaches {value}{told}; there is no other model to compare it with."
        )
    if not has_a_winner(table.metric):
        return f"{name} only describes lists, so no model is best by it."
    near = [row for row in others if row["near_best"]]
    if near:
        return _draw(table, first, near, others)
    return f"{first['model']} is best: {value}, {_leads(table, first, others)}."


def _draw(table: Table, first: Any, near: list[Any], others: list[Any]) -> str:
    """Some are not significantly worse than the best."""
    end = "lowest" if lower_is_better(table.metric) else "highest"
    names = ", ".join(f"{row['model']} ({p_claim(row['p_best'])})" for row in near[:NAMED])
    if len(near) > NAMED:
        names += f" and {len(near) - NAMED} more"
    told = f"{first['model']} has the {end} {metric_title(table.metric)}, {figure(first['mean'])}, "
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
        told.append(f"{_ahead(table, first['mean'], row['mean'])} {row['model']}{sure}")
        correction = ""
    return " and ".join(told)


def _ahead(table: Table, ours: float, theirs: float) -> str:
    word = "below" if lower_is_better(table.metric) else "above"
    if theirs == 0:
        return f"{figure(abs(ours - theirs))} {word}"
    return f"{percent(abs(ours - theirs) / abs(theirs))} {word}"
