"""A worker process: its part of the problem, and the cells that it trains round by round."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows, starts, tally
from fmpair.engine.contract import (
    NO_NUMBERS,
    NO_WEIGHT,
    History,
    Maker,
    Problem,
    Settings,
    Shard,
    ShardSource,
)
from fmpair.engine.cpu.epoch import compiled_part, in_compiled_rounds
from fmpair.engine.cpu.layout import EventLayout, State, laid_out
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
    overwrite,
    rows_at,
    writable,
)
from fmpair.engine.strata.field_regularisation import Accumulators
from fmpair.engine.strata.partition import Assignment, EventsByUser, placed
from fmpair.jit import kernel
from fmpair.threads import blas_on

SHARD = 1 << 22  # events of a shard
EventSource = Shard | Maker  # what a worker receives: events, or a function that makes them


# Events on their way to the workers.


def shards_of(problem: Problem, numbered: bool) -> Iterator[Shard]:
    """Yield a problem's events in shards; numbered: with the number of each event."""
    weighted = bool((problem.weight != 1).any())
    history = problem.history
    for first in range(0, len(problem.user), SHARD):
        part = slice(first, first + SHARD)
        user = problem.user[part]
        shard = Shard(user, problem.item[part])
        if numbered:
            number = np.arange(first, first + len(user), dtype=np.int32)
            shard = shard._replace(number=number)
        if weighted:
            shard = shard._replace(weight=problem.weight[part])
        if len(problem.contexts.column):
            shard = shard._replace(situation=problem.situation[part])
        if history is not None:
            begun = history.start[user].astype(np.int32)
            since = history.since[part] - begun if len(history.since) else NO_NUMBERS
            shard = shard._replace(until=history.until[part] - begun, since=since)
        yield shard


def counts_of(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of events of each user and of each item."""
    return tally(problem.user, problem.users), tally(problem.item, problem.items)


def split(shard: Shard, owner: np.ndarray, workers: int) -> list[Shard]:
    """Split a shard by worker; owner: int16 [users], the worker of each user."""
    mine = owner[shard.user]

    def taken(rows: np.ndarray) -> Shard:
        return Shard(*(values[rows] if len(values) else values for values in shard))

    return [taken(np.flatnonzero(mine == worker)) for worker in range(workers)]


# What a worker makes of them.


class WorkerPlan(NamedTuple):
    """What a worker needs to know of its part.

    place: (number of the worker, number of workers). users: int32, its users in the order of the
    assignment; activity: int64, the number of events of each. assignment: of these users, numbered
    from 0, and of all items. times: int64 [items], events of each item. frame: the problem without
    events, with the rows of these users only. settings: with L2 scales of these users only.
    """

    place: tuple[int, int]
    users: np.ndarray
    activity: np.ndarray
    assignment: Assignment
    times: np.ndarray
    frame: Problem
    settings: Settings

    @property
    def rows(self) -> range:
        """The worker's user blocks."""
        return rows_of(self.settings.blocks, self.place)


def rows_of(blocks: int, place: tuple[int, int]) -> range:
    """Return a worker's user blocks: adjacent ones, so that most item blocks stay with it."""
    return range(*(blocks * number // place[1] for number in (place[0], place[0] + 1)))


class WorkerPart(NamedTuple):
    """A worker's part, laid out. number: int32, of each of its events among all, or empty."""

    plan: WorkerPlan
    problem: Problem
    layout: EventLayout
    number: np.ndarray


def worker_plan(
    problem: Problem,
    settings: Settings,
    assignment: Assignment,
    source: ShardSource,
    place: tuple[int, int],
) -> WorkerPlan:
    """Return the plan of one worker."""
    edge, rows = assignment.user_edge, rows_of(settings.blocks, place)
    first, last = int(edge[rows.start]), int(edge[rows.stop])
    users = assignment.user_at[first:last]
    local = assignment._replace(
        user_at=np.arange(len(users), dtype=np.int32),
        user_edge=np.clip(edge - first, 0, len(users)),
    )
    shown, lines = problem.impressions, problem.history
    frame = without_events(problem)._replace(
        user_rows=problem.user_rows.take(users),
        impressions=None if shown is None else shown.take(users),
        history=None if lines is None else _time_lines(lines, users),
    )
    if settings.l2_scale:
        scale = settings.l2_scale
        settings = settings._replace(l2_scale=scale._replace(users=scale.users[users]))
    return WorkerPlan(place, users, source.activity[users], local, source.times, frame, settings)


def without_events(problem: Problem) -> Problem:
    """Return the problem with features of users and items only."""
    lines = problem.history
    if lines is not None:
        lines = lines._replace(until=NO_NUMBERS, since=NO_NUMBERS)
    return problem._replace(
        user=NO_NUMBERS,
        item=NO_NUMBERS,
        weight=NO_WEIGHT,
        known=np.zeros(0, bool),
        situation=NO_NUMBERS,
        history=lines,
    )


def _time_lines(history: History, users: np.ndarray) -> History:
    """Return the time lines of some users."""
    rows = Rows(history.start, history.item, np.broadcast_to(np.float32(1), len(history.item)))
    mine = rows.take(users)
    return history._replace(start=mine.start, item=mine.column, until=NO_NUMBERS, since=NO_NUMBERS)


def read(plan: WorkerPlan, sources: tuple[EventSource, ...], users: int) -> WorkerPart:
    """Read a worker's part; users: the number of all users. Events are grouped by user."""
    start = starts(plan.activity)
    shard = _gathered(plan, sources, users, start)
    problem = _problem(plan, shard, start)
    numbered = any(len(shard[n]) for n in range(2, len(shard)))  # more than user and item
    event = np.arange(start[-1] if numbered else 0, dtype=np.int32)
    events = EventsByUser(start, shard.item, event, plan.times, problem.drawn)
    layout = laid_out(problem, plan.settings, events, placed(events, plan.assignment))
    # events are most of the memory: keep only the layout's copy
    layout = replace(layout, events=events._replace(item=NO_NUMBERS, event=NO_NUMBERS))
    return WorkerPart(plan, problem, layout, shard.number)


def _gathered(
    plan: WorkerPlan, sources: tuple[EventSource, ...], users: int, start: np.ndarray
) -> Shard:
    """Collect all events grouped by user; the column `user` is left empty."""
    local_user, slot = np.zeros(users, np.int32), start[:-1].copy()
    local_user[plan.users] = np.arange(len(plan.users), dtype=np.int32)
    columns = list(Shard(NO_NUMBERS, NO_NUMBERS))
    for shard in _shards(sources, plan.users):
        at = np.empty(len(shard.user), np.int64)
        _slots(local_user, shard.user, slot, at)
        for n in range(1, len(shard)):
            if len(shard[n]):
                if not len(columns[n]):
                    columns[n] = np.empty(start[-1], shard[n].dtype)
                columns[n][at] = shard[n]
    return Shard(*columns)


def _shards(sources: tuple[EventSource, ...], users: np.ndarray) -> Iterator[Shard]:
    """Yield the shards of all sources; users: the worker's users."""
    for source in sources:
        if isinstance(source, Shard):
            yield source
        else:
            yield from source(users)


def _problem(plan: WorkerPlan, shard: Shard, start: np.ndarray) -> Problem:
    """Return the frame with the events of the shard, which are grouped by user."""
    frame, lines = plan.frame, plan.frame.history
    problem = frame._replace(weight=shard.weight, situation=shard.situation)
    if lines is None:
        return problem
    user = np.repeat(np.arange(len(start) - 1, dtype=np.int32), np.diff(start))
    begun = lines.start[user].astype(np.int32)
    since = shard.since + begun if len(shard.since) else shard.since
    if not len(shard.situation):  # all events have the same one
        problem = problem._replace(situation=np.zeros(len(user), np.int32))
    return problem._replace(
        user=user, history=lines._replace(until=shard.until + begun, since=since)
    )


@kernel
def _slots(local_user, user, slot, at):
    """Assign each event to the next free slot of its user."""
    for e in range(len(user)):
        u = local_user[user[e]]
        at[e] = slot[u]
        slot[u] += 1


# The process.


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
                    overwrite(copies.of(row), None if sums is None else sums[row], changed)
                    copies.of(row).moves[:] = 0

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
    return rows_at(feature, copy, sums)._replace(moves=copy.moves[feature])
