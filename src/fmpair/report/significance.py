"""One metric under one protocol: every model's values, and whether two differ significantly.

The tests are over the units of the protocol. All seeds of a fold rank for the same units, so
a unit's values are averaged over seeds first: they would otherwise look like independent evidence,
and any difference would become significant with enough seeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from fmpair.errors import DataError
from fmpair.evaluation.statistics import holm, randomisation_test, t_test, wilcoxon
from fmpair.experiment.direction import sign
from fmpair.metrics.metric import ERRORS, LISTS

LEVELS = 100  # that a metric with countless values, such as auc, is gathered into

Pair = frozenset[str]  # two models


def by_unit(units: pl.DataFrame, metrics: Sequence[str]) -> dict[str, pl.DataFrame]:
    """By model (fold, unit, one column per metric): each unit's mean over the seeds."""
    if units.is_empty():
        return {}
    kept = [name for name in metrics if name in units.columns]
    means = units.group_by("model", "fold", "unit").agg(pl.col(kept).mean()).sort("fold", "unit")
    return {
        str(model): part for (model,), part in means.partition_by("model", as_dict=True).items()
    }


def lower_is_better(metric: str) -> bool:
    return sign(metric.partition("[")[0]) < 0


def has_a_winner(metric: str) -> bool:
    """Whether more or less of it is better; coverage, novelty and the like only describe."""
    return not metric.startswith(LISTS)


@dataclass(frozen=True, eq=False)
class PairedScores:
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
            raise DataError(f"{model} and {other} were not evaluated on the same units")
        return both["value"].to_numpy(), both["value_other"].to_numpy()

    def difference(self, model: str, other: str) -> float | None:
        """Mean over the folds that both have, each the mean of its seeds."""
        by_fold = self.values.group_by("model", "fold").agg(pl.col("value").mean())
        first, second = (by_fold.filter(pl.col("model") == name) for name in (model, other))
        both = first.join(second, on="fold", suffix="_other")
        found = (both["value"] - both["value_other"]).mean()
        return float(found) if isinstance(found, float) else None


def p_values(scores: PairedScores, pairs: Iterable[Pair], test: str) -> dict[Pair, float]:
    """The p of every pair that can be tested, with Holm correction over all of them."""
    if not has_a_winner(scores.metric):
        return {}
    found: dict[Pair, float] = {}
    for pair in pairs:
        if len(pair) == 2 and pair not in found:
            first, second = scores.pair(*sorted(pair))
            if len(first) > 1:
                found[pair] = _tested(first, second, test)
    return dict(zip(found, holm(list(found.values())).tolist()))


def mark(scores: PairedScores, difference: float | None, p: float | None, level: float) -> str:
    """+ where a difference is significantly for the better, - for the worse, else empty."""
    if not difference or p is None or p >= level:
        return ""
    return "+" if (difference > 0) != lower_is_better(scores.metric) else "-"


def _tested(first: np.ndarray, second: np.ndarray, test: str) -> float:
    if test == "t":
        return t_test(first, second)
    if test == "wilcoxon":
        return wilcoxon(first, second)
    difference = first - second
    # Signs are what is flipped: sizes alone are gathered.
    difference = np.sign(difference) * gathered(np.abs(difference))
    return randomisation_test(difference, np.zeros(len(difference)))


def gathered(values: np.ndarray) -> np.ndarray:
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
