"""Clustered standard errors: values summed by user, and the variance of their mean.

The lists of one user are not independent, so the sampling unit of every test is the user. This
module also has the functions of Student's t distribution that the tests need.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from fmpair.errors import DataError

Values = Sequence[float] | Sequence[Sequence[float]] | np.ndarray
Groups = Sequence | np.ndarray | None  # the user or item of each unit

MAX_CLUSTERS = 1000  # in a resampling test; more users are merged at random
# Above this number of degrees of freedom, t quantiles differ from normal ones by less than 1e-3.
NEARLY_NORMAL = 10_000
CLOSE = 1e-9  # so short a step is a quantile's last one: the number of right digits doubles


class VarianceComponent(NamedTuple):
    """A component of the variance of a mean, and its degrees of freedom."""

    variance: float
    freedom: float


@dataclass(frozen=True, eq=False)
class Clusters:
    """Values of units, or differences between two models, summed by user.

    total: float64 [users], the sum over a user's units. size: float64 [users], the number of a
    user's units. further: the other variance components of the mean. These are folds and seeds; or
    items, if each model was fitted once and the caller gives the items.
    """

    total: np.ndarray
    size: np.ndarray
    further: tuple[VarianceComponent, ...] = ()

    @property
    def mean(self) -> float:
        """Mean over units, not over users."""
        return float(self.total.sum() / self.size.sum())

    @property
    def variance(self) -> float:
        """Variance of the mean: the sum of the components of users, folds and seeds."""
        return sum(part.variance for part in self._components)

    @property
    def further_variance(self) -> float:
        """The components of folds and seeds (`further`) alone."""
        return sum(part.variance for part in self.further)

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the variance (Welch-Satterthwaite)."""
        return freedom_of(self._components)

    @property
    def _components(self) -> tuple[VarianceComponent, ...]:
        return (variance_between(self.total, self.size), *self.further)


def sum_by_user(values: Values, users: Groups = None) -> Clusters:
    """Sum values, [units] or [seeds, units], by user; without users, each unit is a cluster."""
    matrix = _matrix(values)
    return Clusters(*_sums(matrix.mean(axis=0), users, "users"), _between_seeds(matrix))


def sum_differences(a: Values, b: Values, users: Groups = None, items: Groups = None) -> Clusters:
    """Sum the differences a - b of the same units by user; a, b: [units] or [seeds, units].

    items: the relevant item of each unit. They add a variance component if each model has only one
    seed.
    """
    first, second = _matrix(a), _matrix(b)
    if first.shape[1] != second.shape[1]:
        raise DataError(
            f"cannot pair {first.shape[1]} values with {second.shape[1]}: both need the same units"
        )
    difference = first.mean(axis=0) - second.mean(axis=0)
    further = (*_between_seeds(first), *_between_seeds(second))
    if not further and items is not None:
        further = (variance_between(*_sums(difference, items, "items")),)
    return Clusters(*_sums(difference, users, "users"), further)


def combined(clusters: Clusters, seed: int) -> Clusters:
    """Merge users at random into at most MAX_CLUSTERS clusters; mean and tests stay valid."""
    count = len(clusters.total)
    if count <= MAX_CLUSTERS:
        return clusters
    group = np.random.default_rng(seed).permutation(count) % MAX_CLUSTERS
    total, size = (np.bincount(group, part) for part in (clusters.total, clusters.size))
    return replace(clusters, total=total, size=size)


def variance_between(total: np.ndarray, size: np.ndarray) -> VarianceComponent:
    """Variance of the mean sum(total) / sum(size) under resampling of whole clusters."""
    count = len(total)
    residual = total - total.sum() / size.sum() * size
    scale = count / max(count - 1, 1) / size.sum() ** 2
    return VarianceComponent(float((residual**2).sum()) * scale, max(count - 1, 1))


def freedom_of(parts: Sequence[VarianceComponent]) -> float:
    """Degrees of freedom of a sum of independent variances: (sum v)^2 / sum(v^2 / freedom)."""
    whole = sum(part.variance for part in parts)
    denominator = sum(part.variance**2 / part.freedom for part in parts)
    return whole**2 / denominator if denominator > 0 else np.inf


def _sums(values: np.ndarray, groups: Groups, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return (sum of the values, number of values) of each group."""
    if groups is None:
        return values, np.ones(len(values))
    if len(groups) != len(values):
        raise DataError(
            f"{name} must have one entry per value, got {len(groups)} for {len(values)}"
        )
    _, number, size = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    return np.bincount(number, values), size.astype(np.float64)


def _between_seeds(values: np.ndarray) -> tuple[VarianceComponent, ...]:
    """Return the variance component of seeds, none with one seed; values: [seeds, units]."""
    seeds = len(values)
    if seeds < 2:
        return ()
    return (VarianceComponent(float(values.mean(axis=1).var(ddof=1)) / seeds, seeds - 1),)


def _matrix(values: Values) -> np.ndarray:
    matrix = np.atleast_2d(np.asarray(values, np.float64))
    if not matrix.size or matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise DataError("statistics need at least one value, and all values must be finite")
    return matrix


def t_two_sided(t: float, freedom: float) -> float:
    """Return P(|T| >= |t|) for Student's t."""
    if math.isinf(t):
        return 0.0
    return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


def t_quantile(chance: float, freedom: float) -> float:
    """Return the t >= 0 with P(|T| >= t) = chance: the inverse of `t_two_sided`.

    By Newton's method from the normal quantile, which is too small. The tail is convex, so that no
    step goes too far.
    """
    t = NormalDist().inv_cdf(1 - chance / 2)
    if freedom > NEARLY_NORMAL:
        return t
    log_scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    scale = 2 * math.exp(log_scale) / math.sqrt(freedom * math.pi)
    step = math.inf
    while step > CLOSE * (1 + t):
        slope = scale * (1 + t * t / freedom) ** (-(freedom + 1) / 2)
        step = (t_two_sided(t, freedom) - chance) / slope
        t += step
    return max(t, 0.0)


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), by its continued fraction."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # the fraction converges faster for 1 - x
        return 1 - incomplete_beta(b, a, 1 - x)
    log_front = a * math.log(x) + b * math.log1p(-x)
    log_front += math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(log_front) / a / _continued_fraction(a, b, x)


def _continued_fraction(a: float, b: float, x: float) -> float:
    """1 + d_1/(1 + d_2/(1 + ...)), evaluated from the innermost term.

    d_2m = m (b - m) x / ((a + 2m - 1)(a + 2m));
    d_2m+1 = -(a + m)(a + b + m) x / ((a + 2m)(a + 2m + 1)).
    """
    terms = 60 + int(4 * math.sqrt(max(a, b)))
    value = 1.0
    for m in range(terms, -1, -1):
        if m < terms:
            even = (m + 1) * (b - m - 1) * x / ((a + 2 * m + 1) * (a + 2 * m + 2))
            value = 1 + even / value
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        value = 1 + odd / value
    return value
