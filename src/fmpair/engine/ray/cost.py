"""What a round costs: bytes that move and seconds, from the sizes of a problem and a cluster."""

from __future__ import annotations

from typing import NamedTuple

from fmpair.engine.cpu.simd import padded
from fmpair.engine.ray.exchange import rounds_between_checkpoints

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

    step: of a core for one event; byte: for a byte to go from one worker to another through the
    object store; keep: for a byte of a checkpoint to go from a worker into the driver's tables;
    call: of a round beside all these.
    """

    step: float
    byte: float
    keep: float
    call: float


class Cost(NamedTuple):
    """Of a round. passed: bytes of blocks of items that go on to another worker; learning, passing,
    call: its seconds. kept, keeping: bytes and seconds of a checkpoint, one in so many rounds.
    """

    passed: float
    kept: float
    learning: float
    passing: float
    keeping: float
    call: float
    rounds: int

    @property
    def bare(self) -> float:
        """Seconds of a round that no checkpoint follows."""
        return self.learning + self.passing + self.call

    @property
    def seconds(self) -> float:
        """Seconds of a round with its share of the checkpoints."""
        return self.bare + self.keeping / self.rounds


def cost_of_round(size: Size, speed: Speed, workers: int, cores: int | None = None) -> Cost:
    """The cost of a round by so many workers on so many cores in all (None: a core each).

    Workers pass their blocks on at the same time; a checkpoint comes in through one driver.
    """
    at_once = min(workers, cores or workers, size.blocks)
    row = NUMBER * padded(size.factors)
    passed = workers * size.items / size.blocks * (row + NUMBER)
    kept = float(size.users * row + size.items * (row + NUMBER))
    most = -(-size.blocks // at_once) * at_once / size.blocks  # who has a block more than others
    learning = size.events / size.blocks / at_once * most * speed.step
    return Cost(
        passed, kept, learning, passed / at_once * speed.byte, kept * speed.keep, speed.call,
        rounds_between_checkpoints(size.blocks),
    )  # fmt: skip


def speed_seen(
    size: Size, found: Speed, bare: float, both: float, workers: int, cores: int
) -> Speed:
    """The speed with `step` and `keep` that explain a measured round.

    bare: seconds of a round that no checkpoint follows; both: of a round and a checkpoint.
    """
    known = cost_of_round(size, found._replace(step=0.0, keep=0.0), workers, cores)
    unit = cost_of_round(size, Speed(1.0, 0.0, 1.0, 0.0), workers, cores)
    step = max(bare - known.bare, 0.0) / unit.learning
    return found._replace(step=step, keep=max(both - bare, 0.0) / unit.keeping)
