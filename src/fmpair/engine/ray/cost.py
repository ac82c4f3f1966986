"""What a round costs: bytes that move and seconds, from the sizes of a problem and a cluster."""

from __future__ import annotations

from typing import NamedTuple

from fmpair.engine.cpu.simd import padded
from fmpair.engine.ray.training import rounds_between_checkpoints

NUMBER = 4  # bytes of a float32


class Size(NamedTuple):
    """A problem of ids alone. blocks: B of the strata plan."""

    users: int
    items: int
    events: int
    factors: int
    blocks: int


class Speed(NamedTuple):
    """What is measured on a machine, in seconds.

    step: of a core for one event; byte: for a byte to go from one process to another through the
    object store; call: of a round beside both.
    """

    step: float
    byte: float
    call: float


class Cost(NamedTuple):
    """Of a round. passed: bytes of blocks of items that go on to another worker; kept: those that
    a checkpoint brings to the driver, by round. learning, moving: seconds of these; seconds: all.
    """

    passed: float
    kept: float
    learning: float
    moving: float
    seconds: float


def cost_of_round(size: Size, speed: Speed, workers: int, cores: int | None = None) -> Cost:
    """The cost of a round by so many workers on so many cores in all (None: a core each).

    Workers pass their blocks on at the same time; a checkpoint comes in through one driver.
    """
    at_once = min(workers, cores or workers, size.blocks)
    row = NUMBER * padded(size.factors)
    passed = workers * size.items / size.blocks * (row + NUMBER)
    tables = size.users * row + size.items * (row + NUMBER)
    kept = tables / rounds_between_checkpoints(size.blocks)
    most = -(-size.blocks // at_once) * at_once / size.blocks  # who has a block more than others
    learning = size.events / size.blocks / at_once * most * speed.step
    moving = (passed / at_once + kept) * speed.byte
    return Cost(passed, kept, learning, moving, learning + moving + speed.call)
