"""Values gathered by user: the lists of one user are no independent evidence of each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from fmpair.errors import DataError

# Tail probabilities of the t and the normal distribution.


NEARLY_NORMAL = 10_000  # degrees of freedom from which quantiles of t and the normal agree to 1e-3
HALVINGS = 40


def t_two_sided(t: float, freedom: float) -> float:
    """Chance that |T| >= |t| for Student's t with the given degrees of freedom."""
    if math.isinf(t):
        return 0.0
    return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


def normal_two_sided(z: float) -> float:
    """Chance that |Z| >= |z| for a standard normal Z."""
    return 2 * NormalDist().cdf(-abs(z))


def t_quantile(chance: float, freedom: float) -> float:
    """The t >= 0 that |T| exceeds with this chance, by halving; the inverse of `t_two_sided`."""
    if freedom > NEARLY_NORMAL:
        return NormalDist().inv_cdf(1 - chance / 2)
    low, high = 0.0, 1.0
    while t_two_sided(high, freedom) > chance:
        low, high = high, 2 * high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if t_two_sided(middle, freedom) > chance else (low, middle)
    return (low + high) / 2


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b), by its continued fraction."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side
        return 1 - incomplete_beta(b, a, 1 - x)
    log_front = a * math.log(x) + b * math.log1p(-x)
    log_front += math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(log_front) / a / _fraction(a, b, x)


def _fraction(a: float, b: float, x: float) -> float:
    """1 + d_1/(1 + d_2/(1 + ...)), from the inside out, with terms to spare.

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


Values = Sequence[float] | Sequence[Sequence[float]] | np.ndarray
Groups = Sequence | np.ndarray | None  # a user or an item for each unit

MOST = 1000  # clusters that are drawn; more are put together at random first


class Part(NamedTuple):
    """A part of the variance of a mean, and the degrees of freedom it is known by."""

    variance: float
    freedom: float


@dataclass(frozen=True, eq=False)
class Clusters:
    """Values, or differences of two models, of the same units, summed by user.

    total: float64 [users], the sum over a user's units; size: float64 [users], how many they are.
    further: the parts of the variance of the mean beside that of users: of folds and seeds. Where
    each model was fitted once, nothing is known of these. What a seed does it does to an item for
    all users at once, so that then the variance between items stands in for it.
    """

    total: np.ndarray
    size: np.ndarray
    further: tuple[Part, ...] = ()

    @property
    def mean(self) -> float:
        """Over units, not over users."""
        return float(self.total.sum() / self.size.sum())

    @property
    def variance(self) -> float:
        """Of the mean: that of users drawn anew, plus that of folds and seeds."""
        return sum(part.variance for part in self._parts)

    @property
    def freedom(self) -> float:
        """Degrees of freedom of that sum, by Welch and Satterthwaite."""
        return freedom_of(self._parts)

    @property
    def _parts(self) -> tuple[Part, ...]:
        return (variance_between(self.total, self.size), *self.further)


def variance_between(total: np.ndarray, size: np.ndarray) -> Part:
    """Of the mean sum(total) / sum(size), where whole clusters are what is drawn anew."""
    count = len(total)
    left = total - total.sum() / size.sum() * size
    scale = count / max(count - 1, 1) / size.sum() ** 2
    return Part(float((left**2).sum()) * scale, max(count - 1, 1))


def freedom_of(parts: Sequence[Part]) -> float:
    """Of a sum of independent variances: (sum of v)^2 / sum of v^2 / freedom."""
    whole = sum(part.variance for part in parts)
    below = sum(part.variance**2 / part.freedom for part in parts)
    return whole**2 / below if below > 0 else np.inf


def gathered(values: Values, users: Groups = None) -> Clusters:
    """values: [units], or [seeds, units]; users: whose each unit is, None: each its own."""
    found = _matrix(values)
    return Clusters(*_sums(found.mean(axis=0), users, "users"), _between_seeds(found))


def paired(a: Values, b: Values, users: Groups = None, items: Groups = None) -> Clusters:
    """The differences a - b of the same units; either: [units], or [seeds, units].

    items: the relevant item of each unit, which counts where there is one seed of each only.
    """
    first, second = _matrix(a), _matrix(b)
    if first.shape[1] != second.shape[1]:
        raise DataError(
            f"{first.shape[1]} and {second.shape[1]} values cannot be paired: same units first"
        )
    difference = first.mean(axis=0) - second.mean(axis=0)
    further = (*_between_seeds(first), *_between_seeds(second))
    if not further and items is not None:
        further = (variance_between(*_sums(difference, items, "items")),)
    return Clusters(*_sums(difference, users, "users"), further)


def combined(clusters: Clusters, seed: int) -> Clusters:
    """At most MOST clusters: users put together at random, which leaves mean and test valid."""
    count = len(clusters.total)
    if count <= MOST:
        return clusters
    group = np.random.default_rng(seed).permutation(count) % MOST
    total, size = (np.bincount(group, part) for part in (clusters.total, clusters.size))
    return replace(clusters, total=total, size=size)


def _sums(values: np.ndarray, groups: Groups, what: str) -> tuple[np.ndarray, np.ndarray]:
    """(sum of the values of each group, how many they are)."""
    if groups is None:
        return values, np.ones(len(values))
    if len(groups) != len(values):
        raise DataError(f"{len(groups)} {what} for {len(values)} values: give one for each")
    _, number, size = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    return np.bincount(number, values), size.astype(np.float64)


def _between_seeds(found: np.ndarray) -> tuple[Part, ...]:
    """What the means of several seeds [seeds, units] add to the variance of their mean."""
    seeds = len(found)
    if seeds < 2:
        return ()
    return (Part(float(found.mean(axis=1).var(ddof=1)) / seeds, seeds - 1),)


def _matrix(values: Values) -> np.ndarray:
    found = np.atleast_2d(np.asarray(values, np.float64))
    if not found.size or found.ndim != 2 or not np.isfinite(found).all():
        raise DataError("statistics need at least one value, and every value a finite number")
    return found
