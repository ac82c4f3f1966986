"""A cost model of a training round: bytes and seconds, by the sizes of problem and cluster."""

from __future__ import annotations

from typing import NamedTuple

from fmpair.engine.cpu.simd import padded
from fmpair.engine.ray.exchange import rounds_between_checkpoints

NUMBER = 4  # bytes of a float32


class Size(NamedTuple):
    """A problem without features. blocks: B of the strata plan."""

    users: int
    items: int
    events: int
    factors: int
    blocks: int


class Speed(NamedTuple):
    """Measured times of a machine, in seconds.

    step: one core, one event; byte: one byte from worker to worker through the object store;
    keep: one byte of a checkpoint from a worker to the driver's tables; call: overhead of a round.
    """

    step: float
    byte: float
    keep: float
    call: float


class Cost(NamedTuple):
    """The cost of a round. passed: bytes of item blocks sent to other workers. learning, passing,
    call: seconds. kept, keeping: bytes and seconds of a checkpoint, one in every `rounds` rounds.
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
        """Seconds of a round without a checkpoint."""
        return self.learning + self.passing + self.call

    @property
    def seconds(self) -> float:
        """Seconds of a round with its share of the checkpoints."""
        return self.bare + self.keeping / self.rounds


def cost_of_round(size: Size, speed: Speed, workers: int, cores: int | None = None) -> Cost:
    """Return the cost of a round. cores: of all workers together (None: one each).

    Workers pass their blocks on in parallel; a checkpoint goes through the single driver.
    """
    at_once = min(workers, cores or workers, size.blocks)
    row = NUMBER * padded(size.factors)
    passed = workers * size.items / size.blocks * (row + NUMBER)
    kept = float(size.users * row + size.items * (row + NUMBER))
    most = -(-size.blocks // at_once) * at_once / size.blocks  # some workers have one block more
    learning = size.events / size.blocks / at_once * most * speed.step
    return Cost(
        passed, kept, learning, passed / at_once * speed.byte, kept * speed.keep, speed.call,
        rounds_between_checkpoints(size.blocks),
    )  # fmt: skip


def speed_seen(
    size: Size, speed: Speed, bare: float, both: float, workers: int, cores: int
) -> Speed:
    """Return the speed with `step` and `keep` estimated from a measured round.

    bare: seconds of a round without a checkpoint; both: of a round with one.
    """
    known = cost_of_round(size, speed._replace(step=0.0, keep=0.0), workers, cores)
    unit = cost_of_round(size, Speed(1.0, 0.0, 1.0, 0.0), workers, cores)
    step = max(bare - known.bare, 0.0) / unit.learning
    return speed._replace(step=step, keep=max(both - bare, 0.0) / unit.keeping)
