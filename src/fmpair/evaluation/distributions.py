"""Tail probabilities of the t and the normal distribution."""

from __future__ import annotations

import math
from statistics import NormalDist

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
