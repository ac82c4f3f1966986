"""Summaries of a run: comparisons, epoch times, linear fits, differences to the baseline."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from fmpair.config.experiment import Candidate, Experiment
from fmpair.evaluation.clusters import t_quantile
from fmpair.experiment.folder import Results
from fmpair.report.model_comparison import ModelComparison, comparison
from fmpair.report.table import figure, p_claim, percent, signed_percent

RECALL = "recall@10"  # the metric of all decisions
LEVEL = 0.05
EFFECT = 0.01  # the smallest relative difference that counts as one
SEEDS = 6  # seeds of each model that a decision needs

Outcome = Literal["better", "worse", "equivalent", "undecided", "the same model"]


@dataclass(frozen=True, eq=False)
class Summary:
    """comparisons: one per protocol, the main protocol first; the rest as in Results."""

    experiment: Experiment
    comparisons: Mapping[str, ModelComparison]
    cells: pl.DataFrame
    curves: pl.DataFrame
    manifest: Mapping[str, Any]

    @property
    def models(self) -> list[str]:
        return [model.name for model in self.experiment.models]

    def row(self, model: str, metric: str, label: str | None = None) -> dict[str, Any] | None:
        """The row of a model; label: of the protocol, by default the main one."""
        label = label or next(iter(self.comparisons))
        if label not in self.comparisons:
            return None
        rows = self.comparisons[label].of(self.experiment.protocols[label].name(metric))
        return next((row for row in rows if row["model"] == model), None)

    def epoch_seconds(self) -> pl.DataFrame:
        """(model, fold, seed, seconds): the fastest epoch of each fit.

        Other load on the machine only adds time. The first epoch, which compiles, is left out.
        """
        keys = ["model", "fold", "seed"]
        epochs = self.curves.filter(pl.col("metric").is_null()).sort(*keys, "epoch")
        epochs = epochs.with_columns(pl.col("seconds").diff().over(keys).alias("seconds"))
        return epochs.group_by(keys, maintain_order=True).agg(pl.col("seconds").min())

    def epoch_time_ratio(self, model: str, other: str) -> float:
        """The epoch time of a model as a multiple of another's."""
        times = self.epoch_seconds().group_by("model").agg(pl.col("seconds").mean())
        seconds = dict(times.rows())
        return seconds[model] / seconds[other]


def summary(results: Results) -> Summary:
    """Summarise a run, with its significance tests."""
    made = {label: comparison(results, label) for label in results.experiment.protocols}
    return Summary(results.experiment, made, results.cells, results.curves, results.manifest)


@dataclass(frozen=True, eq=False)
class LinearFit:
    """Seconds of an epoch: points (x, mean, sd over repeats) and the line through them.

    bend: how far a parabola through the points hangs below its chord in the middle, as a share of
    the time at its end; above 0 if the time grows faster than x, 1/4 for x squared. within: half
    the width of the bend's 95 % interval, NaN for fewer than four points.
    """

    points: pl.DataFrame
    slope: float
    intercept: float
    r2: float
    bend: float
    within: float

    @property
    def shortest(self) -> float:
        """Seconds of the fastest point."""
        return float(self.points["mean"].to_numpy().min())


def factors(model: Candidate) -> int:
    return int(model.options["factors"])


def contexts(model: Candidate) -> int:
    return len(model.context or ())


def linear_fit(run: Summary, x_of: Callable[[Candidate], int]) -> LinearFit:
    """Fit epoch times over x by least squares through the means over repeats."""
    x_values = {model.name: x_of(model) for model in run.experiment.models}
    times = run.epoch_seconds().with_columns(
        x=pl.col("model").replace_strict(x_values, return_dtype=pl.Int64)
    )
    points = (
        times.group_by("x").agg(mean=pl.col("seconds").mean(), sd=pl.col("seconds").std()).sort("x")
    )
    x, y = points["x"].to_numpy().astype(float), points["mean"].to_numpy()
    slope, intercept = np.polyfit(x, y, 1)
    residual = float(((y - intercept - slope * x) ** 2).sum())
    total = float(((y - y.mean()) ** 2).sum())
    r2 = 1 - residual / total if total else 1.0
    return LinearFit(points, float(slope), float(intercept), r2, *_bend(x, y))


def _bend(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the bend of a parabola through the points, and half the width of its interval."""
    if len(x) < 4:
        return math.nan, math.nan
    across = (x - x.min()) / np.ptp(x)  # from 0 to 1, where the chord is curve / 4 above the middle
    design = np.column_stack([across**2, across, np.ones(len(x))])
    inverse = np.linalg.inv(design.T @ design)
    curve, rise, start = inverse @ design.T @ y
    left = float(((y - design @ np.array([curve, rise, start])) ** 2).sum()) / (len(x) - 3)
    reach = t_quantile(0.05, len(x) - 3) * math.sqrt(left * inverse[0, 0])
    end = max(float(curve + rise + start), 1e-12)
    return float(curve) / 4 / end, reach / 4 / end


@dataclass(frozen=True)
class BaselineDifference:
    """Mean Recall@10 of a model and of the baseline; p: over users and fits, after Holm.

    equivalent: shown to be within one per cent of each other. detectable: the smallest difference
    that the test would find. seeds: of the model that has fewer.
    """

    model: float
    base: float
    p: float | None
    equivalent: bool = False
    detectable: float | None = None
    seeds: int = 1

    @property
    def relative(self) -> float:
        return (self.model - self.base) / self.base if self.base else 0.0

    @property
    def significant(self) -> bool:
        return self.p is not None and self.p < LEVEL

    @property
    def outcome(self) -> Outcome:
        """The model against the baseline, by the rule of all claims."""
        if self.model == self.base and self.p in (None, 1.0):  # equal to the last digit
            return "the same model"
        if self.significant and abs(self.relative) >= EFFECT:
            return "better" if self.relative > 0 else "worse"
        # A significant difference that is too small to matter counts as none.
        return "equivalent" if self.equivalent or self.significant else "undecided"

    def __str__(self) -> str:
        """`.2237 vs .2266 (-1.3 %, p < .001): worse`."""
        if self.outcome == "the same model":
            return f"{figure(self.model)}, the same model"
        test = p_claim(self.p)
        if self.outcome == "undecided" and self.detectable is not None and self.base:
            test += f", detectable {percent(self.detectable / self.base)}"
        means = f"{figure(self.model)} vs {figure(self.base)}"
        return f"{means} ({signed_percent(self.relative)}, {test}): {self.outcome}"


def baseline_difference(
    run: Summary | None, model: str, label: str | None = None
) -> BaselineDifference | None:
    """Compare a model with its baseline under a protocol; None if it was not run."""
    row = None if run is None else run.row(model, RECALL, label)
    if run is None or row is None or row["baseline"] is None:
        return None
    base = run.row(row["baseline"], RECALL, label)
    if base is None:
        return None
    folds = run.comparisons[label or next(iter(run.comparisons))].folds
    seeds = min(row["repeats"], base["repeats"]) // max(folds, 1)
    same, detectable = bool(row.get("same")), row.get("detectable")
    return BaselineDifference(row["mean"], base["mean"], row["p"], same, detectable, seeds)
