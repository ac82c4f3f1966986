"""Seeds of random streams, in plain Python: `rng` would load a compiler."""

from __future__ import annotations

GOLDEN = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1


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
