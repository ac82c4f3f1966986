"""What a process of the cluster does: the cells of its user blocks, round by round."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from fmpair.engine.contract import NO_WEIGHT
from fmpair.engine.cpu.epoch import compiled_part, in_compiled_rounds
from fmpair.engine.cpu.layout import State
from fmpair.engine.cpu.operands import NO_ACCUMULATORS, Copies, Shared, Tables
from fmpair.engine.cpu.rounds import ThreadShare
from fmpair.engine.cpu.simd import blank
from fmpair.engine.cpu.worker import Result, cells
from fmpair.engine.ray.exchange import Block, Done, Kept, Moved, Start, Turn, writable
from fmpair.engine.ray.part import Own, Piece, read, rows_of
from fmpair.engine.strata.field_regularisation import Accumulators


class Worker:
    """One process. The rows of its users stay with it, blocks of items come and go.

    part: its users' events. tables: in the order of the assignment; of the items those blocks are
    true that it has at the moment. sums: accumulators of users and items. run: a round of its own.
    """

    def ready(self) -> bool:
        return True

    def load(self, users: int, own: Own, *pieces: Piece) -> None:
        """Take over user blocks and the events of their users, out of so many users in all."""
        self.part = None  # the old events go before the new ones come
        self.part = read(writable(own), pieces, users)

    def place(self, users: Block, items: dict[int, Block]) -> None:
        """Take over the rows of its users, and the blocks of items of the round to come."""
        assert self.part is not None
        count = (len(self.part.own.users), len(self.part.own.times))
        own, items_of_all = (blank(n, users.rows.shape[1]) for n in count)
        self.tables = Tables(own, items_of_all, np.zeros(count[1], np.float32))
        self.sums = [np.zeros(n if len(users.sums) else 0, np.float32) for n in count]
        self.tables.users[:], self.sums[0][:] = users.rows, users.sums
        for column, block in items.items():
            self._put(column, block)

    def begin(self, start: Start) -> None:
        """Begin an epoch, or go on with one, from the shared tables as they are."""
        assert self.part is not None
        own, problem, layout, number = self.part
        start, blocks = writable(start), own.settings.blocks
        visits = start.visits[number] if len(start.visits) else start.visits
        of_query = 1 if problem.history is not None else blocks
        self.state = State(
            problem, own.settings, layout.visited(visits), start.factors, start.length, self.tables,
            self._copies(start.query, of_query), self._copies(start.features, blocks),
            self._accumulators(start.sums, of_query), [None] * blocks, start.triple_shrink,
        )  # fmt: skip
        rounds = compiled_part if in_compiled_rounds(self.state) else _cell_by_cell
        self.run = rounds(self.state, start.number, start.rate, ThreadShare(*own.place))

    def round(self, turn: Turn, came: Block | None) -> tuple[Block, Done, Kept | None]:
        """(the block of items that goes on to another worker, what was done, all else it has).

        came: the block that another worker had in the round before; None where it has all it needs.
        """
        assert self.part is not None
        rows, blocks = self.part.own.rows, self.part.own.settings.blocks
        if came is not None:
            self._put((rows[-1] + turn.number) % blocks, came)
        self._bring_in(turn)
        began = time.process_time()
        results = self.run(turn.number)
        seconds = time.process_time() - began
        state = self.state
        of_items = self._moved(state.features, state.accumulators.features)
        done = Done(results, self._moved_query(), of_items, seconds)
        first, *rest = [(row + turn.number) % blocks for row in rows]
        kept = None
        if turn.keep:
            users = Block(self.tables.users, NO_WEIGHT, self.sums[0])
            kept = Kept(users, {column: self._block(column) for column in rest})
        return self._block(first), done, kept

    def _span(self, column: int) -> slice:
        assert self.part is not None
        edge = self.part.own.assignment.item_edge
        return slice(int(edge[column]), int(edge[column + 1]))

    def _put(self, column: int, block: Block) -> None:
        span = self._span(column)
        self.tables.items[span], self.tables.bias[span] = block.rows, block.bias
        if len(block.sums):
            self.sums[1][span] = block.sums

    def _block(self, column: int) -> Block:
        span = self._span(column)
        return Block(self.tables.items[span], self.tables.bias[span], self.sums[1][span])

    def _copies(self, shared: Shared | None, count: int) -> Copies | None:
        """So many copies of a shared table, of which those of the worker's own blocks are true."""
        if shared is None:
            return None
        rows, columns = shared.table.shape
        table = blank(count * rows, columns).reshape(count, rows, columns)
        bias = np.zeros((count, len(shared.bias)), np.float32)
        for row in self._rows(count):
            table[row], bias[row] = shared.table, shared.bias
        moves = np.zeros((count, rows), np.int32)
        return Copies(table, bias, moves, shared.rate, shared.shrink)

    def _accumulators(self, sums: Accumulators | None, of_query: int) -> Accumulators:
        """The same of accumulators."""
        if sums is None:
            return NO_ACCUMULATORS
        assert self.part is not None
        query = np.zeros((of_query, len(sums.query)), np.float32)
        features = np.zeros((self.part.own.settings.blocks, len(sums.features)), np.float32)
        query[self._rows(of_query)] = sums.query
        features[list(self.part.own.rows)] = sums.features
        users, items = self.sums
        return sums._replace(users=users, items=items, query=query, features=features)

    def _rows(self, count: int) -> list[int]:
        """The worker's own of so many copies: those of its user blocks, or one for all of them."""
        assert self.part is not None
        return [0] if count == 1 else list(self.part.own.rows)

    def _bring_in(self, turn: Turn) -> None:
        """What all workers made of the shared tables in the round before."""
        state = self.state
        for copies, sums, moved in (
            (state.query, state.accumulators.query, turn.query),
            (state.features, state.accumulators.features, turn.features),
        ):
            if moved is not None and copies is not None:
                for row in self._rows(len(copies.table)):
                    _take_over(copies.of(row), None if sums is None else sums[row], moved)

    def _moved_query(self) -> list[Moved]:
        assert self.part is not None
        state = self.state
        if self.part.problem.history is None:
            return self._moved(state.query, state.accumulators.query)
        found = []
        for row in self.part.own.rows:
            piece = state.pieces[row]
            own = _moved(piece.shared, piece.accumulators)
            found.append(own._replace(feature=piece.feature[own.feature]))
        return found

    def _moved(self, copies: Copies | None, sums: np.ndarray | None) -> list[Moved]:
        if copies is None:
            return []
        rows = self._rows(len(copies.table))
        return [_moved(copies.of(row), None if sums is None else sums[row]) for row in rows]


def _cell_by_cell(
    state: State, epoch: int, rate: float, part: ThreadShare
) -> Callable[[int], list[Result]]:
    """The cells of a round one after the other, where compiled code cannot do a round by itself."""
    run, blocks = cells(state, epoch, rate, np.zeros(1, np.int64)), state.settings.blocks
    rows = rows_of(blocks, part)
    return lambda turn: [(row, *run(row, (row + turn) % blocks)) for row in rows]


def _moved(copy: Shared, sums: np.ndarray | None) -> Moved:
    """The rows that a cell moved."""
    feature = np.flatnonzero(copy.moves).astype(np.int32)
    bias = copy.bias[feature] if len(copy.bias) else NO_WEIGHT
    own = NO_WEIGHT if sums is None else sums[feature]
    return Moved(feature, copy.table[feature], bias, own, copy.moves[feature])


def _take_over(copy: Shared, sums: np.ndarray | None, moved: Moved) -> None:
    copy.table[moved.feature] = moved.rows
    if len(copy.bias):
        copy.bias[moved.feature] = moved.bias
    if sums is not None:
        sums[moved.feature] = moved.sums
    copy.moves[:] = 0
