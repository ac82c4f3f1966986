"""Random draws as pure functions of their position, such as (seed, epoch, cell) and step."""

from __future__ import annotations

import numpy as np

from fmpair.jit import inline

GOLDEN = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
STEP = np.uint64(GOLDEN)  # the increment of a stream, for kernels


def mixed(value: int) -> int:
    """Scramble a 64-bit integer (splitmix64), in plain Python."""
    value &= MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def stream(seed: int, *place: int) -> int:
    """Return the first state of the random stream of a position, such as (epoch, cell)."""
    state = mixed(seed)
    for number in place:
        state = mixed(state + GOLDEN * (number + 1))
    return state


def streams(count: int, seed: int, *place: int) -> np.ndarray:
    """Return the first states of the streams (*place, 0), (*place, 1), ...: uint64 [count]."""
    with np.errstate(over="ignore"):
        numbers = np.arange(1, count + 1, dtype=np.uint64)
        return scrambled(np.uint64(stream(seed, *place)) + STEP * numbers)


def scrambled(value):
    """Apply `mixed` to uint64 numbers."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


scramble = inline(scrambled)  # for kernels


@inline
def high(draw, count):
    """Return a number below count (uint64) from the upper half of a draw, without division."""
    return np.int64(((draw >> np.uint64(32)) * count) >> np.uint64(32))


@inline
def low(draw, count):
    """Return a number below count (uint64) from the lower half of a draw."""
    return np.int64(((draw & np.uint64(0xFFFFFFFF)) * count) >> np.uint64(32))
