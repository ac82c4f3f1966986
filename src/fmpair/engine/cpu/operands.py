"""What the kernels are handed: flat named tuples of arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows
from fmpair.engine.contract import L2Scale
from fmpair.engine.strata.accumulators import Accumulators

NO_L2_SCALE = L2Scale(None, None)  # type: ignore[arg-type]
NO_ACCUMULATORS = Accumulators(None, None, None, None, np.float32(0), np.float32(0))  # type: ignore[arg-type]


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
