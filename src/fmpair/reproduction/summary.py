"""What is kept of a run: its tables, times and curves, without single units."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from fmpair.config.experiment import Candidate, Experiment
from fmpair.experiment.results import Results
from fmpair.report.comparison import Table, comparison
from fmpair.report.table import figure, p_claim, percent
from fmpair.reproduction.paper import RECALL


@dataclass(frozen=True, eq=False)
class Summary:
    """tables: a comparison per protocol, the main one first; the rest as in Results."""

    experiment: Experiment
    tables: Mapping[str, Table]
    cells: pl.DataFrame
    curves: pl.DataFrame
    manifest: Mapping[str, Any]

    @property
    def models(self) -> list[str]:
        return [model.name for model in self.experiment.models]

    def row(self, model: str, metric: str, label: str | None = None) -> dict[str, Any] | None:
        """The row of a table that a model has; label: of the protocol, by default the main one."""
        chosen = label or next(iter(self.tables))
        if chosen not in self.tables:
            return None
        name = self.experiment.protocols[chosen].name(metric)
        return next((r for r in self.tables[chosen].of(name) if r["model"] == model), None)

    def epoch_seconds(self) -> pl.DataFrame:
        """(model, fold, seed, seconds): the fastest epoch of each fit.

        Whatever else a machine does only adds. The first epoch is left out: what must be compiled
        is compiled there.
        """
        keys = ["model", "fold", "seed"]
        each = self.curves.filter(pl.col("metric").is_null()).sort(*keys, "epoch")
        each = each.with_columns(pl.col("seconds").diff().over(keys).alias("seconds"))
        return each.group_by(keys, maintain_order=True).agg(pl.col("seconds").min())


def summary(results: Results) -> Summary:
    """The tables of a run, with their tests."""
    tables = {label: comparison(results, label) for label in results.experiment.protocols}
    return Summary(results.experiment, tables, results.cells, results.curves, results.manifest)


# Linear fits of measured times.


@dataclass(frozen=True, eq=False)
class Line:
    """Seconds of an epoch: points (x, mean, sd over repeats), and the line through them."""

    points: pl.DataFrame
    slope: float
    start: float
    r2: float

    @property
    def shortest(self) -> float:
        """Seconds of the fastest point."""
        return float(self.points["mean"].to_numpy().min())


def factors(model: Candidate) -> int:
    return int(model.options["factors"])


def contexts(model: Candidate) -> int:
    return len(model.context or ())


def line(found: Summary, x_of: Callable[[Candidate], int]) -> Line:
    """Least squares through the means over repeats."""
    places = {model.name: x_of(model) for model in found.experiment.models}
    times = found.epoch_seconds().with_columns(
        x=pl.col("model").replace_strict(places, return_dtype=pl.Int64)
    )
    points = (
        times.group_by("x").agg(mean=pl.col("seconds").mean(), sd=pl.col("seconds").std()).sort("x")
    )
    x, y = points["x"].to_numpy().astype(float), points["mean"].to_numpy()
    slope, start = np.polyfit(x, y, 1)
    left = float(((y - start - slope * x) ** 2).sum())
    whole = float(((y - y.mean()) ** 2).sum())
    return Line(points, float(slope), float(start), 1 - left / whole if whole else 1.0)


# One model against the baseline of its table: two means, and what the test says of them.


LEVEL = 0.05
EFFECT = 0.01  # the least difference, as a share of the baseline, that counts as one
SEEDS = 6  # the fewest of either model that may decide

Outcome = Literal["better", "worse", "level", "undecided", "the same model"]


@dataclass(frozen=True)
class Difference:
    """Means of Recall@10 of a model and of the baseline; p: over users and fits, after Holm.

    level: shown to be within a hundredth of each other. detectable: the least difference that would
    have shown. seeds: of the model that has fewer.
    """

    other: float
    base: float
    p: float | None
    level: bool = False
    detectable: float | None = None
    seeds: int = 1

    @property
    def relative(self) -> float:
        return (self.other - self.base) / self.base if self.base else 0.0

    @property
    def other_better(self) -> bool:
        """Whether the model is better than the baseline, significantly and by enough."""
        return self._apart and self.relative >= EFFECT

    @property
    def base_better(self) -> bool:
        return self._apart and -self.relative >= EFFECT

    @property
    def _apart(self) -> bool:
        return self.p is not None and self.p < LEVEL

    @property
    def outcome(self) -> Outcome:
        """Of the model beside the baseline, by the one rule of all claims."""
        if self.other == self.base and self.p in (None, 1.0):  # to the last digit
            return "the same model"
        if self.other_better:
            return "better"
        if self.base_better:
            return "worse"
        # A difference that is certain and smaller than what counts is none either.
        return "level" if self.level or self._apart else "undecided"


def difference(found: Summary | None, model: str, label: str | None = None) -> Difference | None:
    """The model and its table's baseline under a protocol; None where it was not run."""
    row = None if found is None else found.row(model, RECALL, label)
    if found is None or row is None or row["baseline"] is None:
        return None
    base = found.row(row["baseline"], RECALL, label)
    if base is None:
        return None
    folds = found.tables[label or next(iter(found.tables))].folds
    seeds = min(row["repeats"], base["repeats"]) // max(folds, 1)
    same, detectable = bool(row.get("same")), row.get("detectable")
    return Difference(row["mean"], base["mean"], row["p"], same, detectable, seeds)


def told(one: Difference) -> str:
    """`.2237 against .2266 (-1.3 %, p < .001): worse`: the model, the baseline, and how sure."""
    if one.outcome == "the same model":
        return f"{figure(one.other)}, the same model"
    sign = "+" if one.relative > 0 else ""
    least = one.detectable
    unseen = f", detectable {percent(least / one.base)}" if least is not None and one.base else ""
    unseen = unseen if one.outcome == "undecided" else ""
    numbers = f"{figure(one.other)} against {figure(one.base)}"
    return f"{numbers} ({sign}{percent(one.relative)}, {p_claim(one.p)}{unseen}): {one.outcome}"


def factor(found: Summary, model: str, other: str) -> float:
    """How many times as long the one's epochs take as the other's."""
    times = found.epoch_seconds().group_by("model").agg(pl.col("seconds").mean())
    seconds = dict(times.rows())
    return seconds[model] / seconds[other]
