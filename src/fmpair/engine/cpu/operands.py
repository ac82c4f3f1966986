"""What the kernels are handed: flat named tuples of arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows
from fmpair.engine.contract import L2Scale
from fmpair.engine.cpu.simd import aligned, padded
from fmpair.engine.strata.field_regularisation import Accumulators

NO_L2_SCALE = L2Scale(None, None)
NO_ACCUMULATORS = Accumulators(None, None, None, None, np.float32(0), np.float32(0))


class Work(NamedTuple):
    """One cell's events: see strata.Partition. visits, weight: empty for once each, weight 1."""

    run_user: np.ndarray
    run_start: np.ndarray
    item: np.ndarray
    visits: np.ndarray
    weight: np.ndarray


class Tables(NamedTuple):
    """Ids in the order of the partition: users [users, columns], items likewise, bias [items]."""

    users: np.ndarray
    items: np.ndarray
    bias: np.ndarray


class Shared(NamedTuple):
    """A table of features shared by cells: this cell's copy, its bias, how often each row moved.

    rate, shrink: step length and the share kept in a step, by row; bias is empty on the query side.
    """

    table: np.ndarray
    bias: np.ndarray
    moves: np.ndarray
    rate: np.ndarray
    shrink: np.ndarray


class Copies(NamedTuple):
    """The cells' copies of a shared table, one a block: as `Shared`, with the copy first."""

    table: np.ndarray
    bias: np.ndarray
    moves: np.ndarray
    rate: np.ndarray
    shrink: np.ndarray

    def of(self, copy: int) -> Shared:
        """One of them, to be changed in place."""
        return Shared(self.table[copy], self.bias[copy], self.moves[copy], self.rate, self.shrink)


class Query(NamedTuple):
    """Features of the query side: contexts by event (or none), profiles by user.

    situation: int32 [events] in the order of the partition, each one's row of contexts, or empty
    where every event has a row of its own, that of event `first` first. user_at: the user of a
    position. shared: a cell's own copy of the table, or all of them.
    """

    shared: Shared | Copies
    situation: np.ndarray
    first: np.int64
    contexts: Rows
    user_at: np.ndarray
    profiles: Rows


class Attributes(NamedTuple):
    """Features of the item side; item_at: the item of a position.

    shared: as in `Query`. bias_share: 1 where attributes have a bias, else 0.
    """

    shared: Shared | Copies
    item_at: np.ndarray
    rows: Rows
    bias_share: np.float32


class Step(NamedTuple):
    """Step lengths and kept shares of the id tables."""

    user_rate: np.float32
    item_rate: np.float32
    bias_rate: np.float32
    shrink_user: np.float32
    shrink_positive: np.float32
    shrink_negative: np.float32
    shrink_bias: np.float32


# What a thread has of its own in the kernel of lists.


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
