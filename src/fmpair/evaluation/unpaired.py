"""The difference between two groups of users, each of whom is in one of them only."""

from __future__ import annotations

import math
from typing import NamedTuple

from fmpair.evaluation.clusters import Clusters, Part, freedom_of
from fmpair.evaluation.distributions import t_quantile, t_two_sided

LEVEL = 0.95


class Difference(NamedTuple):
    """The mean of one group less that of the other, its interval, and a two-sided p."""

    mean: float
    low: float
    high: float
    p: float


def unpaired(a: Clusters, b: Clusters, level: float = LEVEL) -> Difference:
    """Of a less b by Welch's t: users are what is drawn, whatever their number of units is."""
    mean = a.mean - b.mean
    if min(len(a.total), len(b.total)) < 2:
        return Difference(mean, math.nan, math.nan, math.nan)
    parts = [Part(one.variance, one.freedom) for one in (a, b)]
    error, freedom = math.sqrt(sum(part.variance for part in parts)), freedom_of(parts)
    if error == 0:
        return Difference(mean, mean, mean, float(mean == 0))
    reach = t_quantile(1 - level, freedom) * error
    return Difference(mean, mean - reach, mean + reach, t_two_sided(mean / error, freedom))
