"""The effect of each field of a model: with and without it, and the test between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from fmpair.config.experiment import Ablation, Comparison
from fmpair.report.significance import (
    Pair,
    PairedScores,
    lower_is_better,
    mark,
    p_values,
    shown,
)

ALL = "all fields"
VERDICTS = {"+": "helps", "-": "hurts", "=": "no difference", "": "undecided"}
SCHEMA = {
    "field": pl.String,
    "alone": pl.Float64,
    "without": pl.Float64,
    "difference": pl.Float64,
    "relative": pl.Float64,
    "p": pl.Float64,
    "detectable": pl.Float64,
    "verdict": pl.String,
    "gain": pl.Float64,
    "p_gain": pl.Float64,
    "mark": pl.String,
}


def field_effects(scores: PairedScores, ablation: Ablation, chosen: Comparison) -> pl.DataFrame:
    """One row for all fields together, then one per field, from the one that helps most down.

    alone: the metric with this field and no other; without: with all others. difference, relative
    (to without), p (Holm over all tests here), detectable (the least difference that would show)
    and verdict: what the field adds to the others; `no difference` was shown to be within the
    margin, `undecided` is neither. gain, p_gain and mark (+, - or =): what it adds to none, where
    that was asked.
    """
    full, none, only = ablation.model, ablation.none, ablation.only
    pairs = [frozenset((full, other)) for other in (none, *ablation.without.values())]
    pairs += [frozenset((none, other)) for other in only.values()]
    p = p_values(scores, pairs, chosen.test)
    rows = [
        {
            "field": field,
            **_alone(scores, only.get(field), none, p, chosen),
            **_added(scores, full, without, p, chosen),
        }
        for field, without in ablation.without.items()
    ]
    way = -1 if lower_is_better(scores.metric) else 1
    rows.sort(key=lambda row: (row["difference"] is None, -way * (row["difference"] or 0)))
    every = {
        "field": ALL,
        "alone": scores.mean(full),
        "mark": "",
        **_added(scores, full, none, p, chosen),
    }
    return pl.DataFrame([every, *rows], SCHEMA).fill_nan(None)


def _added(
    scores: PairedScores, full: str, without: str, p: Mapping[Pair, float], chosen: Comparison
) -> dict[str, Any]:
    """What the whole model has over the one without something."""
    difference, base = scores.difference(full, without), scores.mean(without)
    found = p.get(frozenset((full, without)))
    told = shown(scores, full, without, chosen.level, chosen.margin) if found is not None else {}
    sign = mark(scores, difference, found, chosen.level, told.get("same", False))
    return {
        "without": base,
        "difference": difference,
        "relative": difference / abs(base) if difference is not None and base else None,
        "p": found,
        "detectable": told.get("detectable"),
        "verdict": None if found is None else VERDICTS[sign],
    }


def _alone(
    scores: PairedScores, only: str | None, none: str, p: Mapping[Pair, float], chosen: Comparison
) -> dict[str, Any]:
    """What a field on its own has over none."""
    if only is None:
        return {"alone": None, "gain": None, "p_gain": None, "mark": ""}
    gain, found = scores.difference(only, none), p.get(frozenset((only, none)))
    told = shown(scores, only, none, chosen.level, chosen.margin) if found is not None else {}
    return {
        "alone": scores.mean(only),
        "gain": gain,
        "p_gain": found,
        "mark": mark(scores, gain, found, chosen.level, told.get("same", False)),
    }
