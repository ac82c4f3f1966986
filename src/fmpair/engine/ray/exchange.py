"""What the driver and its workers exchange: rounds, shared tables, and checkpoints."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fmpair.engine.contract import NO_NUMBERS, NO_WEIGHT, Parameters
from fmpair.engine.cpu.cpu_training import CPUTraining
from fmpair.engine.cpu.layout import EventLayout, laid_out
from fmpair.engine.cpu.operands import Copies, Shared
from fmpair.engine.cpu.worker import QueryPiece
from fmpair.engine.strata.field_regularisation import Accumulators
from fmpair.engine.strata.partition import Assignment, EventsByUser, Partition
from fmpair.jit import kernel
from fmpair.threads import side_by_side

CHECKPOINTS = 8  # least number per epoch; training with shared tables has one after every round
AT_ONCE = 1 << 16  # rows that a thread copies at a time


# Messages.


class TableBlock(NamedTuple):
    """Rows of users or items: vectors, item constants, AdaGrad accumulators (or none)."""

    rows: np.ndarray
    bias: np.ndarray
    sums: np.ndarray


class EpochStart(NamedTuple):
    """What all workers need to start or continue an epoch.

    factors, length, triple_shrink: see `State`. query, features: the shared tables, or None;
    sums: their accumulators without those of users and items, or None. visits: how often each
    event is visited, by the problem's numbers, or empty.
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


class ChangedRows(NamedTuple):
    """Rows of a shared table changed by a cell, and how often each was updated.

    feature, moves: int32. For merged changes of all cells, moves is empty.
    """

    feature: np.ndarray
    rows: np.ndarray
    bias: np.ndarray
    sums: np.ndarray
    moves: np.ndarray = NO_NUMBERS


class RoundOrder(NamedTuple):
    """A round to run. query, features: changes of the shared tables in the last round.

    keep: whether the worker reports all its rows.
    """

    number: int
    query: ChangedRows | None = None
    features: ChangedRows | None = None
    keep: bool = False


class RoundResult(NamedTuple):
    """A worker's round: (cell, loss, steps) of each cell, and changed rows by user block.

    query, features: empty without such tables. seconds: of CPU time, for the cells only.
    """

    results: list[tuple[int, float, int]]
    query: list[ChangedRows]
    features: list[ChangedRows]
    seconds: float


class WorkerRows(NamedTuple):
    """All rows of a worker after a round, except the item block that it passes on."""

    users: TableBlock
    items: dict[int, TableBlock]


def writable(value: Any) -> Any:
    """Copy read-only arrays of the object store; kernels would be compiled again for those."""
    if isinstance(value, np.ndarray):
        return value if value.flags.writeable else value.copy()
    if isinstance(value, tuple):
        inner = [writable(member) for member in value]
        return type(value)(*inner) if hasattr(value, "_fields") else tuple(inner)
    return value


# Shared tables between two rounds. The driver writes the changes of each cell into that cell's copy
# and merges the copies as the CPU engine does: the same numbers in the same order.


class Merging:
    """The shared tables of a training, and their changes that workers do not know yet."""

    def __init__(self, whole: CPUTraining) -> None:
        self.whole = whole
        self.query: ChangedRows | None = None
        self.features: ChangedRows | None = None

    @property
    def needed(self) -> bool:
        """Whether there are shared tables."""
        return bool(self.whole.query or self.whole.features)

    @property
    def shares_items(self) -> bool:
        """Whether histories use the items' vectors."""
        history = self.whole.problem.history
        return history is not None and history.shared

    @property
    def sums(self) -> Accumulators | None:
        """The accumulators of users and items, by the problem's numbers."""
        sums = self.whole.accumulators
        return None if sums.users is None else sums

    def start(self, number: int, rate: float, visits: np.ndarray) -> EpochStart:
        """Return what workers need to start or continue an epoch."""
        whole, sums = self.whole, self.sums
        self.query = self.features = None  # the whole tables are sent
        if sums is not None:
            first_copy = {"query": sums.query[0], "features": sums.features[0]}
            sums = sums._replace(users=NO_WEIGHT, items=NO_WEIGHT, **first_copy)
        query = whole.query.of(0) if whole.query else None
        features = whole.features.of(0) if whole.features else None
        return EpochStart(
            number, rate, whole.factors, whole.length, query, features, sums, visits,
            whole.triple_shrink,
        )  # fmt: skip

    def round(self, number: int, keep: bool) -> RoundOrder:
        return RoundOrder(number, self.query, self.features, keep)

    def merge(self, results: list[RoundResult]) -> None:
        """Merge the changes of a round, of all workers in their order."""
        query = [writable(changed) for result in results for changed in result.query]
        features = [writable(changed) for result in results for changed in result.features]
        whole, sums = self.whole, self.whole.accumulators
        if whole.problem.history is not None:
            whole.pieces[:] = [_piece(changed, self.sums is not None) for changed in query]
        elif whole.query is not None:
            _write(whole.query, sums.query, query)
        if whole.features is not None:
            _write(whole.features, sums.features, features)
        whole._merge()
        self.query = _merged(whole.query, sums.query, query)
        self.features = _merged(whole.features, sums.features, features)

    def plain_layout(self) -> EventLayout:
        """Return a layout without events, in which users and items keep their numbers."""
        problem, settings = self.whole.problem, self.whole.settings
        users, items = (np.arange(n, dtype=np.int32) for n in (problem.users, problem.items))
        edge, none = np.array([0, len(items)]), np.zeros(1, np.int32)
        cell = np.zeros(2, np.int64)
        partition = Partition(users, items, edge, cell, NO_NUMBERS, none, NO_NUMBERS, NO_NUMBERS)
        times = np.ones(len(items), np.int64)
        start = np.zeros(len(users) + 1, np.int64)
        events = EventsByUser(start, NO_NUMBERS, NO_NUMBERS, times, problem.drawn)
        return laid_out(problem._replace(impressions=None), settings, events, partition)


def _piece(changed: ChangedRows, has_sums: bool) -> QueryPiece:
    shared = Shared(changed.rows, NO_WEIGHT, changed.moves, NO_WEIGHT, NO_WEIGHT)
    return QueryPiece(changed.feature, shared, changed.sums if has_sums else None)


def _write(copies: Copies, sums: np.ndarray | None, changes: list[ChangedRows]) -> None:
    """Write the changes of each cell into its copy."""
    for number, changed in enumerate(changes):
        copy = copies.of(number)
        overwrite(copy, None if sums is None else sums[number], changed)
        copy.moves[changed.feature] = changed.moves


def _merged(
    copies: Copies | None, sums: np.ndarray | None, changes: list[ChangedRows]
) -> ChangedRows | None:
    """Return the merged rows that any cell changed."""
    if copies is None:
        return None
    feature = np.unique(np.concatenate([changed.feature for changed in changes]))
    return rows_at(feature, copies.of(0), None if sums is None else sums[0])


def rows_at(feature: np.ndarray, copy: Shared, sums: np.ndarray | None) -> ChangedRows:
    """Return some rows of a copy of a shared table, without how often they were updated."""
    bias = copy.bias[feature] if len(copy.bias) else NO_WEIGHT
    accumulated = NO_WEIGHT if sums is None else sums[feature]
    return ChangedRows(feature, copy.table[feature], bias, accumulated)


def overwrite(copy: Shared, sums: np.ndarray | None, changed: ChangedRows) -> None:
    """Write changed rows into a copy of a shared table and into its accumulators, if any."""
    copy.table[changed.feature] = changed.rows
    if len(copy.bias):
        copy.bias[changed.feature] = changed.bias
    if sums is not None:
        sums[changed.feature] = changed.sums


# Checkpoints: the rows of all workers are copied into the driver's tables.


def rounds_between_checkpoints(blocks: int) -> int:
    """Return the rounds between checkpoints without shared tables."""
    return max(blocks // CHECKPOINTS, 1)


def store_rows(
    tables: Parameters,
    sums: Accumulators | None,
    assignment: Assignment,
    rows: range,
    kept: WorkerRows,
) -> None:
    """Copy the rows of a worker with these user blocks into tables by the problem's numbers.

    sums: the accumulators, updated likewise, or None.
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
    """Set table[places] = rows with all threads, since workers of this machine wait for it."""

    def run(first: int) -> None:
        some = slice(first, first + AT_ONCE)
        _put(table, places[some], rows[some])

    firsts = range(0, len(places), AT_ONCE)
    side_by_side(run, firsts, None if len(firsts) > 1 else 1)


@kernel
def _put(table, places, rows):
    """Set table[places] = rows; NumPy takes more than twice as long."""
    for n in range(len(places)):
        for k in range(rows.shape[1]):
            table[places[n], k] = rows[n, k]
