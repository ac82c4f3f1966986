"""A checkpoint: what the workers have at the end of a round becomes what the driver has."""

from __future__ import annotations

import numpy as np

from fmpair.engine.contract import Parameters
from fmpair.engine.ray.messages import Kept
from fmpair.engine.strata.accumulators import Accumulators
from fmpair.engine.strata.assignment import Assignment
from fmpair.jit import kernel
from fmpair.threads import side_by_side

CHECKPOINTS = 8  # an epoch, at least, where no shared table asks for one after every round
AT_ONCE = 1 << 16  # rows that a thread puts in their places at a time


def rounds_between_checkpoints(blocks: int) -> int:
    """Where no tables are shared: those have one after every round."""
    return max(blocks // CHECKPOINTS, 1)


def take_over(
    tables: Parameters,
    sums: Accumulators | None,
    assignment: Assignment,
    rows: range,
    kept: Kept,
) -> None:
    """Put what a worker with these user blocks has into tables that go by the problem's numbers.

    sums: the accumulators, which go with them, or None.
    """
    user_at, user_edge, item_edge = assignment.user_at, assignment.user_edge, assignment.item_edge
    users = user_at[user_edge[rows.start] : user_edge[rows.stop]]
    _put_all(tables.users, users, kept.users.rows)
    if sums:
        sums.users[users] = kept.users.sums
    for column, block in kept.items.items():
        items = assignment.item_at[item_edge[column] : item_edge[column + 1]]
        _put_all(tables.items, items, block.rows)
        tables.item_bias[items] = block.bias
        if sums:
            sums.items[items] = block.sums


def _put_all(table: np.ndarray, places: np.ndarray, rows: np.ndarray) -> None:
    """table[places] = rows by all threads: the workers of this machine wait for it."""

    def run(first: int) -> None:
        some = slice(first, first + AT_ONCE)
        _put(table, places[some], rows[some])

    firsts = range(0, len(places), AT_ONCE)
    side_by_side(run, firsts, None if len(firsts) > 1 else 1)


@kernel
def _put(table, places, rows):
    """A row at a time: NumPy takes more than twice as long."""
    for n in range(len(places)):
        for k in range(rows.shape[1]):
            table[places[n], k] = rows[n, k]
