"""A worker process: trains the cells of its user blocks, round by round."""

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
from fmpair.engine.item_side import joint_steepness
from fmpair.engine.ray.exchange import (
    ChangedRows,
    EpochStart,
    RoundOrder,
    RoundResult,
    TableBlock,
    WorkerRows,
    writable,
)
from fmpair.engine.ray.part import EventSource, WorkerPlan, read, rows_of
from fmpair.engine.strata.field_regularisation import Accumulators
from fmpair.threads import blas_on


class Worker:
    """A worker process. The rows of its users stay with it; item blocks come and go.

    part: its users' events. tables: in the order of the assignment; only the item blocks it has at
    the moment are valid. sums: accumulators of users and items. run: trains the cells of a round.
    """

    def ready(self) -> bool:
        return True

    def load(self, users: int, plan: WorkerPlan, *sources: EventSource) -> None:
        """Receive user blocks and the events of their users; users: the number of all users."""
        self.part = None  # free the old events first
        self.part = read(writable(plan), sources, users)
        problem = self.part.problem
        self.joint = joint_steepness(problem.item_groups, problem.item_rows)

    def place(self, users: TableBlock, items: dict[int, TableBlock]) -> None:
        """Receive the rows of its users and the item blocks of the next round."""
        assert self.part is not None
        count = (len(self.part.plan.users), len(self.part.plan.times))
        users_of_worker, items_of_all = (blank(n, users.rows.shape[1]) for n in count)
        self.tables = Tables(users_of_worker, items_of_all, np.zeros(count[1], np.float32))
        self.sums = [np.zeros(n if len(users.sums) else 0, np.float32) for n in count]
        self.tables.users[:], self.sums[0][:] = users.rows, users.sums
        for column, block in items.items():
            self._put(column, block)

    def begin(self, start: EpochStart) -> None:
        """Start or continue an epoch."""
        assert self.part is not None
        plan, problem, layout, number = self.part
        start, blocks = writable(start), plan.settings.blocks
        visits = start.visits[number] if len(start.visits) else start.visits
        of_query = 1 if problem.history is not None else blocks
        self.state = State(
            problem, plan.settings, layout.visited(visits), start.factors, start.length,
            self.tables, self._copies(start.query, of_query), self._copies(start.features, blocks),
            self._accumulators(start.sums, of_query), [None] * blocks, start.triple_shrink,
            joint=self.joint,
        )  # fmt: skip
        rounds = compiled_part if in_compiled_rounds(self.state) else _cell_by_cell
        self.run = rounds(self.state, start.number, start.rate, ThreadShare(*plan.place))

    def round(
        self, order: RoundOrder, received: TableBlock | None
    ) -> tuple[TableBlock, RoundResult, WorkerRows | None]:
        """Train a round; return the item block to pass on, the result, and its other rows.

        received: the block passed on by another worker, or None if this one has all it needs.
        """
        assert self.part is not None
        rows, blocks = self.part.plan.rows, self.part.plan.settings.blocks
        if received is not None:
            self._put((rows[-1] + order.number) % blocks, received)
        self._apply(order)
        began = time.process_time()
        results = self.run(order.number)
        seconds = time.process_time() - began
        state = self.state
        of_items = self._changed(state.features, state.accumulators.features)
        done = RoundResult(results, self._changed_query(), of_items, seconds)
        first, *rest = [(row + order.number) % blocks for row in rows]
        kept = None
        if order.keep:
            users = TableBlock(self.tables.users, NO_WEIGHT, self.sums[0])
            kept = WorkerRows(users, {column: self._block(column) for column in rest})
        return self._block(first), done, kept

    def _span(self, column: int) -> slice:
        assert self.part is not None
        edge = self.part.plan.assignment.item_edge
        return slice(int(edge[column]), int(edge[column + 1]))

    def _put(self, column: int, block: TableBlock) -> None:
        span = self._span(column)
        self.tables.items[span], self.tables.bias[span] = block.rows, block.bias
        if len(block.sums):
            self.sums[1][span] = block.sums

    def _block(self, column: int) -> TableBlock:
        span = self._span(column)
        return TableBlock(self.tables.items[span], self.tables.bias[span], self.sums[1][span])

    def _copies(self, shared: Shared | None, count: int) -> Copies | None:
        """Allocate copies of a shared table; only those of the worker's blocks are filled."""
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
        """Allocate copies of the accumulators likewise."""
        if sums is None:
            return NO_ACCUMULATORS
        assert self.part is not None
        query = np.zeros((of_query, len(sums.query)), np.float32)
        features = np.zeros((self.part.plan.settings.blocks, len(sums.features)), np.float32)
        query[self._rows(of_query)] = sums.query
        features[list(self.part.plan.rows)] = sums.features
        users, items = self.sums
        return sums._replace(users=users, items=items, query=query, features=features)

    def _rows(self, count: int) -> list[int]:
        """Return the worker's copies: those of its user blocks, or the only one."""
        assert self.part is not None
        return [0] if count == 1 else list(self.part.plan.rows)

    def _apply(self, order: RoundOrder) -> None:
        """Apply the changes of all workers to the shared tables in the last round."""
        state = self.state
        for copies, sums, changed in (
            (state.query, state.accumulators.query, order.query),
            (state.features, state.accumulators.features, order.features),
        ):
            if changed is not None and copies is not None:
                for row in self._rows(len(copies.table)):
                    _overwrite(copies.of(row), None if sums is None else sums[row], changed)

    def _changed_query(self) -> list[ChangedRows]:
        assert self.part is not None
        state = self.state
        if self.part.problem.history is None:
            return self._changed(state.query, state.accumulators.query)
        changes = []
        for row in self.part.plan.rows:
            piece = state.pieces[row]
            changed = _changed_rows(piece.shared, piece.accumulators)
            changes.append(changed._replace(feature=piece.feature[changed.feature]))
        return changes

    def _changed(self, copies: Copies | None, sums: np.ndarray | None) -> list[ChangedRows]:
        if copies is None:
            return []
        rows = self._rows(len(copies.table))
        return [_changed_rows(copies.of(row), None if sums is None else sums[row]) for row in rows]


def _cell_by_cell(
    state: State, epoch: int, rate: float, part: ThreadShare
) -> Callable[[int], list[Result]]:
    """Return a function that trains the cells of a round one by one, without compiled rounds."""
    blas_on(1)  # as in `CPUTraining.epoch`; this process does nothing else
    run, blocks = cells(state, epoch, rate, np.zeros(1, np.int64)), state.settings.blocks
    rows = rows_of(blocks, part)
    return lambda turn: [(row, *run(row, (row + turn) % blocks)) for row in rows]


def _changed_rows(copy: Shared, sums: np.ndarray | None) -> ChangedRows:
    """Return the rows that a cell changed."""
    feature = np.flatnonzero(copy.moves).astype(np.int32)
    bias = copy.bias[feature] if len(copy.bias) else NO_WEIGHT
    accumulated = NO_WEIGHT if sums is None else sums[feature]
    return ChangedRows(feature, copy.table[feature], bias, accumulated, copy.moves[feature])


def _overwrite(copy: Shared, sums: np.ndarray | None, changed: ChangedRows) -> None:
    copy.table[changed.feature] = changed.rows
    if len(copy.bias):
        copy.bias[changed.feature] = changed.bias
    if sums is not None:
        sums[changed.feature] = changed.sums
    copy.moves[:] = 0
