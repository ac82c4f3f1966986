"""What a thread has of its own in the kernel of lists."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fmpair.engine.cpu.simd import aligned, padded
from fmpair.engine.strata.accumulators import Accumulators


class Room(NamedTuple):
    """A thread's own arrays. One entry per item of a list, the chosen one first.

    scratch: 0 the query, from 1 on the item sides, then their weighted sum, then zeros.
    places: 1, 2, ...: where the sides stand. constant, square: of the sides, the latter squared
    lengths; constants make way for corrected scores. coef: of an item's vector in the user's way.
    along, own: of the query and of the side itself in an item's way. chances: see
    sampling.weigh_factors. mine, impressions: the items that the user at work has, and those the
    user was shown, as many as a block has. kept: see `engine.cpu.dropout`.
    own_rate, own_l2, norm, ways: see `optimizer`; None where all rows of a table go alike.
    triple_shrink: as shrink, of vectors of triples; None where there are none.
    stopped: int64, not the thread's own: above 0 where all shall end as soon as they can.
    """

    scratch: np.ndarray
    places: np.ndarray
    member: np.ndarray
    score: np.ndarray
    constant: np.ndarray
    slope: np.ndarray
    square: np.ndarray
    coef: np.ndarray
    along: np.ndarray
    own: np.ndarray
    shrink: np.ndarray
    chances: np.ndarray
    mine: np.ndarray
    impressions: np.ndarray
    kept: np.ndarray
    own_rate: np.ndarray | None = None
    own_l2: np.ndarray | None = None
    norm: np.ndarray | None = None
    ways: np.ndarray | None = None
    triple_shrink: np.ndarray | None = None
    stopped: np.ndarray = np.zeros(1, np.int64)


def room_for(candidates: int, factors: int, items: int) -> Room:
    """A thread's arrays for lists of so many candidates, from blocks of at most so many items."""
    size = candidates + 1
    scratch = aligned(np.zeros((size + 3, padded(factors)), np.float32))
    numbers = (np.ones(size, np.float32) for _ in range(8))
    places = np.arange(1, size + 1, dtype=np.int32)
    chances = np.zeros(factors + 1, np.float32)
    mine, impressions = np.zeros(items, np.int32), np.zeros(items, np.int32)
    own = (chances, mine, impressions, np.ones(factors, np.float32))
    return Room(scratch, places, np.zeros(size, np.int32), *numbers, *own)


def with_own_rates(room: Room, accumulators: Accumulators) -> Room:
    """The same with room for every row's own step length, and for gradients where AdaGrad needs."""
    own_rate, own_l2, norm = (np.ones(len(room.shrink), np.float32) for _ in range(3))
    room = room._replace(own_rate=own_rate, own_l2=own_l2)
    if accumulators.features is None:
        return room
    ways = aligned(np.zeros((len(accumulators.features), room.scratch.shape[1]), np.float32))
    return room._replace(norm=norm, ways=ways)
