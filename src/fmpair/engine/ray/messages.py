"""What the driver and its workers tell each other in the course of a training."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fmpair.engine.cpu.operands import Shared
from fmpair.engine.shard import NO_NUMBERS
from fmpair.engine.strata.accumulators import Accumulators


class Block(NamedTuple):
    """Rows of users or items: vectors, constants of items, accumulators of AdaGrad or none."""

    rows: np.ndarray
    bias: np.ndarray
    sums: np.ndarray


class Start(NamedTuple):
    """What an epoch begins with, or goes on with, the same for all workers.

    factors, length, triple_shrink: see `State`. query, features: the tables that cells share, as
    they are now, or None; sums: their accumulators, those of users and items left out, or None.
    visits: how often each event is learned from, by the problem's numbers, or empty.
    """

    number: int
    rate: float
    factors: int
    length: int
    query: Shared | None
    features: Shared | None
    sums: Accumulators | None
    visits: np.ndarray
    triple_shrink: tuple[np.ndarray, np.ndarray]


class Moved(NamedTuple):
    """Rows of a shared table: what a cell made of them and how often it moved each.

    feature, moves: int32. Between two rounds the same says what all cells made of them together;
    moves are empty then.
    """

    feature: np.ndarray
    rows: np.ndarray
    bias: np.ndarray
    sums: np.ndarray
    moves: np.ndarray = NO_NUMBERS


class Turn(NamedTuple):
    """A round to be done. query, features: what the last round made of the shared tables.

    keep: all that a worker has is to be reported.
    """

    number: int
    query: Moved | None = None
    features: Moved | None = None
    keep: bool = False


class Done(NamedTuple):
    """What a worker did in a round: (cell, loss, steps) of each, and what it moved, by user block.

    query, features: empty where there are no such tables. seconds: of a core, for the cells
    alone.
    """

    results: list[tuple[int, float, int]]
    query: list[Moved]
    features: list[Moved]
    seconds: float


class Kept(NamedTuple):
    """What a worker has at the end of a round, beside the block of items that it passes on."""

    users: Block
    items: dict[int, Block]


def writable(value: Any) -> Any:
    """The same with arrays of this process: those of the object store cannot be written to.

    Kernels would be compiled once more for such arrays.
    """
    if isinstance(value, np.ndarray):
        return value if value.flags.writeable else value.copy()
    if isinstance(value, tuple):
        inner = [writable(one) for one in value]
        return type(value)(*inner) if hasattr(value, "_fields") else tuple(inner)
    return value
