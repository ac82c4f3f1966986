"""A checkpoint: what the workers have at the end of a round becomes what the driver has."""

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

# What the driver and its workers tell each other in the course of a training.


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


# The shared tables between two rounds: what the workers' cells made of them, brought together.
#
# The driver writes what each cell moved into that cell's copy and merges the copies as the CPU
# engine
# does: the same numbers in the same order.


class Merging:
    """The shared tables of a training, and what workers are still to be told of them."""

    def __init__(self, whole: CPUTraining) -> None:
        self.whole = whole
        self.query: Moved | None = None
        self.features: Moved | None = None

    @property
    def needed(self) -> bool:
        """Whether there are any such tables."""
        return bool(self.whole.query or self.whole.features)

    @property
    def lends(self) -> bool:
        """Whether histories have the items' vectors."""
        history = self.whole.problem.history
        return history is not None and history.shared

    @property
    def sums(self) -> Accumulators | None:
        """The accumulators of users and items, by the problem's numbers."""
        sums = self.whole.accumulators
        return None if sums.users is None else sums

    def lend(self) -> None:
        self.whole._share_items()

    def start(self, number: int, rate: float, visits: np.ndarray) -> Start:
        """What workers must know to begin, or to go on with, an epoch."""
        whole, sums = self.whole, self.sums
        self.query = self.features = None  # all of it is said here
        if sums is not None:
            own = {"query": sums.query[0], "features": sums.features[0]}
            sums = sums._replace(users=NO_WEIGHT, items=NO_WEIGHT, **own)
        query = whole.query.of(0) if whole.query else None
        features = whole.features.of(0) if whole.features else None
        return Start(
            number, rate, whole.factors, whole.length, query, features, sums, visits,
            whole.triple_shrink,
        )  # fmt: skip

    def turn(self, number: int, keep: bool) -> Turn:
        return Turn(number, self.query, self.features, keep)

    def bring_together(self, found: list[Done]) -> None:
        """The copies of a round, of all workers in their order, merged."""
        query = [writable(moved) for done in found for moved in done.query]
        features = [writable(moved) for done in found for moved in done.features]
        whole, sums = self.whole, self.whole.accumulators
        if whole.problem.history is not None:
            whole.pieces[:] = [_piece(moved, self.sums is not None) for moved in query]
        elif whole.query is not None:
            _write(whole.query, sums.query, query)
        if whole.features is not None:
            _write(whole.features, sums.features, features)
        whole._merge()
        self.query = _together(whole.query, sums.query, query)
        self.features = _together(whole.features, sums.features, features)

    def plain_layout(self) -> EventLayout:
        """The layout in which users and items stand by their numbers, without events."""
        problem, settings = self.whole.problem, self.whole.settings
        users, items = (np.arange(n, dtype=np.int32) for n in (problem.users, problem.items))
        edge, none = np.array([0, len(items)]), np.zeros(1, np.int32)
        cell = np.zeros(2, np.int64)
        partition = Partition(users, items, edge, cell, NO_NUMBERS, none, NO_NUMBERS, NO_NUMBERS)
        times = np.ones(len(items), np.int64)
        start = np.zeros(len(users) + 1, np.int64)
        events = EventsByUser(start, NO_NUMBERS, NO_NUMBERS, times, problem.drawn)
        return laid_out(problem._replace(impressions=None), settings, events, partition)


def _piece(moved: Moved, has_sums: bool) -> QueryPiece:
    shared = Shared(moved.rows, NO_WEIGHT, moved.moves, NO_WEIGHT, NO_WEIGHT)
    return QueryPiece(moved.feature, shared, moved.sums if has_sums else None)


def _write(copies: Copies, sums: np.ndarray | None, moved: list[Moved]) -> None:
    """What each cell moved, in its copy."""
    for number, own in enumerate(moved):
        copy = copies.of(number)
        copy.table[own.feature], copy.moves[own.feature] = own.rows, own.moves
        if len(copy.bias):
            copy.bias[own.feature] = own.bias
        if sums is not None:
            sums[number][own.feature] = own.sums


def _together(copies: Copies | None, sums: np.ndarray | None, moved: list[Moved]) -> Moved | None:
    """What the rows that any cell moved are now."""
    if copies is None:
        return None
    feature = np.unique(np.concatenate([own.feature for own in moved]))
    copy = copies.of(0)
    bias = copy.bias[feature] if len(copy.bias) else NO_WEIGHT
    return Moved(
        feature, copy.table[feature], bias, NO_WEIGHT if sums is None else sums[0][feature]
    )


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
