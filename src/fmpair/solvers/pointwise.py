"""Learning a factorization machine from examples: by gradient descent, or by coordinates.

By coordinates are least squares (ALS) and Gibbs sampling (MCMC). Both visit every parameter in
turn. A score is linear in each, f = g + theta * h, so the squared error has its minimum, and the
posterior its normal distribution, in closed form. A binary target has a latent variable: normal
around the score, truncated to the side of the target.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator

from fmpair.arrays import Rows, group_rows
from fmpair.jit import kernel
from fmpair.solvers.anova import Examples, Machine, Penalties
from fmpair.threads import check_process

TAIL = 0.5  # beyond it an exponential proposal is accepted more often than a normal one
# The hyper-priors of libFM: Gamma(1/2, 1/2) for every precision, and for every mean a normal prior
# at 0, as strong as one feature.
SHAPE, RATE, PULL = 1.0, 1.0, 1.0
CHUNKS = 8  # pieces of a group per thread, so that no thread waits long for another


# Stochastic gradient descent.


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


# Coordinates: ALS and MCMC.


@dataclass
class Chain:
    """Learning by coordinates in progress.

    columns: the examples by feature; apart: by group, whether no example has two of its features;
    pairs: float64 [factors, features]; error: float64 [examples], target - score. mean, precision:
    float64 [1 + factors, features], the prior of linear terms and vectors. rng: None for ALS.
    """

    examples: Examples
    columns: Rows
    apart: list[bool]
    bias: float
    linear: np.ndarray
    pairs: np.ndarray
    error: np.ndarray
    mean: np.ndarray
    precision: np.ndarray
    rng: Generator | None
    threads: int
    noise_precision: float = 1.0
    pool: ThreadPoolExecutor | None = field(default=None, repr=False)


def begin_chain(
    examples: Examples, machine: Machine, penalties: Penalties, rng: Generator | None, threads: int
) -> Chain:
    """Return a chain that starts from a machine of order 2: MCMC with a generator, else ALS."""
    rows, features, factors = examples.rows, len(machine.linear), machine.pairs.shape[1]
    columns = group_rows(rows.column, rows.owner, features, rows.value)
    precision = np.vstack([penalties.linear, *[penalties.vectors] * factors])
    bias, linear = float(machine.bias), machine.linear.copy()
    pairs = np.ascontiguousarray(machine.pairs.T)
    error, prior = np.zeros(rows.size), (np.zeros_like(precision), precision)
    chain = Chain(
        examples, columns, _apart(examples), bias, linear, pairs, error, *prior, rng, threads
    )
    chain.pool = ThreadPoolExecutor(threads) if threads > 1 else None
    return chain


def iterate(chain: Chain) -> float:
    """Update every parameter once; return the mean squared error before it."""
    check_process()
    score = scores(machine_of(chain), chain.examples.rows)
    chain.error = _target(chain, score) - score
    loss = float(chain.error @ chain.error) / max(len(score), 1)
    _draw_noise(chain)
    _move_bias(chain)
    _move_table(chain, 0, chain.linear, np.zeros(0))
    for factor, table in enumerate(chain.pairs):
        sums = _sums(*chain.examples.rows, table)
        _move_table(chain, 1 + factor, table, sums)
    return loss


def machine_of(chain: Chain) -> Machine:
    """Return the current machine."""
    none = np.zeros((len(chain.linear), 0))
    return Machine(chain.bias, chain.linear.copy(), chain.pairs.T.copy(), none)


def finish(chain: Chain) -> None:
    """Release the threads."""
    if chain.pool is not None:
        chain.pool.shutdown()


def _apart(examples: Examples) -> list[bool]:
    """Return, by group, whether its features touch different examples and may move in parallel."""
    group = np.searchsorted(examples.edges, examples.rows.column, side="right") - 1
    groups = len(examples.edges) - 1
    places = np.sort(examples.rows.owner * groups + group)
    twice = np.unique(places[1:][np.diff(places) == 0] % groups)
    return [number not in twice for number in range(groups)]


def _target(chain: Chain, score: np.ndarray) -> np.ndarray:
    """Return the targets of the scores; for a binary target, its latent variable."""
    target = chain.examples.target
    if not chain.examples.binary:
        return target
    if chain.rng is None:
        return expected(score, target)
    return truncated(score, target, chain.rng)


def _draw_noise(chain: Chain) -> None:
    """Draw the precision of the errors; that of a latent target is 1."""
    if chain.rng is not None and not chain.examples.binary:
        squares = float(chain.error @ chain.error)
        shape = (SHAPE + len(chain.error)) / 2
        chain.noise_precision = chain.rng.gamma(shape, 2 / (RATE + squares))


def _move_bias(chain: Chain) -> None:
    count = max(len(chain.error), 1)
    step = float(chain.error.mean()) if len(chain.error) else 0.0
    if chain.rng is not None:
        step += chain.rng.standard_normal() / np.sqrt(chain.noise_precision * count)
    chain.bias += step
    chain.error -= step


def _move_table(chain: Chain, place: int, table: np.ndarray, sums: np.ndarray) -> None:
    """Move one number of every feature: linear terms (no sums), or a factor with its sums.

    Groups follow each other; within one, features that touch different examples run in parallel,
    with bit-identical results.
    """
    noise = np.zeros(len(table))
    if chain.rng is not None:
        _draw_prior(chain, place, table)
        noise = chain.rng.standard_normal(len(table))
    mean, precision = chain.mean[place], chain.precision[place]

    prior = (mean, precision, noise)

    def run(piece: tuple[int, int]) -> None:
        _sweep(*chain.columns, *piece, table, sums, chain.error, chain.noise_precision, *prior)

    for group, apart in enumerate(chain.apart):
        first, last = chain.examples.edges[group : group + 2].tolist()
        if chain.pool is not None and apart:
            list(chain.pool.map(run, _pieces(chain, first, last)))
        else:
            run((first, last))


def _pieces(chain: Chain, first: int, last: int) -> list[tuple[int, int]]:
    """Cut the features of a group into ranges with about the same number of entries."""
    start = chain.columns.start
    levels = np.linspace(start[first], start[last], CHUNKS * chain.threads + 1)
    cuts = np.unique(np.clip(np.searchsorted(start, levels), first, last))
    cuts[0], cuts[-1] = first, last
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist()))


def _draw_prior(chain: Chain, place: int, table: np.ndarray) -> None:
    """Draw precision and mean of every group, given its parameters."""
    assert chain.rng is not None
    edges = chain.examples.edges
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist()):
        own, count = table[first:last], last - first
        old = chain.mean[place, first] if count else 0.0
        squares = ((own - old) ** 2).sum() + PULL * old * old
        precision = chain.rng.gamma((SHAPE + count + 1) / 2, 2 / (RATE + squares))
        spread = 1 / np.sqrt((count + PULL) * precision)
        mean = own.sum() / (count + PULL) + spread * chain.rng.standard_normal()
        chain.precision[place, first:last], chain.mean[place, first:last] = precision, mean


@kernel
def _sums(start, column, value, table):
    """Return, per example, the sum of value * table[column]: float64 [examples]."""
    out = np.zeros(len(start) - 1)
    for r in range(len(out)):
        for e in range(start[r], start[r + 1]):
            out[r] += value[e] * table[column[e]]
    return out


@kernel
def _sweep(start, column, value, first, last, table, sums, error, alpha, mean, precision, noise):
    """Move features first to last to their conditional mean, plus noise in standard deviations.

    h of an example is x for a linear term, else x * (sum over its other features).
    """
    linear = len(sums) == 0
    for j in range(first, last):
        old = table[j]
        slope = square = 0.0
        for e in range(start[j], start[j + 1]):
            x = value[e]
            h = x if linear else x * (sums[column[e]] - x * old)
            slope += h * error[column[e]]
            square += h * h
        weight = alpha * square + precision[j]
        if weight == 0.0:
            continue
        centre = (alpha * (slope + square * old) + precision[j] * mean[j]) / weight
        step = centre + noise[j] / np.sqrt(weight) - old
        for e in range(start[j], start[j + 1]):
            x = value[e]
            if linear:
                error[column[e]] -= x * step
            else:
                error[column[e]] -= x * (sums[column[e]] - x * old) * step
                sums[column[e]] += x * step
        table[j] = old + step


def truncated(score: np.ndarray, target: np.ndarray, rng: Generator) -> np.ndarray:
    """Draw N(score, 1) truncated to the side of the target (1 or -1): float64 [examples]."""
    least = -score * target  # turned to the positive side, and measured from the score
    draw = np.empty(len(score))
    waiting = np.arange(len(score))
    while len(waiting):
        low = least[waiting]
        far = low > TAIL
        # Robert's rate is optimal for an exponential that starts at `low`.
        rate = np.where(far, 0.5 * (low + np.sqrt(low * low + 4)), 1.0)
        tail = low + rng.standard_exponential(len(low)) / rate
        tried = np.where(far, tail, rng.standard_normal(len(low)))
        accepted = rng.random(len(low)) < np.exp(-0.5 * (tail - rate) ** 2)
        good = np.where(far, accepted, tried > low)
        draw[waiting[good]] = tried[good]
        waiting = waiting[~good]
    return score + target * draw


@kernel
def expected(score, target):
    """Return the means of the same distributions: float64 [examples]."""
    out = np.empty(len(score))
    for n in range(len(score)):
        out[n] = score[n] + target[n] * _hazard(-score[n] * target[n])
    return out


@kernel
def _hazard(t):
    """Return density over upper tail of the standard normal at t, or its limit for large t."""
    if t > 30.0:
        return t + 1 / t
    return math.sqrt(2 / math.pi) * math.exp(-0.5 * t * t) / math.erfc(t / math.sqrt(2.0))
