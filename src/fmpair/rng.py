"""Random draws as pure functions of where they are made: (seed, epoch, cell) and a step."""

from __future__ import annotations

import numpy as np

from fmpair.jit import inline

GOLDEN = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
STEP = np.uint64(GOLDEN)  # what a stream of kernels goes on by


def mixed(value: int) -> int:
    """A 64-bit number scrambled (splitmix64), in plain integers."""
    value &= MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def stream(seed: int, *place: int) -> int:
    """The first state of the stream that belongs to a place, such as (epoch, cell)."""
    state = mixed(seed)
    for number in place:
        state = mixed(state + GOLDEN * (number + 1))
    return state


def streams(count: int, seed: int, *place: int) -> np.ndarray:
    """uint64 [count]: those of the places (*place, 0), (*place, 1), ..."""
    with np.errstate(over="ignore"):
        numbers = np.arange(1, count + 1, dtype=np.uint64)
        return scrambled(np.uint64(stream(seed, *place)) + STEP * numbers)


def scrambled(value):
    """`mixed` of uint64 numbers: uint64 in, uint64 out."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


scramble = inline(scrambled)  # for kernels


@inline
def high(draw, count):
    """A number below count (uint64) from the upper half of a draw, without division."""
    return np.int64(((draw >> np.uint64(32)) * count) >> np.uint64(32))


@inline
def low(draw, count):
    """A number below count (uint64) from the lower half of a draw."""
    return np.int64(((draw & np.uint64(0xFFFFFFFF)) * count) >> np.uint64(32))
