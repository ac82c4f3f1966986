"""Confidence intervals and significance tests of values by unit.

Values are [units], or [seeds, units] where a model was fitted several times; the variance between
seeds then enters. users: the user of each unit; values of one user are summed before anything is
resampled or tested. Without users every unit counts as its own user. items: the relevant item of
each unit; with one seed per model the variance between items then stands in for that between seeds,
which is very conservative. Without items one fit of each is compared as it is.

The public functions take values; the functions that take `Clusters` serve the report.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from fmpair.evaluation.clusters import (
    Clusters,
    Groups,
    Values,
    VarianceComponent,
    combined,
    freedom_of,
    sum_by_user,
    sum_differences,
    t_quantile,
    t_two_sided,
    variance_between,
)

EXACT = 14  # up to this many users that differ, all 2^n sign patterns are enumerated
DRAWS = 10_000
INTERVAL_DRAWS = 4_000
SEEDS = 3  # per model, as reports propose
PERMUTATIONS = 2_000  # number of random groupings
MANY = 5_000  # users of each group from which Welch's t is Student's
POWER = 0.8
LEVEL = 0.95
NUMBERS_AT_ONCE = 1 << 22  # random numbers held at a time


class Spread(NamedTuple):
    """A mean over folds or seeds, and the standard deviation (n - 1) of one of them."""

    mean: float
    sd: float


class MeanDifference(NamedTuple):
    """A difference of two means, its confidence interval, and a two-sided p-value."""

    mean: float
    low: float
    high: float
    p: float


def spread(values: Values) -> Spread:
    """Mean and standard deviation; NaN for the deviation of a single value."""
    array = np.asarray(values, np.float64)
    return Spread(float(array.mean()), float(array.std(ddof=1)) if len(array) > 1 else math.nan)


def bootstrap(
    values: Values,
    level: float = 0.95,
    repeats: int = INTERVAL_DRAWS,
    seed: int = 0,
    users: Groups = None,
) -> tuple[float, float]:
    """Bootstrap-t interval of the mean over units, at least as wide as Student's t."""
    return bootstrap_interval(sum_by_user(values, users), level, repeats, seed)


def randomisation_test(
    a: Values,
    b: Values,
    repeats: int = DRAWS,
    seed: int = 0,
    users: Groups = None,
    items: Groups = None,
) -> float:
    """Two-sided p of the paired randomisation test, which flips the signs of users' differences.

    Exact for up to 14 users that differ; else p = (1 + as extreme) / (1 + repeats).
    """
    return randomisation_p(sum_differences(a, b, users, items), repeats, seed)


def t_test(a: Values, b: Values, users: Groups = None, items: Groups = None) -> float:
    """Two-sided p of the paired t-test over users."""
    return t_test_p(sum_differences(a, b, users, items))


def wilcoxon(a: Values, b: Values, users: Groups = None, items: Groups = None) -> float:
    """Two-sided p of the signed-rank test over users; users that do not differ are dropped."""
    return wilcoxon_p(sum_differences(a, b, users, items))


def effect_size(a: Values, b: Values, users: Groups = None, items: Groups = None) -> float:
    """Cohen's d over users: their mean difference over its standard deviation."""
    return cohens_d(sum_differences(a, b, users, items))


def detectable(
    a: Values,
    b: Values,
    level: float = 0.05,
    power: float = POWER,
    users: Groups = None,
    items: Groups = None,
) -> float:
    """Smallest true difference that a test at this level would find with this power."""
    return detectable_difference(sum_differences(a, b, users, items), level, power)


def is_level(
    a: Values,
    b: Values,
    margin: float,
    level: float = 0.05,
    users: Groups = None,
    items: Groups = None,
) -> bool:
    """Whether two models differ by no more than the margin, by two one-sided t-tests."""
    return is_equivalent(sum_differences(a, b, users, items), margin, level)


def holm(p_values: Values) -> np.ndarray:
    """p-values adjusted for multiple comparisons by Holm's procedure, in the given order."""
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    scaled = p[order] * (len(p) - np.arange(len(p)))
    out = np.empty(len(p))
    out[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return out


# Tests of a mean difference, given as clusters of users. Variance between folds and seeds enters
# every function. The noise that a user adds to one fit counts in both parts, which is conservative.


def randomisation_p(clusters: Clusters, draws: int = DRAWS, seed: int = 0) -> float:
    """Two-sided p: the signs of users' sums are flipped at random.

    Exact for up to 14 users that differ and no further variance; else p = (1 + as extreme) /
    (1 + draws), and flipped sums are widened by the further variance.
    """
    total = combined(clusters, seed).total
    total = total[total != 0]  # a flip of zero changes nothing
    count = len(total)
    limit = abs(total.sum()) * (1 - 1e-12)  # sums in another order differ slightly
    if count == 0:
        return 1.0
    rng = np.random.default_rng(seed)
    of_users = VarianceComponent(float((total**2).sum()) / clusters.size.sum() ** 2, count)
    if count <= EXACT and not clusters.further_variance:
        flips = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
        return float((np.abs((1 - 2 * flips) @ total) >= limit).mean())
    extreme = 0
    for rows in _batches(draws, count):
        signs = 2.0 * rng.integers(0, 2, (rows, count), np.int8) - 1
        factors = _random_widening(clusters, of_users, rng, rows)
        extreme += int((np.abs(signs @ total) * factors >= limit).sum())
    return (1 + extreme) / (1 + draws)


def bootstrap_interval(
    clusters: Clusters, level: float = 0.95, draws: int = INTERVAL_DRAWS, seed: int = 0
) -> tuple[float, float]:
    """Return an interval of the mean: on each side the wider of bootstrap-t and Student's t.

    The bootstrap-t draws users with replacement and follows skewed values. Student's t is wide
    enough for few users, whose draws are all alike. The interval of values >= 0 starts at 0 or
    above.
    """
    mean, count = clusters.mean, len(clusters.total)
    if count < 2 or clusters.variance == 0:
        return mean, mean
    of_users = variance_between(clusters.total, clusters.size)
    plain = t_quantile(1 - level, of_users.freedom)
    low, high = _drawn_t(combined(clusters, seed), (1 - level) / 2, draws, seed)
    # The variance between folds and seeds widens both, by as much as it does Student's t.
    half_width = t_quantile(1 - level, clusters.freedom) * math.sqrt(clusters.variance)
    below = mean - max(high / plain, 1.0) * half_width
    above = mean + max(-low / plain, 1.0) * half_width
    return (max(below, 0.0) if (clusters.total >= 0).all() else below), above


def _drawn_t(clusters: Clusters, tail: float, draws: int, seed: int) -> tuple[float, float]:
    """Return both quantiles of t over users drawn with replacement; 0, 0 if most are undefined."""
    total, size, mean = clusters.total, clusters.size, clusters.mean
    each = (total, size, total**2, total * size, size**2)
    rng, count = np.random.default_rng(seed), len(total)
    statistics = []
    for rows in _batches(draws, count):
        chosen = rng.integers(0, count, (rows, count), np.int32).astype(np.intp)  # quicker to take
        sums = np.column_stack([column.take(chosen).sum(axis=1) for column in each])
        means, variance = _moments(sums, count)
        varied = variance > 1e-12 * max(mean * mean, 1e-300)
        statistics.append((means[varied] - mean) / np.sqrt(variance[varied]))
    t = np.concatenate(statistics)
    if len(t) < draws / 2:
        return 0.0, 0.0
    low, high = np.quantile(t, [tail, 1 - tail])
    return float(low), float(high)


def t_test_p(clusters: Clusters) -> float:
    """Two-sided p of the t-test over users; degrees of freedom by Welch-Satterthwaite."""
    if len(clusters.total) < 2:
        return math.nan
    if clusters.variance == 0:
        return 1.0 if clusters.mean == 0 else 0.0
    return t_two_sided(clusters.mean / math.sqrt(clusters.variance), clusters.freedom)


def wilcoxon_p(clusters: Clusters) -> float:
    """Two-sided p of the signed-rank test of users' sums; zeros are dropped.

    Normal approximation, corrected for ties, without continuity correction.
    """
    total = clusters.total[clusters.total != 0]
    count = len(total)
    if count == 0:
        return 1.0
    _, index, times = np.unique(np.abs(total), return_inverse=True, return_counts=True)
    rank = (np.cumsum(times) - (times - 1) / 2)[index]
    above_mean = float(rank[total > 0].sum()) - count * (count + 1) / 4
    variance = count * (count + 1) * (2 * count + 1) / 24 - float((times**3 - times).sum()) / 48
    z = above_mean / math.sqrt(variance)
    of_users = VarianceComponent(float((total**2).sum()) / clusters.size.sum() ** 2, count)
    if not clusters.further or of_users.variance == 0:
        return 2 * NormalDist().cdf(-abs(z))
    freedom = freedom_of((of_users, *clusters.further))
    return t_two_sided(z / _widening(clusters, of_users), freedom)


def cohens_d(clusters: Clusters) -> float:
    """Cohen's d over users: the mean of their sums over its standard deviation."""
    mean = float(clusters.total.mean())
    sd = float(clusters.total.std(ddof=1)) if len(clusters.total) > 1 else math.nan
    if sd > 0:
        return mean / sd
    return 0.0 if mean == 0 else math.copysign(math.inf, mean)


def detectable_difference(clusters: Clusters, level: float = 0.05, power: float = POWER) -> float:
    """Smallest true difference that a test at this level would find with this power."""
    if clusters.variance == 0:
        return 0.0
    needed = t_quantile(level, clusters.freedom) + t_quantile(2 * (1 - power), clusters.freedom)
    return needed * math.sqrt(clusters.variance)


def detectable_with_seeds(
    clusters: Clusters, of_items: VarianceComponent, level: float = 0.05, seeds: int = SEEDS
) -> float:
    """Smallest difference between two recipes that several seeds of each would show.

    clusters: one fit of each. of_items: the variance between items, an upper bound of the variance
    between seeds, since a seed moves an item for all users.
    """
    between = VarianceComponent(of_items.variance / seeds, 2 * (seeds - 1))
    return detectable_difference(replace(clusters, further=(between,)), level)


def is_equivalent(clusters: Clusters, margin: float, level: float = 0.05) -> bool:
    """Whether the difference lies within -margin to margin, by two one-sided t-tests."""
    if clusters.variance == 0:
        return abs(clusters.mean) <= margin
    reach = t_quantile(2 * level, clusters.freedom) * math.sqrt(clusters.variance)
    return abs(clusters.mean) + reach <= margin


def unpaired(a: Clusters, b: Clusters, level: float = LEVEL) -> MeanDifference:
    """Compare a minus b by Welch's t, where every user is in one of the two groups."""
    mean = a.mean - b.mean
    if min(len(a.total), len(b.total)) < 2:
        return MeanDifference(mean, math.nan, math.nan, math.nan)
    parts = [VarianceComponent(group.variance, group.freedom) for group in (a, b)]
    error, freedom = math.sqrt(sum(part.variance for part in parts)), freedom_of(parts)
    if error == 0:
        return MeanDifference(mean, mean, mean, float(mean == 0))
    reach = t_quantile(1 - level, freedom) * error
    return MeanDifference(mean, mean - reach, mean + reach, t_two_sided(mean / error, freedom))


def permuted(
    a: Clusters, b: Clusters, level: float = LEVEL, draws: int = PERMUTATIONS, seed: int = 0
) -> MeanDifference:
    """Compare a minus b by Welch's t, with the distribution of t under random groups.

    For few users with skewed values, t is far from Student's distribution. So users are put into
    random groups of the same sizes. Then p is exact if the groups have the same distribution, and
    approximate for large groups with equal means. Groups of MANY users or more use Student's.
    """
    plain = unpaired(a, b, level)
    least = min(len(a.total), len(b.total))
    if least < 2 or least >= MANY or plain.low == plain.high:
        return plain
    random_t = _random_t(a, b, draws, seed)
    error = math.sqrt(a.variance + b.variance)
    t = plain.mean / error
    slack = 1e-9 * (1 + abs(t))  # sums in another order differ slightly
    above, below = (random_t >= t - slack).sum(), (random_t <= t + slack).sum()
    tail = (1 - level) / 2
    first, last = np.quantile(random_t, [tail, 1 - tail], method="inverted_cdf")
    low, high = plain.mean - last * error, plain.mean - first * error
    p = min(1.0, 2 * (1 + min(above, below)) / (1 + draws))
    return MeanDifference(plain.mean, float(low), float(high), float(p))


def _random_t(a: Clusters, b: Clusters, draws: int, seed: int) -> np.ndarray:
    """Welch's t of the users in random groups of the same sizes: float64 [draws]."""
    total, size = np.concatenate([a.total, b.total]), np.concatenate([a.size, b.size])
    each = np.column_stack([total, size, total**2, total * size, size**2])
    count, of_a = len(each), len(a.total)
    least = min(of_a, count - of_a)
    rng = np.random.default_rng(seed)
    sums = np.empty((draws, each.shape[1]))
    for draw in range(draws):
        chosen = rng.choice(count, least, replace=False, shuffle=False)
        sums[draw] = each[chosen].sum(axis=0)
    few, rest = _moments(sums, least), _moments(each.sum(axis=0) - sums, count - least)
    error = np.sqrt(few[1] + rest[1])
    difference = few[0] - rest[0] if least == of_a else rest[0] - few[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(difference == 0, 0.0, difference / error)


def _moments(sums: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and its variance, as `variance_between`; sums: of total, size, and their products."""
    total, size, squares, products, sizes = sums.T
    mean = total / size
    left = np.maximum(squares - 2 * mean * products + mean**2 * sizes, 0)
    return mean, left * count / (count - 1) / size**2


def _random_widening(
    clusters: Clusters, of_users: VarianceComponent, rng: np.random.Generator, rows: int
) -> np.ndarray | float:
    """Random factors [rows] that widen draws over users to the whole variance.

    The factors are random because the variance between folds and seeds is estimated from few.
    """
    if of_users.variance <= 0 or not clusters.further_variance:
        return 1.0
    freedom = freedom_of((of_users, *clusters.further))
    return _widening(clusters, of_users) * np.sqrt(freedom / rng.chisquare(freedom, rows))


def _widening(clusters: Clusters, of_users: VarianceComponent) -> float:
    return math.sqrt(1 + clusters.further_variance / of_users.variance)


def _batches(draws: int, width: int) -> Iterator[int]:
    """Sizes of the batches that together make `draws` rows of `width` numbers."""
    rows = max(NUMBERS_AT_ONCE // width, 1)
    return (min(rows, draws - done) for done in range(0, draws, rows))
