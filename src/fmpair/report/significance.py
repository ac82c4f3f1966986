"""One metric under one protocol: every model's values, and whether two differ significantly.

Lists of one user are no independent evidence, so users are what is tested and drawn: a unit's
values are averaged over seeds, its differences summed by user. What another fold or seed would
change is the second part of the variance; where there is one fit only, the variance between items
stands in for it (see `evaluation.clusters`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from fmpair.errors import DataError
from fmpair.evaluation.clusters import Clusters, VarianceComponent, variance_between
from fmpair.evaluation.statistics import (
    cohens_d,
    detectable_difference,
    holm,
    is_equivalent,
    randomisation_p,
    t_test_p,
    wilcoxon_p,
)
from fmpair.experiment.tuning import sign
from fmpair.metrics import ERRORS, LISTS

TESTS = {"randomisation": randomisation_p, "t": t_test_p, "wilcoxon": wilcoxon_p}
UNITS = {
    "fold": pl.Int64,
    "unit": pl.Int64,
    "user": pl.String,
    "item": pl.String,
    "value": pl.Float64,
}

Pair = frozenset[str]  # two models


def by_unit(units: pl.DataFrame, metrics: Sequence[str]) -> dict[str, pl.DataFrame]:
    """By model (fold, unit, user, item, one column per metric): each unit's mean over the seeds."""
    if units.is_empty():
        return {}
    kept = [name for name in metrics if name in units.columns]
    means = (
        units.group_by("model", "fold", "unit")
        .agg(pl.col("user", "item").first(), pl.col(kept).mean())
        .sort("fold", "unit")
    )
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
        """(fold, unit, user, item, value) of a model, without units that have no value."""
        part = self.units.get(model)
        if part is None or self.metric not in part.columns:
            return pl.DataFrame(schema=UNITS)
        found = part.select("fold", "unit", "user", "item", value=self.metric)
        return found.drop_nulls("value").fill_nan(None)

    def mean(self, model: str) -> float:
        found = self.repeats(model)
        return float(found.mean()) if len(found) else float("nan")

    def best(self) -> str:
        way = 1 if lower_is_better(self.metric) else -1
        return min(self.models, key=lambda model: np.nan_to_num(way * self.mean(model), nan=np.inf))

    def gathered(self, model: str) -> Clusters | None:
        """The model's values by user, None where no unit has one."""
        found = self.unit_values(model).drop_nulls("value")
        return _clusters(found, self._fits(model)) if len(found) else None

    def paired(self, model: str, other: str) -> Clusters | None:
        """Differences by user, over the units of the folds that both have."""
        first, second = self.unit_values(model), self.unit_values(other)
        if not first.select("fold", "unit").equals(second.select("fold", "unit")):
            folds = set(first["fold"]) & set(second["fold"])
            first = first.filter(pl.col("fold").is_in(folds))
            second = second.filter(pl.col("fold").is_in(folds))
        both = first.join(second, on=["fold", "unit"], suffix="_other", maintain_order="left")
        if not self.metric.startswith(ERRORS) and not len(both) == len(first) == len(second):
            raise DataError(f"{model} and {other} were not evaluated on the same units")
        both = both.with_columns(value=pl.col("value") - pl.col("value_other")).drop_nulls("value")
        if both.is_empty():
            return None
        further = self._fits(model, other)
        if not further and not both["item"].null_count():
            further = (variance_between(*_sums(both, "item")),)
        return _clusters(both, further)

    def _fits(self, *models: str) -> tuple[VarianceComponent, ...]:
        """What folds and seeds add to the variance of a model's mean, or of two models' difference.

        Either the variance between folds, which has that of seeds in it, or that between the seeds
        of a fold, whichever is larger: a nested analysis of variance. Folds count as independent,
        though their training sets overlap.
        """
        spreads = [self._by_fold.filter(pl.col("model") == model) for model in models]
        folds = sorted(set.intersection(*(set(one["fold"]) for one in spreads)))
        spreads = [one.filter(pl.col("fold").is_in(folds)) for one in spreads]
        seeds = [_between_seeds(one) for one in spreads if (one["seeds"] > 1).any()]
        if len(folds) < 2:
            return tuple(seeds)
        sides = [one.sort("fold")["mean"].to_numpy() for one in spreads]
        apart = sides[0] - sides[1] if len(sides) == 2 else sides[0]
        between = VarianceComponent(float(apart.var(ddof=1)) / len(folds), len(folds) - 1)
        return (between,) if between.variance >= sum(s.variance for s in seeds) else tuple(seeds)

    @cached_property
    def _by_fold(self) -> pl.DataFrame:
        """(model, fold, mean, variance, seeds) of the values, squared where units are squares."""
        value = pl.col("value") ** 2 if self.metric.startswith("rmse") else pl.col("value")
        return (
            self.values.drop_nulls("value")
            .group_by("model", "fold")
            .agg(mean=value.mean(), variance=value.var(), seeds=pl.len())
        )

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
            differences = scores.paired(*sorted(pair))
            if differences is not None and len(differences.total) > 1:
                found[pair] = TESTS[test](differences)
    return dict(zip(found, holm(list(found.values())).tolist()))


def shown(
    scores: PairedScores, model: str, other: str, level: float, margin: float
) -> dict[str, Any]:
    """effect; detectable: the least difference that would show; same: within the margin.

    margin: a share of the other's mean.
    """
    found = scores.paired(model, other)
    if found is None:
        return {}
    base = abs(scores.mean(other))
    # Units of rmse are squared errors: a small change of the root is that of the square over twice
    # the root.
    slope = 2 * base if scores.metric.startswith("rmse") else 1.0
    return {
        "effect": cohens_d(found),
        "detectable": detectable_difference(found, level) / slope if slope else None,
        "same": is_equivalent(found, margin * base * slope, level),
    }


def mark(
    scores: PairedScores, difference: float | None, p: float | None, level: float, same: bool
) -> str:
    """+ where a difference is significantly for the better, - for the worse; else = where it was
    shown to be within the margin (same), else empty."""
    if p is None:
        return ""
    if not difference or p >= level:
        return "=" if same else ""
    return "+" if (difference > 0) != lower_is_better(scores.metric) else "-"


def _between_seeds(spread: pl.DataFrame) -> VarianceComponent:
    """Of a model's mean over folds, the variance that its seeds within each fold show."""
    known = spread.filter(pl.col("seeds") > 1)
    share = (known["variance"] / known["seeds"]).mean()
    variance = float(share) / len(spread) if isinstance(share, float) else 0.0
    return VarianceComponent(variance, float((known["seeds"] - 1).sum()))


def _clusters(units: pl.DataFrame, further: tuple[VarianceComponent, ...]) -> Clusters:
    return Clusters(*_sums(units, "user"), further)


def _sums(units: pl.DataFrame, by: str) -> tuple[np.ndarray, np.ndarray]:
    """(sum of the values, number of units) of each user or item."""
    sums = units.group_by(by, maintain_order=True).agg(pl.col("value").sum(), size=pl.len())
    return sums["value"].to_numpy(), sums["size"].to_numpy().astype(np.float64)
