"""The arguments of the kernels: flat named tuples of arrays, and the scratch buffers of a thread.
"""

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
    """The events of all cells: see strata.Partition. visits, weight: empty for once each, weight 1.
    """

    run_user: np.ndarray
    run_start: np.ndarray
    item: np.ndarray
    visits: np.ndarray
    weight: np.ndarray


class Tables(NamedTuple):
    """Id tables in partition order: users [users, columns], items likewise, bias [items]."""

    users: np.ndarray
    items: np.ndarray
    bias: np.ndarray


class Shared(NamedTuple):
    """One cell's copy of a table of features that all cells share.

    moves: how often each row moved. rate, shrink: step length and kept share per step, by row.
    bias: empty on the query side.
    """

    table: np.ndarray
    bias: np.ndarray
    moves: np.ndarray
    rate: np.ndarray
    shrink: np.ndarray


class Copies(NamedTuple):
    """All cells' copies of a shared table, one per block: as `Shared`, with the copy as first axis.
    """

    table: np.ndarray
    bias: np.ndarray
    moves: np.ndarray
    rate: np.ndarray
    shrink: np.ndarray

    def of(self, copy: int) -> Shared:
        """Return one of the copies, to be changed in place."""
        return Shared(self.table[copy], self.bias[copy], self.moves[copy], self.rate, self.shrink)


class Query(NamedTuple):
    """Features of the query side: contexts by event, profiles by user.

    situation: int32 [events] in partition order, each event's row of contexts; empty where every
    event has its own row, beginning with event `first`. user_at: the user at a position. shared: a
    cell's copy of the table, or all copies.
    """

    shared: Shared | Copies
    situation: np.ndarray
    first: np.int64
    contexts: Rows
    user_at: np.ndarray
    profiles: Rows


class Attributes(NamedTuple):
    """Features of the item side, by position (item_at). bias_share: 1 where they have a bias, else
    0."""

    shared: Shared | Copies
    item_at: np.ndarray
    rows: Rows
    bias_share: np.float32


class StepSizes(NamedTuple):
    """Step lengths and kept shares of the id tables."""

    user_rate: np.float32
    item_rate: np.float32
    bias_rate: np.float32
    shrink_user: np.float32
    shrink_positive: np.float32
    shrink_negative: np.float32
    shrink_bias: np.float32


class ScratchBuffers(NamedTuple):
    """Buffers of a thread in the kernel of lists. One entry per item of a list, the positive first.

    scratch: row 0 the query, then the item sides, their weighted sum, and zeros. rows: 1, 2, ...:
    the rows of the sides. constant, square: of the sides, the latter squared lengths; constants
    become corrected scores. coef: factor of an item's vector in the user's gradient. along,
    own_coef: factors of the query and of the side itself in an item's gradient. chances: see
    lists.weigh_factors. mine, impressions: [items of a block], the user's items, and items shown
    to the user. kept: dropout, see lists.draw_dropout. own_rate, own_l2, norm, grads: see
    `optimizer`; None where all rows of a table have the same rate. triple_shrink: as shrink, of
    triple vectors, or None. stopped: int64, shared by threads: above 0 to stop.
    """

    scratch: np.ndarray
    rows: np.ndarray
    member: np.ndarray
    score: np.ndarray
    constant: np.ndarray
    slope: np.ndarray
    square: np.ndarray
    coef: np.ndarray
    along: np.ndarray
    own_coef: np.ndarray
    shrink: np.ndarray
    chances: np.ndarray
    mine: np.ndarray
    impressions: np.ndarray
    kept: np.ndarray
    own_rate: np.ndarray | None = None
    own_l2: np.ndarray | None = None
    norm: np.ndarray | None = None
    grads: np.ndarray | None = None
    triple_shrink: np.ndarray | None = None
    stopped: np.ndarray = np.zeros(1, np.int64)


def buffers_for(candidates: int, factors: int, items: int) -> ScratchBuffers:
    """Return buffers for lists of `candidates` negatives, from blocks of at most `items` items."""
    size = candidates + 1
    scratch = aligned(np.zeros((size + 3, padded(factors)), np.float32))
    numbers = (np.ones(size, np.float32) for _ in range(8))
    rows = np.arange(1, size + 1, dtype=np.int32)
    chances = np.zeros(factors + 1, np.float32)
    mine, impressions = np.zeros(items, np.int32), np.zeros(items, np.int32)
    of_user = (chances, mine, impressions, np.ones(factors, np.float32))
    return ScratchBuffers(scratch, rows, np.zeros(size, np.int32), *numbers, *of_user)


def with_own_rates(buffers: ScratchBuffers, accumulators: Accumulators) -> ScratchBuffers:
    """Add buffers for a step length per row, and for gradients where AdaGrad needs them."""
    own_rate, own_l2, norm = (np.ones(len(buffers.shrink), np.float32) for _ in range(3))
    buffers = buffers._replace(own_rate=own_rate, own_l2=own_l2)
    if accumulators.features is None:
        return buffers
    grads = aligned(np.zeros((len(accumulators.features), buffers.scratch.shape[1]), np.float32))
    return buffers._replace(norm=norm, grads=grads)
