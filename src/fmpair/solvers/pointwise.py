"""Learning a factorization machine from examples by stochastic gradient descent."""

from __future__ import annotations

import numpy as np

from fmpair.arrays import Rows
from fmpair.jit import kernel
from fmpair.solvers.anova import Examples, Machine, Penalties


def epoch(
    examples: Examples, machine: Machine, penalties: Penalties, rate: float, order: np.ndarray
) -> tuple[Machine, float]:
    """Return (machine after a pass over the examples in order, mean loss before each step).

    Each step is theta <- theta - rate * (dloss/df * df/dtheta + penalty * theta), with loss (f -
    y)^2 / 2, or ln(1 + exp(-y f)) for binary targets. A linear term with infinite penalty stays
    fixed. The tables change in place.
    """
    bias, loss = _pass(
        *examples.rows, examples.target, order, examples.binary, *machine, *penalties, rate
    )
    return machine._replace(bias=bias), loss / max(len(order), 1)


def scores(machine: Machine, rows: Rows) -> np.ndarray:
    """Return the score of every row, as `anova.predict`: float64 [rows]."""
    return _scores(*rows, *machine)


@kernel
def _scores(start, column, value, bias, linear, pairs, triples):
    sums, power = np.zeros(pairs.shape[1]), np.zeros((2, triples.shape[1]))
    out = np.empty(len(start) - 1)
    for r in range(len(out)):
        out[r] = _score(
            start[r], start[r + 1], column, value, bias, linear, pairs, triples, sums, power
        )
    return out


@kernel
def _score(first, last, column, value, bias, linear, pairs, triples, sums, power):
    """Return the score of one row; fill sum z of pairs, sum z and sum z^2 of triples."""
    f = bias
    for e in range(first, last):
        f += value[e] * linear[column[e]]
    for k in range(len(sums)):
        one = two = 0.0
        for e in range(first, last):
            z = value[e] * pairs[column[e], k]
            one += z
            two += z * z
        sums[k] = one
        f += 0.5 * (one * one - two)
    for k in range(power.shape[1]):
        one = two = three = 0.0
        for e in range(first, last):
            z = value[e] * triples[column[e], k]
            one += z
            two += z * z
            three += z * z * z
        power[0, k], power[1, k] = one, two
        f += (one * one * one - 3 * one * two + 2 * three) / 6
    return f


@kernel
def _pass(
    start, column, value, target, order, binary, bias, linear, pairs, triples, linear_penalty,
    vector_penalty, rate,
):  # fmt: skip
    """Take all steps of `epoch`; return (bias, sum of losses)."""
    factors, cubic = pairs.shape[1], triples.shape[1]
    sums, power = np.zeros(factors), np.zeros((2, cubic))
    total = 0.0
    for example in order:
        first, last = start[example], start[example + 1]
        f = _score(first, last, column, value, bias, linear, pairs, triples, sums, power)
        y = target[example]
        if binary:
            away = np.exp(-abs(f))
            slope = -y / (1 + away) if y * f < 0 else -y * away / (1 + away)
            total += np.log1p(away) + max(-y * f, 0.0)
        else:
            slope = f - y
            total += 0.5 * slope * slope
        bias -= rate * slope
        for e in range(first, last):
            j, x = column[e], value[e]
            if linear_penalty[j] < np.inf:
                linear[j] -= rate * (slope * x + linear_penalty[j] * linear[j])
            for k in range(factors):
                v = pairs[j, k]
                pairs[j, k] -= rate * (slope * x * (sums[k] - x * v) + vector_penalty[j] * v)
            for k in range(cubic):
                v = triples[j, k]
                z = x * v
                others = power[0, k] - z
                own = 0.5 * (others * others - (power[1, k] - z * z))
                triples[j, k] -= rate * (slope * x * own + vector_penalty[j] * v)
    return bias, total
