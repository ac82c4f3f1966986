"""Test whether two models differ in one metric, over users.

`PairedScores` holds the values of all models for one metric under one protocol. Values of a unit
are averaged over seeds and differences are summed by user, because the lists of one user are not
independent. The variance between folds and seeds is added. If each model was fitted once, the test
is about these two fitted models; only several seeds show whether the recipes differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from fmpair.config.experiment import Comparison
from fmpair.errors import DataError
from fmpair.evaluation.clusters import Clusters, VarianceComponent, variance_between
from fmpair.evaluation.statistics import (
    cohens_d,
    detectable_difference,
    detectable_with_seeds,
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
    """By model a frame (fold, unit, user, item, one column per metric) of means over seeds."""
    if units.is_empty():
        return {}
    present = [name for name in metrics if name in units.columns]
    means = (
        units.group_by("model", "fold", "unit", maintain_order=True)
        .agg(pl.col("user", "item").first(), pl.col(present).mean())
        .sort("fold", "unit", maintain_order=True)
    )
    return {
        str(model): part for (model,), part in means.partition_by("model", as_dict=True).items()
    }


def lower_is_better(metric: str) -> bool:
    return sign(metric.partition("[")[0]) < 0


def has_a_winner(metric: str) -> bool:
    """Whether a metric can be better or worse; coverage, novelty and others only describe."""
    return not metric.startswith(LISTS)


@dataclass(frozen=True, eq=False)
class PairedScores:
    """One metric of all models. values: per cell; units: per unit, by model."""

    metric: str
    models: list[str]
    values: pl.DataFrame
    units: Mapping[str, pl.DataFrame]

    def repeats(self, model: str) -> np.ndarray:
        return self.values.filter(pl.col("model") == model)["value"].drop_nulls().to_numpy()

    def unit_values(self, model: str) -> pl.DataFrame:
        """(fold, unit, user, item, value) of a model, without units that have no value."""
        part = self.units.get(model)
        if part is None or self.metric not in part.columns:
            return pl.DataFrame(schema=UNITS)
        values = part.select("fold", "unit", "user", "item", value=self.metric)
        return values.drop_nulls("value").fill_nan(None)

    def mean(self, model: str) -> float:
        repeats = self.repeats(model)
        return float(repeats.mean()) if len(repeats) else float("nan")

    def best(self) -> str:
        way = 1 if lower_is_better(self.metric) else -1
        return min(self.models, key=lambda model: np.nan_to_num(way * self.mean(model), nan=np.inf))

    def by_user(self, model: str) -> Clusters | None:
        """The model's values by user, None if no unit has a value."""
        values = self.unit_values(model).drop_nulls("value")
        if values.is_empty():
            return None
        return Clusters(*_sums(values, "user"), self._between_fits(model))

    def differences_by_user(self, model: str, other: str) -> Clusters | None:
        """Differences by user, over the units of the folds that both models have."""
        both = self._differences(model, other)
        if both.is_empty():
            return None
        return Clusters(*_sums(both, "user"), self._between_fits(model, other))

    def _differences(self, model: str, other: str) -> pl.DataFrame:
        """(fold, unit, user, item, value, ...) of the units that both models have."""
        first, second = self.unit_values(model), self.unit_values(other)
        if not first.select("fold", "unit").equals(second.select("fold", "unit")):
            folds = set(first["fold"]) & set(second["fold"])
            first = first.filter(pl.col("fold").is_in(folds))
            second = second.filter(pl.col("fold").is_in(folds))
        both = first.join(second, on=["fold", "unit"], suffix="_other", maintain_order="left")
        if not self.metric.startswith(ERRORS) and not len(both) == len(first) == len(second):
            raise DataError(f"{model} and {other} were not evaluated on the same units")
        return both.with_columns(value=pl.col("value") - pl.col("value_other")).drop_nulls("value")

    def with_seeds(self, model: str, other: str, level: float) -> float | None:
        """The difference of the recipes that three seeds of each would show, at most.

        None if there are several fits already, or units have several relevant items.
        """
        clusters, both = self.differences_by_user(model, other), self._differences(model, other)
        if clusters is None or clusters.further or both["item"].null_count():
            return None
        return detectable_with_seeds(clusters, variance_between(*_sums(both, "item")), level)

    def difference(self, model: str, other: str) -> float | None:
        """Mean difference over the folds that both models have, seeds averaged first."""
        by_fold = self.values.group_by("model", "fold", maintain_order=True)
        means = by_fold.agg(pl.col("value").mean())
        first, second = (means.filter(pl.col("model") == name) for name in (model, other))
        both = first.join(second, on="fold", suffix="_other", maintain_order="left")
        mean = (both["value"] - both["value_other"]).mean()
        return float(mean) if isinstance(mean, float) else None

    def _between_fits(self, *models: str) -> tuple[VarianceComponent, ...]:
        """Variance of a model's mean, or of two models' difference, due to folds and seeds.

        A nested analysis of variance: the larger of the variance between folds, which includes
        seeds, and the variance between seeds within folds. Folds count as independent, though
        their training sets overlap.
        """
        spreads = [self._by_fold.filter(pl.col("model") == model) for model in models]
        folds = sorted(set.intersection(*(set(spread["fold"]) for spread in spreads)))
        spreads = [spread.filter(pl.col("fold").is_in(folds)) for spread in spreads]
        seeds = [_between_seeds(spread) for spread in spreads if (spread["seeds"] > 1).any()]
        if len(folds) < 2:
            return tuple(seeds)
        sides = [spread.sort("fold")["mean"].to_numpy() for spread in spreads]
        apart = sides[0] - sides[1] if len(sides) == 2 else sides[0]
        between = VarianceComponent(float(apart.var(ddof=1)) / len(folds), len(folds) - 1)
        return (between,) if between.variance >= sum(s.variance for s in seeds) else tuple(seeds)

    @cached_property
    def _by_fold(self) -> pl.DataFrame:
        """(model, fold, mean, variance, seeds) of the values, squared for rmse as the units are."""
        value = pl.col("value") ** 2 if self.metric.startswith("rmse") else pl.col("value")
        return (
            self.values.drop_nulls("value")
            .group_by("model", "fold", maintain_order=True)
            .agg(mean=value.mean(), variance=value.var(), seeds=pl.len())
        )


def p_values(scores: PairedScores, pairs: Iterable[Pair], test: str) -> dict[Pair, float]:
    """p-values of all pairs that can be tested, Holm-corrected over all of them."""
    if not has_a_winner(scores.metric):
        return {}
    p: dict[Pair, float] = {}
    for pair in pairs:
        if len(pair) == 2 and pair not in p:
            differences = scores.differences_by_user(*sorted(pair))
            if differences is not None and len(differences.total) > 1:
                p[pair] = TESTS[test](differences)
    return dict(zip(p, holm(list(p.values())).tolist()))


def tested(
    scores: PairedScores, model: str, other: str, p: Mapping[Pair, float], options: Comparison
) -> dict[str, Any]:
    """Compare a model with another: difference, relative, p, effect, detectable, same, mark.

    detectable: the smallest true difference that the test would find; with_seeds: that three seeds
    of each would find, if there is one. same: shown to be within the margin, a share of the other's
    mean. mark: + significantly better, - worse, = same, else empty.
    """
    difference, base = scores.difference(model, other), scores.mean(other)
    row: dict[str, Any] = {
        "difference": difference,
        "relative": difference / abs(base) if difference is not None and base else None,
        "p": p.get(frozenset((model, other))),
        "effect": None,
        "detectable": None,
        "with_seeds": None,
        "same": None,
        "mark": "",
    }
    clusters = None if row["p"] is None else scores.differences_by_user(model, other)
    if clusters is None:
        return row
    base = abs(base)
    # Units of rmse are squared errors; d(x^2) = 2x dx converts between errors and their squares.
    slope = 2 * base if scores.metric.startswith("rmse") else 1.0
    row["effect"] = cohens_d(clusters)
    row["detectable"] = detectable_difference(clusters, options.level) / slope if slope else None
    seeded = scores.with_seeds(model, other, options.level)
    row["with_seeds"] = seeded / slope if seeded is not None and slope else None
    row["same"] = is_equivalent(clusters, options.margin * base * slope, options.level)
    if difference and row["p"] < options.level:
        row["mark"] = "+" if (difference > 0) != lower_is_better(scores.metric) else "-"
    elif row["same"]:
        row["mark"] = "="
    return row


def _between_seeds(spread: pl.DataFrame) -> VarianceComponent:
    """Variance of a model's mean over folds due to the seeds within each fold."""
    several = spread.filter(pl.col("seeds") > 1)
    share = (several["variance"] / several["seeds"]).mean()
    variance = float(share) / len(spread) if isinstance(share, float) else 0.0
    return VarianceComponent(variance, float((several["seeds"] - 1).sum()))


def _sums(units: pl.DataFrame, by: str) -> tuple[np.ndarray, np.ndarray]:
    """(sum of the values, number of units) of each user or item."""
    sums = units.group_by(by, maintain_order=True).agg(pl.col("value").sum(), size=pl.len())
    return sums["value"].to_numpy(), sums["size"].to_numpy().astype(np.float64)
