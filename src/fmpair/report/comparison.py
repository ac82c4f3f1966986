"""Models side by side under one protocol: means, intervals, significance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import polars as pl

from fmpair.config.experiment import TESTS, Ablation, Comparison
from fmpair.errors import OptionError, unknown
from fmpair.evaluation.statistics import bootstrap_interval, spread
from fmpair.experiment.results import Results
from fmpair.report.significance import (
    Pair,
    PairedScores,
    by_unit,
    has_a_winner,
    lower_is_better,
    mark,
    p_values,
    shown,
)

# The effect of each field of a model: with and without it, and the test between them.


ALL = "all fields"
VERDICTS = {"+": "helps", "-": "hurts", "=": "no difference", "": "undecided"}
ABLATION_SCHEMA = {
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
    return pl.DataFrame([every, *rows], ABLATION_SCHEMA).fill_nan(None)


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


SCHEMA = {
    "model": pl.String,
    "metric": pl.String,
    "mean": pl.Float64,
    "sd": pl.Float64,
    "repeats": pl.Int64,
    "units": pl.Int64,
    "users": pl.Int64,
    "low": pl.Float64,
    "high": pl.Float64,
    "baseline": pl.String,
    "difference": pl.Float64,
    "relative": pl.Float64,
    "p": pl.Float64,
    "effect": pl.Float64,
    "detectable": pl.Float64,
    "same": pl.Boolean,
    "p_best": pl.Float64,
    "best": pl.Boolean,
    "near_best": pl.Boolean,
    "mark": pl.String,
    "corrected": pl.Float64,
    "coverage": pl.Float64,
}


@dataclass(frozen=True, eq=False)
class Table:
    """The results under one protocol, one row per model and metric.

    rows: mean and sd (n - 1) over the repeats (folds and seeds); low, high: 95 % bootstrap interval
    over users; difference, relative (to the baseline's mean), p (Holm) and effect (Cohen's d)
    against the row's baseline; detectable: the least true difference that the test, before Holm,
    would find in four of five experiments like this; same: shown to be within the margin of the
    baseline; p_best: p (Holm) against the best model; best; near_best: not significantly different
    from the best; mark: + significantly better than the baseline, - worse, = same, else empty.
    Where no test was possible its columns are null.
    margin: share of the baseline's mean; folds, seeds: how many of each there are.
    fields: by model with an ablation the effect of each field on `metric`, see `field_effects`.
    """

    label: str
    protocol: str
    metric: str
    metrics: tuple[str, ...]
    test: str
    level: float
    rows: pl.DataFrame
    fields: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    margin: float = 0.01
    folds: int = 1
    seeds: int = 1

    def of(self, metric: str) -> list[dict[str, Any]]:
        """The rows of one metric, as they stand."""
        return self.rows.filter(pl.col("metric") == metric).to_dicts()


# Resampling takes its time, and the terminal wants the same tables as the page.
_made: WeakKeyDictionary[Results, dict[str, Table]] = WeakKeyDictionary()


def comparison(results: Results, label: str) -> Table:
    """The table of one protocol, by its label in the experiment; made once."""
    known = _made.setdefault(results, {})
    if label not in known:
        known[label] = _compared(results, label)
    return known[label]


def _compared(results: Results, label: str) -> Table:
    experiment = results.experiment
    if label not in experiment.protocols:
        raise OptionError(unknown("protocol", label, experiment.protocols))
    chosen = experiment.compare
    if chosen.test not in TESTS:
        raise OptionError(unknown("test", chosen.test, TESTS))
    values = results.values.filter(pl.col("protocol") == label)
    found = values["metric"].unique(maintain_order=True).to_list()
    protocol = experiment.protocols[label]
    wanted = [protocol.name(metric) for metric in experiment.metrics]
    metrics = [name for name in wanted if name in found]
    main = protocol.name(chosen.metric or experiment.metrics[0])
    units = by_unit(results.units[label], metrics) if label in results.units else {}
    models = [m.name for m in experiment.models if m.name in set(values["model"])]
    by_metric = {
        metric: PairedScores(metric, models, values.filter(pl.col("metric") == metric), units)
        for metric in metrics
    }
    main = main if main in metrics else next(iter(metrics), main)
    rows = [row for scores in by_metric.values() for row in _rows(scores, chosen)]
    asked = experiment.ablations if main in by_metric else ()
    return Table(
        label,
        protocol.id,
        main,
        tuple(metrics),
        chosen.test,
        chosen.level,
        pl.DataFrame(rows, schema=SCHEMA),
        {ablation.model: field_effects(by_metric[main], ablation, chosen) for ablation in asked},
        chosen.margin,
        values["fold"].n_unique(),
        values["seed"].n_unique(),
    )


def _rows(scores: PairedScores, chosen: Comparison) -> list[dict[str, Any]]:
    """One row per model."""
    if not scores.models:
        return []
    best = scores.best() if has_a_winner(scores.metric) else None
    named = chosen.baseline if chosen.baseline in scores.models else None
    baseline = named or best
    references = sorted({name for name in (best, baseline) if name})
    pairs = [frozenset((model, one)) for one in references for model in scores.models]
    p = p_values(scores, pairs, chosen.test)
    return [
        _measured(scores, model)
        | _against(scores, model, baseline, p, chosen)
        | _beside(scores, model, best, p, chosen.level)
        for model in scores.models
    ]


def _measured(scores: PairedScores, model: str) -> dict[str, Any]:
    cells = scores.values.filter(pl.col("model") == model)
    repeats = scores.repeats(model)
    mean, sd = spread(repeats) if len(repeats) else (float("nan"), float("nan"))
    found = scores.gathered(model)
    low, high = bootstrap_interval(found) if found else (None, None)
    if low is not None and high is not None and scores.metric.startswith("rmse"):
        low, high = low**0.5, high**0.5  # the units of rmse are squared errors
    return {
        "model": model,
        "metric": scores.metric,
        "mean": mean,
        "sd": sd if len(repeats) > 1 else None,
        "repeats": len(repeats),
        "units": int(found.size.sum()) if found else 0,
        "users": len(found.total) if found else 0,
        "low": low,
        "high": high,
        "corrected": cells["corrected"].mean(),
        "coverage": cells["coverage"].mean(),
    }


def _against(
    scores: PairedScores,
    model: str,
    baseline: str | None,
    p: Mapping[Pair, float],
    chosen: Comparison,
) -> dict[str, Any]:
    """The columns about the baseline."""
    empty = {"baseline": baseline, "difference": None, "relative": None, "p": None, "mark": ""}
    empty |= {"effect": None, "detectable": None, "same": None}
    if baseline is None or model == baseline:
        return empty
    difference = scores.difference(model, baseline)
    base = scores.mean(baseline)
    found = p.get(frozenset((model, baseline)))
    level, margin = chosen.level, chosen.margin
    told = shown(scores, model, baseline, level, margin) if found is not None else {}
    return empty | {
        "difference": difference,
        "relative": difference / abs(base) if difference is not None and base else None,
        "p": found,
        "mark": mark(scores, difference, found, level, told.get("same", False)),
        **told,
    }


def _beside(
    scores: PairedScores,
    model: str,
    best: str | None,
    p: Mapping[Pair, float],
    level: float,
) -> dict[str, Any]:
    """The columns about the best model."""
    found = p.get(frozenset((model, best or model)))
    near = found is not None and model != best and found >= level
    return {"p_best": found, "best": model == best, "near_best": near}
