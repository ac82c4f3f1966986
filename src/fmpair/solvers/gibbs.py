"""Learning a factorization machine coordinate by coordinate: least squares (ALS) or Gibbs (MCMC).

Both visit every parameter in turn. A score is linear in each, f = g + theta * h, so the squared
error has its exact minimum, and the posterior its exact normal distribution, in closed form.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from fmpair.arrays import Rows, group_rows
from fmpair.jit import kernel
from fmpair.solvers.anova import Examples, Machine, Penalties
from fmpair.solvers.pointwise import scores
from fmpair.threads import check_process

# The latent variable behind a binary target: normal about the score, on the target's side of 0.


TAIL = 0.5  # beyond it an exponential proposal is accepted more often than a normal one


def truncated(score: np.ndarray, target: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draws of N(score, 1) on the side of the target (1 or -1): float64 [examples]."""
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
    """The means of the same distributions: float64 [examples]."""
    out = np.empty(len(score))
    for n in range(len(score)):
        out[n] = score[n] + target[n] * _hazard(-score[n] * target[n])
    return out


@kernel
def _hazard(t):
    """Density over upper tail of the standard normal at t; its limit far out, where both vanish."""
    if t > 30.0:
        return t + 1 / t
    return math.sqrt(2 / math.pi) * math.exp(-0.5 * t * t) / math.erfc(t / math.sqrt(2.0))


# The hyper-priors, as libFM has them: Gamma(1/2, 1/2) of every precision, and a normal prior of
# every mean, at 0 and as strong as one feature.
SHAPE, RATE, PULL = 1.0, 1.0, 1.0
CHUNKS = 8  # pieces a group is cut into for each thread, so that none waits long for another


@dataclass
class Chain:
    """Learning under way.

    columns: the examples by feature; apart: whether no example has two features of the group;
    pairs: float64 [factors, features]; error: float64 [examples], target - score.
    mean, precision: float64 [1 + factors, features], the prior of linear terms and vectors.
    rng: None for ALS.
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
    rng: np.random.Generator | None
    threads: int
    noise_precision: float = 1.0
    pool: ThreadPoolExecutor | None = field(default=None, repr=False)


def begin(
    examples: Examples,
    machine: Machine,
    penalties: Penalties,
    rng: np.random.Generator | None,
    threads: int,
) -> Chain:
    """A chain that starts from a machine of order 2; a generator makes it MCMC, else ALS.

    MCMC takes its precisions from the data: the penalties are only where it starts.
    """
    rows, features, factors = examples.rows, len(machine.linear), machine.pairs.shape[1]
    columns = group_rows(rows.column, rows.owner, features, rows.value)
    precision = np.vstack([penalties.linear, *[penalties.vectors] * factors])
    bias = float(machine.bias)
    return Chain(
        examples,
        columns,
        _apart(examples),
        bias,
        machine.linear.copy(),
        np.ascontiguousarray(machine.pairs.T),
        np.zeros(rows.size),
        np.zeros_like(precision),
        precision,
        rng,
        threads,
        pool=ThreadPoolExecutor(threads) if threads > 1 else None,
    )


def iterate(chain: Chain) -> float:
    """Every parameter once; the mean squared error (of the latent target if binary) before it."""
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
    """The machine as it is now."""
    none = np.zeros((len(chain.linear), 0))
    return Machine(chain.bias, chain.linear.copy(), chain.pairs.T.copy(), none)


def finish(chain: Chain) -> None:
    """Let the threads go."""
    if chain.pool is not None:
        chain.pool.shutdown()


def _apart(examples: Examples) -> list[bool]:
    """By group: such features touch different examples, so they may move side by side."""
    group = np.searchsorted(examples.edges, examples.rows.column, side="right") - 1
    groups = len(examples.edges) - 1
    places = np.sort(examples.rows.owner * groups + group)
    twice = np.unique(places[1:][np.diff(places) == 0] % groups)
    return [number not in twice for number in range(groups)]


def _target(chain: Chain, score: np.ndarray) -> np.ndarray:
    """What the scores should be; of a binary target its latent normal variable."""
    target = chain.examples.target
    if not chain.examples.binary:
        return target
    if chain.rng is None:
        return expected(score, target)
    return truncated(score, target, chain.rng)


def _draw_noise(chain: Chain) -> None:
    """The precision of the errors; that of a latent target is 1 by definition."""
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
    """One number of every feature: linear terms (no sums), or a factor's with its sums by example.

    Groups follow each other; within one, features that touch different examples share the
    threads, which changes no bit of the result.
    """
    noise = np.zeros(len(table))
    if chain.rng is not None:
        _draw_prior(chain, place, table)
        noise = chain.rng.standard_normal(len(table))
    mean, precision = chain.mean[place], chain.precision[place]

    def run(piece: tuple[int, int]) -> None:
        _sweep(
            *chain.columns,
            *piece,
            table,
            sums,
            chain.error,
            chain.noise_precision,
            mean,
            precision,
            noise,
        )

    for group, apart in enumerate(chain.apart):
        first, last = chain.examples.edges[group : group + 2].tolist()
        if chain.pool is not None and apart:
            list(chain.pool.map(run, _pieces(chain, first, last)))
        else:
            run((first, last))


def _pieces(chain: Chain, first: int, last: int) -> list[tuple[int, int]]:
    """The features of a group cut into ranges of about as many entries each."""
    start = chain.columns.start
    levels = np.linspace(start[first], start[last], CHUNKS * chain.threads + 1)
    cuts = np.unique(np.clip(np.searchsorted(start, levels), first, last))
    cuts[0], cuts[-1] = first, last
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist()))


def _draw_prior(chain: Chain, place: int, table: np.ndarray) -> None:
    """Precision and mean of every group, given its parameters."""
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
    """Per example the sum of value * table[column]: float64 [examples]."""
    out = np.zeros(len(start) - 1)
    for r in range(len(out)):
        for e in range(start[r], start[r + 1]):
            out[r] += value[e] * table[column[e]]
    return out


@kernel
def _sweep(start, column, value, first, last, table, sums, error, alpha, mean, precision, noise):
    """Features first to last: each to its conditional mean, plus noise in standard deviations.

    h of an example is x for a linear term, else x * (sum over the example's other features).
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
