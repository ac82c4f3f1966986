"""Models side by side under one protocol: how good, how sure, and who is really better.

What is tested are the units of the protocol. The seeds of a fold rank for the very same units, so
a unit's values are averaged over seeds first: they would otherwise count as independent evidence,
and any difference would become significant with enough seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl

from fmpair.config.experiment import TESTS, Comparison
from fmpair.errors import DataError, OptionError, unknown
from fmpair.evaluation.statistics import (
    bootstrap,
    effect_size,
    holm,
    randomisation_test,
    spread,
    t_test,
    wilcoxon,
)
from fmpair.experiment.direction import sign
from fmpair.experiment.results import Results
from fmpair.metrics.metric import ERRORS, LISTS

LEVELS = 100  # that a metric with countless values, such as auc, is gathered into
SCHEMA = {
    "model": pl.String, "metric": pl.String, "mean": pl.Float64, "sd": pl.Float64,
    "repeats": pl.Int64, "units": pl.Int64, "low": pl.Float64, "high": pl.Float64,
    "baseline": pl.String, "difference": pl.Float64, "relative": pl.Float64,
    "p": pl.Float64, "effect": pl.Float64, "p_best": pl.Float64,
    "best": pl.Boolean, "near_best": pl.Boolean, "mark": pl.String,
    "corrected": pl.Float64, "coverage": pl.Float64,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Table:
    """What came out under one protocol, one row per model and metric.

    rows: mean and sd (n - 1) over the repeats (folds and seeds); low, high: 95 % bootstrap interval
    over units; difference, relative (to the baseline's mean), p (Holm) and effect (Cohen's d)
    against the row's baseline; p_best: p (Holm) against the best model; best; near_best: not
    significantly different from the best; mark: + significantly better than the baseline,
    - worse, else empty. Where no test was possible its columns are null.
    """

    label: str
    protocol: str
    metric: str
    metrics: tuple[str, ...]
    test: str
    level: float
    rows: pl.DataFrame

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
    rows: list[dict[str, Any]] = []
    for metric in metrics:
        part = values.filter(pl.col("metric") == metric)
        rows += _rows(_Contest(metric, models, part, units), chosen)
    return Table(
        label, protocol.id, main if main in metrics else next(iter(metrics), main),
        tuple(metrics), chosen.test, chosen.level, pl.DataFrame(rows, schema=SCHEMA),
    )  # fmt: skip


def by_unit(units: pl.DataFrame, metrics: Sequence[str]) -> dict[str, pl.DataFrame]:
    """By model (fold, unit, one column per metric): each unit's mean over the seeds."""
    kept = [name for name in metrics if name in units.columns]
    means = units.group_by("model", "fold", "unit").agg(pl.col(kept).mean()).sort("fold", "unit")
    return {
        str(model): part for (model,), part in means.partition_by("model", as_dict=True).items()
    }


def lower_is_better(metric: str) -> bool:
    return sign(metric.partition("[")[0]) < 0


def has_a_winner(metric: str) -> bool:
    """Whether more or less of it is better; coverage, novelty and their kin only describe."""
    return not metric.startswith(LISTS)


@dataclass(frozen=True, eq=False)
class _Contest:
    """One metric: its values per cell, and per unit where there are any."""

    metric: str
    models: list[str]
    values: pl.DataFrame
    units: Mapping[str, pl.DataFrame]  # by model

    def repeats(self, model: str) -> np.ndarray:
        return self.values.filter(pl.col("model") == model)["value"].drop_nulls().to_numpy()

    def unit_values(self, model: str) -> pl.DataFrame:
        """(fold, unit, value) of a model, without units that have no value."""
        part = self.units.get(model)
        if part is None or self.metric not in part.columns:
            return pl.DataFrame(schema={"fold": pl.Int64, "unit": pl.Int64, "value": pl.Float64})
        return part.select("fold", "unit", value=self.metric).drop_nulls().fill_nan(None)

    def mean(self, model: str) -> float:
        found = self.repeats(model)
        return float(found.mean()) if len(found) else float("nan")

    def best(self) -> str:
        way = 1 if lower_is_better(self.metric) else -1
        return min(self.models, key=lambda model: np.nan_to_num(way * self.mean(model), nan=np.inf))

    def pair(self, model: str, other: str) -> tuple[np.ndarray, np.ndarray]:
        """Values of the units of the folds that both have."""
        first, second = self.unit_values(model), self.unit_values(other)
        if first.select("fold", "unit").equals(second.select("fold", "unit")):
            return first["value"].to_numpy(), second["value"].to_numpy()
        folds = set(first["fold"]) & set(second["fold"])
        first = first.filter(pl.col("fold").is_in(folds))
        second = second.filter(pl.col("fold").is_in(folds))
        both = first.join(second, on=["fold", "unit"], suffix="_other", maintain_order="left")
        if not self.metric.startswith(ERRORS) and not len(both) == len(first) == len(second):
            raise DataError(f"{model} and {other} were not judged on the same units")
        return both["value"].to_numpy(), both["value_other"].to_numpy()

    def difference(self, model: str, other: str) -> float | None:
        """Mean over the folds that both have, each the mean of its seeds."""
        by_fold = self.values.group_by("model", "fold").agg(pl.col("value").mean())
        first, second = (by_fold.filter(pl.col("model") == name) for name in (model, other))
        both = first.join(second, on="fold", suffix="_other")
        found = (both["value"] - both["value_other"]).mean()
        return float(found) if isinstance(found, float) else None


def _rows(contest: _Contest, chosen: Comparison) -> list[dict[str, Any]]:
    """One row per model."""
    if not contest.models:
        return []
    best = contest.best() if has_a_winner(contest.metric) else None
    named = chosen.baseline if chosen.baseline in contest.models else None
    baseline = named or best
    p = _p_values(contest, {name for name in (best, baseline) if name}, chosen.test)
    return [
        _measured(contest, model)
        | _against(contest, model, baseline, p, chosen.level)
        | _beside(contest, model, best, p, chosen.level)
        for model in contest.models
    ]


def _p_values(contest: _Contest, references: set[str], test: str) -> Mapping[frozenset[str], float]:
    """{pair: p}, corrected by Holm over all pairs of the metric: each model with each reference."""
    if not has_a_winner(contest.metric):
        return {}
    found: dict[frozenset[str], float] = {}
    for reference in sorted(references):
        for model in contest.models:
            pair = frozenset((model, reference))
            if len(pair) == 2 and pair not in found:
                first, second = contest.pair(*sorted(pair))
                if len(first) > 1:
                    found[pair] = _tested(first, second, test)
    return dict(zip(found, holm(list(found.values())).tolist()))


def _tested(first: np.ndarray, second: np.ndarray, test: str) -> float:
    if test == "t":
        return t_test(first, second)
    if test == "wilcoxon":
        return wilcoxon(first, second)
    difference = first - second
    # Signs are what is flipped: sizes alone are gathered.
    difference = np.sign(difference) * _gathered(np.abs(difference))
    return randomisation_test(difference, np.zeros(len(difference)))


def _gathered(values: np.ndarray) -> np.ndarray:
    """The values, near ones replaced by their mean where there are countless different ones.

    A resample costs as much as there are different values. The mean of all stays exactly what it
    is, and of their variance no more is lost than that inside a hundredth of their range.
    """
    if len(np.unique(values)) <= LEVELS:
        return values
    low, width = values.min(), np.ptp(values) / LEVELS
    level = np.minimum((values - low) / width, LEVELS - 1).astype(np.int64)
    means = np.bincount(level, values) / np.maximum(np.bincount(level), 1)
    return means[level]


def _measured(contest: _Contest, model: str) -> dict[str, Any]:
    cells = contest.values.filter(pl.col("model") == model)
    repeats = contest.repeats(model)
    mean, sd = spread(repeats) if len(repeats) else (float("nan"), float("nan"))
    units = contest.unit_values(model)["value"].drop_nulls().to_numpy()
    low, high = bootstrap(_gathered(units)) if len(units) else (None, None)
    if low is not None and high is not None and contest.metric.startswith("rmse"):
        low, high = low**0.5, high**0.5  # the units of rmse are squared errors
    return {
        "model": model, "metric": contest.metric, "mean": mean,
        "sd": sd if len(repeats) > 1 else None, "repeats": len(repeats), "units": len(units),
        "low": low, "high": high,
        "corrected": cells["corrected"].mean(), "coverage": cells["coverage"].mean(),
    }  # fmt: skip


def _against(
    contest: _Contest, model: str, baseline: str | None,
    p: Mapping[frozenset[str], float], level: float,
) -> dict[str, Any]:  # fmt: skip
    """The columns about the baseline."""
    empty = {"baseline": baseline, "difference": None, "relative": None, "p": None,
             "effect": None, "mark": ""}  # fmt: skip
    if baseline is None or model == baseline:
        return empty
    difference = contest.difference(model, baseline)
    base = contest.mean(baseline)
    pair = frozenset((model, baseline))
    mark = ""
    if difference and pair in p and p[pair] < level:
        mark = "+" if (difference > 0) != lower_is_better(contest.metric) else "-"
    return empty | {
        "difference": difference,
        "relative": difference / abs(base) if difference is not None and base else None,
        "p": p.get(pair),
        "effect": effect_size(*contest.pair(model, baseline)) if pair in p else None,
        "mark": mark,
    }


def _beside(
    contest: _Contest, model: str, best: str | None,
    p: Mapping[frozenset[str], float], level: float,
) -> dict[str, Any]:  # fmt: skip
    """The columns about the best model."""
    found = p.get(frozenset((model, best or model)))
    near = found is not None and model != best and found >= level
    return {"p_best": found, "best": model == best, "near_best": near}
