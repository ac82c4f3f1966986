"""Confidence intervals and significance tests."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fmpair.errors import DataError
from fmpair.evaluation.distributions import normal_two_sided, t_two_sided

Values = Sequence[float] | np.ndarray

EXACT = 14  # up to this many differences, all 2^n sign patterns are gone through
REPEATS = 10_000
NUMBERS_AT_ONCE = 1 << 22  # random numbers held at a time


class Spread(NamedTuple):
    """A mean over folds or seeds, and the standard deviation (n - 1) of one of them."""

    mean: float
    sd: float


def spread(values: Values) -> Spread:
    """Mean and standard deviation; that of a single value is NaN."""
    found = np.asarray(values, np.float64)
    return Spread(float(found.mean()), float(found.std(ddof=1)) if len(found) > 1 else math.nan)


def bootstrap(
    values: Values, level: float = 0.95, repeats: int = REPEATS, seed: int = 0
) -> tuple[float, float]:
    """Percentile interval of the mean over units drawn with replacement."""
    found, times = np.unique(_numbers(values), return_counts=True)
    count = int(times.sum())
    rng = np.random.default_rng(seed)
    # How often each distinct value is drawn says as much as every draw, at less cost.
    means = [
        rng.multinomial(count, times / count, size) @ found / count
        for size in _batches(repeats, len(found))
    ]
    tail = (1 - level) / 2
    low, high = np.quantile(np.concatenate(means), [tail, 1 - tail])
    return float(low), float(high)


def randomisation_test(a: Values, b: Values, repeats: int = REPEATS, seed: int = 0) -> float:
    """Two-sided p of the paired randomisation test: the signs of the differences are flipped.

    Exact for up to 14 pairs that differ; else p = (1 + as extreme) / (1 + repeats).
    """
    difference = _differences(a, b)
    difference = difference[difference != 0]  # a flip of zero changes nothing
    count = len(difference)
    limit = abs(difference.sum()) * (1 - 1e-12)  # sums in another order differ by a hair
    if count <= EXACT:
        flips = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
        return float((np.abs((1 - 2 * flips) @ difference) >= limit).mean())
    rng = np.random.default_rng(seed)
    size, times = np.unique(np.abs(difference), return_counts=True)
    extreme = 0
    for rows in _batches(repeats, len(size)):
        positive = rng.binomial(times, 0.5, (rows, len(size)))  # of the differences of one size
        extreme += int((np.abs((2 * positive - times) @ size) >= limit).sum())
    return (1 + extreme) / (1 + repeats)


def t_test(a: Values, b: Values) -> float:
    """Two-sided p of the paired t-test."""
    difference = _differences(a, b)
    count = len(difference)
    if count < 2:
        return math.nan
    mean, sd = float(difference.mean()), float(difference.std(ddof=1))
    if sd == 0:
        return 1.0 if mean == 0 else 0.0
    return t_two_sided(mean / sd * math.sqrt(count), count - 1)


def wilcoxon(a: Values, b: Values) -> float:
    """Two-sided p of the signed-rank test: pairs that do not differ are dropped.

    Normal approximation, corrected for ties, without a continuity correction.
    """
    difference = _differences(a, b)
    difference = difference[difference != 0]
    count = len(difference)
    if count == 0:
        return 1.0
    _, place, times = np.unique(np.abs(difference), return_inverse=True, return_counts=True)
    rank = (np.cumsum(times) - (times - 1) / 2)[place]
    above_mean = float(rank[difference > 0].sum()) - count * (count + 1) / 4
    variance = count * (count + 1) * (2 * count + 1) / 24 - float((times**3 - times).sum()) / 48
    return normal_two_sided(above_mean / math.sqrt(variance))


def holm(p_values: Values) -> np.ndarray:
    """p-values adjusted for their number by Holm's step-down procedure, in the given order."""
    given = np.asarray(p_values, np.float64)
    order = np.argsort(given, kind="stable")
    scaled = given[order] * (len(given) - np.arange(len(given)))
    out = np.empty(len(given))
    out[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return out


def effect_size(a: Values, b: Values) -> float:
    """Cohen's d of paired values: mean difference over the differences' standard deviation."""
    difference = _differences(a, b)
    mean, sd = spread(difference)
    if sd > 0:
        return mean / sd
    return 0.0 if mean == 0 else math.copysign(math.inf, mean)


def _batches(repeats: int, width: int) -> Iterator[int]:
    """Repeats in parts that hold no more than so many numbers at once."""
    rows = max(NUMBERS_AT_ONCE // width, 1)
    return (min(rows, repeats - done) for done in range(0, repeats, rows))


def _differences(a: Values, b: Values) -> np.ndarray:
    first, second = _numbers(a), _numbers(b)
    if len(first) != len(second):
        raise DataError(f"{len(first)} and {len(second)} values cannot be paired: same units first")
    return first - second


def _numbers(values: Values) -> np.ndarray:
    found = np.asarray(values, np.float64)
    if not len(found) or not np.isfinite(found).all():
        raise DataError("statistics need at least one value, and every value a finite number")
    return found
