"""Confidence intervals and significance tests of values by unit.

Values are of units in one order, [units], or of several seeds, [seeds, units], whose variance then
enters. users: whose list each unit is; those of one user are summed before anything is drawn or
tested. Without users every unit counts as a user of its own. items: the relevant item of each
unit; with one seed of each model the variance between items stands in for that between seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fmpair.evaluation.clusters import (
    Clusters,
    Groups,
    Part,
    Values,
    combined,
    freedom_of,
    gathered,
    normal_two_sided,
    paired,
    t_quantile,
    t_two_sided,
)

# What clusters of users say of a mean difference: tests, intervals, the least that would show.
#
# What clusters know of variance beside that of users, between folds and seeds, enters every
# function
# here. The noise that a user adds to one fit counts in both parts: that errs on the safe side.


EXACT = 14  # up to this many users that differ, all 2^n sign patterns are gone through
DRAWS = 10_000
POWER = 0.8
NUMBERS_AT_ONCE = 1 << 22  # random numbers held at a time


def randomised(found: Clusters, draws: int = DRAWS, seed: int = 0) -> float:
    """Two-sided p: the signs of users' sums are flipped at random.

    Exact for up to 14 users that differ and no further variance; else p = (1 + as extreme) /
    (1 + draws), and flipped sums are made wider by what further parts add to the variance.
    """
    total = combined(found, seed).total
    total = total[total != 0]  # a flip of zero changes nothing
    count = len(total)
    limit = abs(total.sum()) * (1 - 1e-12)  # sums in another order differ by a hair
    if count == 0:
        return 1.0
    rng = np.random.default_rng(seed)
    own = Part(float((total**2).sum()) / found.size.sum() ** 2, count)
    if count <= EXACT and not _beside_users(found):
        flips = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
        return float((np.abs((1 - 2 * flips) @ total) >= limit).mean())
    extreme = 0
    for rows in _batches(draws, count):
        signs = 2.0 * rng.integers(0, 2, (rows, count), np.int8) - 1
        extreme += int((np.abs(signs @ total) * _wider(found, own, rng, rows) >= limit).sum())
    return (1 + extreme) / (1 + draws)


def bootstrapped(
    found: Clusters, level: float = 0.95, draws: int = DRAWS, seed: int = 0
) -> tuple[float, float]:
    """Percentile interval of the mean over users drawn with replacement."""
    drawn = combined(found, seed)
    count, mean = len(drawn.total), found.mean
    rng = np.random.default_rng(seed)
    own = Part(found.variance - _beside_users(found), max(count - 1, 1))
    # Users put together show their variance less exactly than one by one.
    seen = drawn.variance - _beside_users(found)
    scale = math.sqrt(own.variance / seen) if seen > 0 else 1.0
    means = []
    for rows in _batches(draws, count):
        chosen = rng.integers(0, count, (rows, count), np.int32)
        ratio = drawn.total[chosen].sum(axis=1) / drawn.size[chosen].sum(axis=1)
        means.append(mean + scale * (ratio - mean) * _wider(found, own, rng, rows))
    tail = (1 - level) / 2
    low, high = np.quantile(np.concatenate(means), [tail, 1 - tail])
    return float(low), float(high)


def student(found: Clusters) -> float:
    """Two-sided p of the t-test over users; with further parts by Welch and Satterthwaite."""
    if len(found.total) < 2:
        return math.nan
    if found.variance == 0:
        return 1.0 if found.mean == 0 else 0.0
    return t_two_sided(found.mean / math.sqrt(found.variance), found.freedom)


def ranked(found: Clusters) -> float:
    """Two-sided p of the signed-rank test of users' sums: those of zero are dropped.

    Normal approximation, corrected for ties, without a continuity correction.
    """
    total = found.total[found.total != 0]
    count = len(total)
    if count == 0:
        return 1.0
    _, place, times = np.unique(np.abs(total), return_inverse=True, return_counts=True)
    rank = (np.cumsum(times) - (times - 1) / 2)[place]
    above_mean = float(rank[total > 0].sum()) - count * (count + 1) / 4
    variance = count * (count + 1) * (2 * count + 1) / 24 - float((times**3 - times).sum()) / 48
    z = above_mean / math.sqrt(variance)
    own = Part(float((total**2).sum()) / found.size.sum() ** 2, count)
    if not found.further or own.variance == 0:
        return normal_two_sided(z)
    return t_two_sided(z / _widening(found, own), freedom_of((own, *found.further)))


def effect(found: Clusters) -> float:
    """Cohen's d over users: the mean of their sums over its standard deviation."""
    mean = float(found.total.mean())
    sd = float(found.total.std(ddof=1)) if len(found.total) > 1 else math.nan
    if sd > 0:
        return mean / sd
    return 0.0 if mean == 0 else math.copysign(math.inf, mean)


def detectable_by_clusters(found: Clusters, level: float = 0.05, power: float = POWER) -> float:
    """The least true difference that a test at this level would find with this power."""
    if found.variance == 0:
        return 0.0
    needed = t_quantile(level, found.freedom) + t_quantile(2 * (1 - power), found.freedom)
    return needed * math.sqrt(found.variance)


def is_level_by_clusters(found: Clusters, margin: float, level: float = 0.05) -> bool:
    """Whether the difference lies within -margin to margin, by two one-sided t-tests."""
    if found.variance == 0:
        return abs(found.mean) <= margin
    reach = t_quantile(2 * level, found.freedom) * math.sqrt(found.variance)
    return abs(found.mean) + reach <= margin


def _wider(found: Clusters, own: Part, rng: np.random.Generator, rows: int) -> np.ndarray | float:
    """[rows] factors by which draws of users alone fall short of the whole variance.

    As Student's t is a normal of uncertain width, so these widths are: what folds and seeds add is
    known from a few of them only.
    """
    if own.variance <= 0 or not _beside_users(found):
        return 1.0
    freedom = freedom_of((own, *found.further))
    return _widening(found, own) * np.sqrt(freedom / rng.chisquare(freedom, rows))


def _widening(found: Clusters, own: Part) -> float:
    return math.sqrt(1 + _beside_users(found) / own.variance)


def _beside_users(found: Clusters) -> float:
    return sum(part.variance for part in found.further)


def _batches(draws: int, width: int) -> Iterator[int]:
    """Draws in parts that hold no more than so many numbers at once."""
    rows = max(NUMBERS_AT_ONCE // width, 1)
    return (min(rows, draws - done) for done in range(0, draws, rows))


# The difference between two groups of users, each of whom is in one of them only.


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


class Spread(NamedTuple):
    """A mean over folds or seeds, and the standard deviation (n - 1) of one of them."""

    mean: float
    sd: float


def spread(values: Values) -> Spread:
    """Mean and standard deviation; that of a single value is NaN."""
    found = np.asarray(values, np.float64)
    return Spread(float(found.mean()), float(found.std(ddof=1)) if len(found) > 1 else math.nan)


def bootstrap(
    values: Values, level: float = 0.95, repeats: int = DRAWS, seed: int = 0, users: Groups = None
) -> tuple[float, float]:
    """Percentile interval of the mean over units; users are drawn with replacement."""
    return bootstrapped(gathered(values, users), level, repeats, seed)


def randomisation_test(
    a: Values,
    b: Values,
    repeats: int = DRAWS,
    seed: int = 0,
    users: Groups = None,
    items: Groups = None,
) -> float:
    """Two-sided p of the paired randomisation test: the signs of users' differences are flipped.

    Exact for up to 14 users that differ; else p = (1 + as extreme) / (1 + repeats).
    """
    return randomised(paired(a, b, users, items), repeats, seed)


def t_test(a: Values, b: Values, users: Groups = None, items: Groups = None) -> float:
    """Two-sided p of the paired t-test over users."""
    return student(paired(a, b, users, items))


def wilcoxon(a: Values, b: Values, users: Groups = None, items: Groups = None) -> float:
    """Two-sided p of the signed-rank test over users: those that do not differ are dropped."""
    return ranked(paired(a, b, users, items))


def effect_size(a: Values, b: Values, users: Groups = None, items: Groups = None) -> float:
    """Cohen's d over users: their mean difference over its standard deviation."""
    return effect(paired(a, b, users, items))


def detectable(
    a: Values,
    b: Values,
    level: float = 0.05,
    power: float = POWER,
    users: Groups = None,
    items: Groups = None,
) -> float:
    """The least true difference that a test at this level would find with this power."""
    return detectable_by_clusters(paired(a, b, users, items), level, power)


def is_level(
    a: Values,
    b: Values,
    margin: float,
    level: float = 0.05,
    users: Groups = None,
    items: Groups = None,
) -> bool:
    """Whether two models differ by no more than the margin, by two one-sided t-tests."""
    return is_level_by_clusters(paired(a, b, users, items), margin, level)


def holm(p_values: Values) -> np.ndarray:
    """p-values adjusted for their number by Holm's step-down procedure, in the given order."""
    given = np.asarray(p_values, np.float64)
    order = np.argsort(given, kind="stable")
    scaled = given[order] * (len(given) - np.arange(len(given)))
    out = np.empty(len(given))
    out[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return out
