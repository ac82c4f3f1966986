"""The latent variable behind a binary target: normal about the score, on the target's side of 0."""

from __future__ import annotations

import math

import numpy as np

from fmpair.jit import kernel

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
