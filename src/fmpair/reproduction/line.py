"""Linear fits of measured times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from fmpair.config.experiment import Candidate
from fmpair.reproduction.summary import Summary


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
