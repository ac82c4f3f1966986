"""The events in the order of a partition, the state of an epoch, and repartitioning on threads.

`EventLayout` holds what depends on the order of the events, `State` all that an epoch needs. Where
an event is no more than a user and an item, the training threads make the next partition
themselves, in the arrays of the current one (`Repartition`): the interpreter only assigns blocks,
while the threads work.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fmpair.arrays import Rows, all_are, empty_rows
from fmpair.engine.contract import L2Scale, Problem, Settings
from fmpair.engine.cpu.operands import NO_L2_SCALE, Copies, Tables, Work
from fmpair.engine.cpu.synchronization import LINE, barrier
from fmpair.engine.strata.field_regularisation import Accumulators
from fmpair.engine.strata.partition import (
    Assignment,
    EventsByUser,
    Partition,
    assigned,
    begin_cells,
    count_events,
    impressions_by_run,
    place_events,
    places,
)
from fmpair.engine.strata.sampling_tables import Sampler, sampler_of
from fmpair.jit import kernel

NEAR_BYTES = 128 * 1024  # larger contexts are copied in the order of the events


@dataclass(frozen=True)
class EventLayout:
    """The arrays that stay fixed until the next partition.

    events: the events by user, with counts per item. work: the events of the cells. situation:
    int32 [events], rows of `contexts`, empty where every event has its own. sampler, l2_scale: in
    partition order.
    """

    partition: Partition
    events: EventsByUser
    work: Work
    situation: np.ndarray
    contexts: Rows
    sampler: Sampler
    l2_scale: L2Scale

    def visited(self, times: np.ndarray) -> EventLayout:
        """Set how often each event is learned from, by original number; empty for once each."""
        if not len(times) and not len(self.work.visits):
            return self
        visits = times[self.partition.event] if len(times) else times
        return replace(self, work=self.work._replace(visits=visits))


class State(NamedTuple):
    """The tables of an epoch and the options by which they are learned.

    tables: in partition order. query, features: copies of the shared tables, one per block, or
    None; with histories one copy of the query table. accumulators: one per block, or none for SGD.
    pieces: with histories, each block's part of the query table in the current round. factors:
    columns of the tables; length: of query and item vectors. triple_shrink: kept shares of triple
    vectors by query feature and by item feature. repartition: set where threads make partitions.
    joint: see `item_side.joint_steepness`.
    """

    problem: Problem
    settings: Settings
    layout: EventLayout
    factors: int
    length: int
    tables: Tables
    query: Copies | None
    features: Copies | None
    accumulators: Accumulators
    pieces: list[Any]
    triple_shrink: tuple[np.ndarray, np.ndarray]
    repartition: Repartition | None = None
    joint: np.ndarray = np.zeros(0, np.float32)


def needs_numbers(problem: Problem, settings: Settings) -> bool:
    """Return whether training needs the original number of each event."""
    return (
        len(problem.contexts.column) > 0
        or problem.history is not None
        or settings.positives != "permutation"
        or not all_are(problem.known, False)
        or not all_are(problem.weight, 1)
    )


def laid_out(
    problem: Problem, settings: Settings, events: EventsByUser, partition: Partition
) -> EventLayout:
    """Return the events of the problem in the order of a partition."""
    weight = np.zeros(0, np.float32)
    if not all_are(problem.weight, 1):
        weight = problem.weight[partition.event]
    once = np.zeros(0, np.uint32)  # as `visits`: another type would compile every kernel anew
    work = Work(partition.run_user, partition.run_start, partition.item, once, weight)
    l2_scale = NO_L2_SCALE
    if settings.l2_scale:
        users, items = settings.l2_scale
        l2_scale = L2Scale(users[partition.user_at], items[partition.item_at])
    shown = impressions_by_run(partition, problem.impressions)
    sampler = sampler_of(partition, events.times, settings)
    sampler = sampler._replace(impression_start=shown.start, impression_item=shown.column)
    contexts = _contexts(problem, partition)
    return EventLayout(partition, events, work, *contexts, sampler, l2_scale)


def _contexts(problem: Problem, partition: Partition) -> tuple[np.ndarray, Rows]:
    """Return (row of each event, rows of contexts); large contexts are copied per event."""
    if not len(problem.contexts.column):
        return np.zeros(0, np.int32), empty_rows(1)
    situation = problem.situation[partition.event]
    if problem.contexts.column.nbytes <= NEAR_BYTES:
        return situation, problem.contexts
    return np.zeros(0, np.int32), problem.contexts.take(situation)


class Repartition(NamedTuple):
    """The arrays in which threads make a partition.

    due: int64 [LINE], partitions asked for. made: int64 [blocks * LINE], partitions made by each
    thread. assignment: of the partition asked for last; partition: the arrays to fill. counts, at:
    see `strata.partition.begin_cells`. user_position, item_position: int32, in the tables.
    spare: a second set of tables. arrived: as in `Synchronization`.
    """

    due: np.ndarray
    made: np.ndarray
    events: EventsByUser
    assignment: Assignment
    partition: Partition
    counts: np.ndarray
    at: np.ndarray
    user_position: np.ndarray
    item_position: np.ndarray
    spare: Tables
    arrived: np.ndarray


class Repartitioner:
    """Assigns the blocks of the partitions that threads make. ahead: (epoch, assignment) of the
    next."""

    def __init__(
        self, events: EventsByUser, tables: Tables, position: tuple[np.ndarray, np.ndarray],
        settings: Settings,
    ):
        """position: the positions of users and of items in the tables."""
        self.settings, self.events = settings, events
        self.repartition = _repartition_for(events, tables, position, settings)
        self.ahead: tuple[int, Assignment | None] = (0, None)

    def ask(self, number: int) -> None:
        """Let the threads make the partition of an epoch as it begins."""
        epoch, assignment = self.ahead
        if epoch != number or assignment is None:
            assignment = self._assigned(number)
        for target, new in zip(self.repartition.assignment, assignment):
            target[:] = new
        self.repartition.partition.item_edge[:] = assignment.item_edge
        self.repartition.due[0] += 1
        self.ahead = (0, None)

    def look_ahead(self, number: int) -> None:
        """During an epoch, assign the blocks of the next one if it has a new partition."""
        if number % self.settings.partition_every == 0:
            self.ahead = (number + 1, self._assigned(number + 1))

    def _assigned(self, number: int) -> Assignment:
        events, settings = self.events, self.settings
        draw, activity = (settings.seed, number), np.diff(events.start)
        return assigned(activity, events.times, events.drawn, settings.blocks, draw)


def _repartition_for(
    events: EventsByUser, tables: Tables, position: tuple[np.ndarray, np.ndarray],
    settings: Settings
) -> Repartition:
    """Return the arrays before the first partition."""
    blocks = settings.blocks
    users, items = (rows.astype(np.int32) for rows in position)
    runs = int(np.minimum(np.diff(events.start), blocks).sum())  # not more, however they fall
    edges = np.zeros((3, blocks + 1), np.int64)
    partition = Partition(
        places(users), places(items), edges[0], np.zeros(blocks * blocks + 1, np.int64),
        np.zeros(runs, np.int32), np.zeros(runs + 1, np.int32),
        np.zeros(len(events.item), np.int32), events.event,
    )
    assignment = Assignment(
        np.zeros_like(users), np.zeros_like(items), edges[1], edges[2],
        np.zeros(len(items), np.int16),
    )
    counts, at = np.zeros((2, 2, blocks, blocks), np.int64)
    spare = Tables(*(np.empty_like(table) for table in tables))
    due, made, arrived = (np.zeros(n * LINE, np.int64) for n in (1, blocks, 1))
    return Repartition(
        due, made, events, assignment, partition, counts, at, users, items, spare, arrived
    )


@kernel
def share_of(count, part):
    """Return the bounds of a thread's share of the numbers below `count`."""
    return count * part.number // part.threads, count * (part.number + 1) // part.threads


@kernel
def _take(table, position, at, share, out):
    """Copy the rows that move to the positions of a share: out[p] = table[position[at[p]]]."""
    for p in range(share[0], share[1]):
        row = position[at[p]]
        for n in range(table.shape[1]):
            out[p, n] = table[row, n]


@kernel
def _take_numbers(numbers, position, at, share, out):
    for p in range(share[0], share[1]):
        out[p] = numbers[position[at[p]]]


@kernel
def _put(numbers, share, out):
    """Copy numbers; Numba takes five seconds to compile a slice assigned to a slice."""
    for p in range(share[0], share[1]):
        out[p] = numbers[p]


@kernel
def _settle(spare, table, new_at, at, position, share):
    """Copy a share's rows back into the table; update the id at each position and its inverse."""
    for p in range(share[0], share[1]):
        for n in range(table.shape[1]):
            table[p, n] = spare[p, n]
        at[p] = new_at[p]
        position[new_at[p]] = p


@kernel
def repartition_share(part, stopped, repartition, tables):
    """Make a thread's share of a partition if one is due; called by all threads before the rounds.

    Afterwards the thread may begin with its own user blocks. Returns early if all should stop.
    """
    number, own_made = repartition.due[0], part.number * LINE
    if repartition.made[own_made] == number:
        return
    user_at, item_at, user_edge, _, item_block = repartition.assignment
    partition, spare, position = repartition.partition, repartition.spare, repartition.item_position
    blocks, users = share_of(len(user_edge) - 1, part), share_of(len(user_at), part)
    items = share_of(len(item_at), part)
    count_events(repartition.events, (user_at, user_edge), blocks, item_block, repartition.counts)
    _take(tables.users, repartition.user_position, user_at, users, spare.users)
    _take(tables.items, position, item_at, items, spare.items)
    _take_numbers(tables.bias, position, item_at, items, spare.bias)
    if not barrier(repartition.arrived, stopped, part.threads, 2 * number - 1):
        return
    _settle(spare.users, tables.users, user_at, partition.user_at, repartition.user_position, users)
    _settle(spare.items, tables.items, item_at, partition.item_at, position, items)
    _put(spare.bias, items, tables.bias)
    begin_cells(repartition.counts, blocks, repartition.at, partition.cell, partition.run_start)
    if barrier(repartition.arrived, stopped, part.threads, 2 * number):
        place_events(
            repartition.events, (user_at, user_edge), blocks, item_block, position, repartition.at,
            partition.run_user, partition.run_start, partition.item, partition.event,
        )
        repartition.made[own_made] = number


