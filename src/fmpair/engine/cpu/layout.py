"""The events as one partition lays them out, and all that goes with their order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fmpair.arrays import Rows, all_are, empty_rows
from fmpair.engine.contract import L2Scale, Problem, Settings
from fmpair.engine.cpu.operands import NO_L2_SCALE, Copies, Tables, Work
from fmpair.engine.cpu.synchronization import LINE, meet
from fmpair.engine.strata.field_regularisation import Accumulators
from fmpair.engine.strata.partition import (
    Assignment,
    Events,
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

NEAR_BYTES = 128 * 1024  # contexts beyond this are laid out in the order of the events


@dataclass(frozen=True)
class Layout:
    """What stands until the next partition. events: how many each item has, and the like.

    work: the cells' events. situation: int32 [events], each one's row of `contexts`, or empty where
    every event has its own.
    sampler: of all item blocks, in their order. l2_scale: in this order.
    """

    partition: Partition
    events: Events
    work: Work
    situation: np.ndarray
    contexts: Rows
    sampler: Sampler
    l2_scale: L2Scale

    def visited(self, times: np.ndarray) -> Layout:
        """With how often each event is learned from, by original numbers; empty for once each."""
        if not len(times) and not len(self.work.visits):
            return self
        visits = times[self.partition.event] if len(times) else times
        return replace(self, work=self.work._replace(visits=visits))


def needs_numbers(problem: Problem, settings: Settings) -> bool:
    """Whether the number of an event must be known where it is learned from."""
    return (
        len(problem.contexts.column) > 0
        or problem.history is not None
        or settings.positives != "permutation"
        or not all_are(problem.known, False)
        or not all_are(problem.weight, 1)
    )


def laid_out(problem: Problem, settings: Settings, events: Events, partition: Partition) -> Layout:
    """The problem's events in the order of a partition."""
    weight = np.zeros(0, np.float32)
    if not all_are(problem.weight, 1):
        weight = problem.weight[partition.event]
    once = np.zeros(0, np.uint16)
    work = Work(partition.run_user, partition.run_start, partition.item, once, weight)
    l2_scale = NO_L2_SCALE
    if settings.l2_scale:
        users, items = settings.l2_scale
        l2_scale = L2Scale(users[partition.user_at], items[partition.item_at])
    shown = impressions_by_run(partition, problem.impressions)
    return Layout(
        partition,
        events,
        work,
        *_contexts(problem, partition),
        sampler_of(partition, events.times, settings)._replace(
            impression_start=shown.start, impression_item=shown.column
        ),
        l2_scale,
    )


def _contexts(problem: Problem, partition: Partition) -> tuple[np.ndarray, Rows]:
    """(each event's situation, the situations' rows): many are laid out event by event."""
    if not len(problem.contexts.column):
        return np.zeros(0, np.int32), empty_rows(1)
    situation = problem.situation[partition.event]
    if problem.contexts.column.nbytes <= NEAR_BYTES:
        return situation, problem.contexts
    return np.zeros(0, np.int32), problem.contexts.take(situation)


# A new partition made by the threads that learn, in the arrays of the one before.
#
# For events of which nothing need be known but user and item: all that follows from their order is
# made here. The interpreter says only who goes into which block, while threads are at work.


class Dealing(NamedTuple):
    """What threads make a partition of, and in.

    due: int64 [LINE], how many they were asked for. made: int64 [blocks * LINE], how many each
    thread has behind it. assignment: of the last that they were asked for; partition: the arrays
    that are filled. counts, at: see `strata.cells`. user_place, item_place: int32, where each
    stands in the tables. spare: room for these tables. arrived: as in `Flow`.
    """

    due: np.ndarray
    made: np.ndarray
    events: Events
    assignment: Assignment
    partition: Partition
    counts: np.ndarray
    at: np.ndarray
    user_place: np.ndarray
    item_place: np.ndarray
    spare: Tables
    arrived: np.ndarray


class Dealer:
    """Who says which partition threads shall make.

    ahead: the epoch that the next one is for, and where everyone goes then.
    """

    def __init__(
        self, events: Events, tables: Tables, place: tuple[np.ndarray, np.ndarray],
        settings: Settings,
    ):
        """place: where each user and each item stands in the tables."""
        self.settings, self.events = settings, events
        self.dealing = _dealing_for(events, tables, place, settings)
        self.ahead: tuple[int, Assignment | None] = (0, None)

    def ask(self, number: int) -> None:
        """Have threads make the partition of an epoch as it begins."""
        epoch, assignment = self.ahead
        if epoch != number or assignment is None:
            assignment = self._assigned(number)
        for own, new in zip(self.dealing.assignment, assignment):
            own[:] = new
        self.dealing.partition.item_edge[:] = assignment.item_edge
        self.dealing.due[0] += 1
        self.ahead = (0, None)

    def look_ahead(self, number: int) -> None:
        """In an epoch, find out what the next one's partition is, if it has another."""
        if number % self.settings.partition_every == 0:
            self.ahead = (number + 1, self._assigned(number + 1))

    def _assigned(self, number: int) -> Assignment:
        activity, own = np.diff(self.events.start), self.settings
        draw = (own.seed, number)
        return assigned(activity, self.events.times, self.events.drawn, own.blocks, draw)


def _dealing_for(
    events: Events, tables: Tables, place: tuple[np.ndarray, np.ndarray], settings: Settings
) -> Dealing:
    """Before the first partition."""
    blocks = settings.blocks
    users, items = (own.astype(np.int32) for own in place)
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
    return Dealing(
        due, made, events, assignment, partition, counts, at, users, items, spare, arrived
    )


@kernel
def share_of(count, part):
    """A thread's share of so many: from which to which."""
    return count * part.number // part.threads, count * (part.number + 1) // part.threads


@kernel
def _take(table, place, at, share, out):
    """out[p] = where table has the one that comes to p, for a share of the positions."""
    for p in range(share[0], share[1]):
        row = place[at[p]]
        for n in range(table.shape[1]):
            out[p, n] = table[row, n]


@kernel
def _take_numbers(numbers, place, at, share, out):
    for p in range(share[0], share[1]):
        out[p] = numbers[place[at[p]]]


@kernel
def _put(numbers, share, out):
    """A loop: to assign one slice to another takes Numba five seconds to compile."""
    for p in range(share[0], share[1]):
        out[p] = numbers[p]


@kernel
def _settle(spare, table, new_at, at, place, share):
    """The share's rows are where they belong: the table itself, who is where, where is who."""
    for p in range(share[0], share[1]):
        for n in range(table.shape[1]):
            table[p, n] = spare[p, n]
        at[p] = new_at[p]
        place[new_at[p]] = p


@kernel
def deal(part, stopped, dealing, tables):
    """A thread's part of a partition, if one is due; all threads come here before their rounds.

    When it returns, a thread may begin with its own user blocks. Not done where all shall stop.
    """
    number, own_made = dealing.due[0], part.number * LINE
    if dealing.made[own_made] == number:
        return
    user_at, item_at, user_edge, _, item_block = dealing.assignment
    partition, spare, place = dealing.partition, dealing.spare, dealing.item_place
    own, users = share_of(len(user_edge) - 1, part), share_of(len(user_at), part)
    items = share_of(len(item_at), part)
    count_events(dealing.events, (user_at, user_edge), own, item_block, dealing.counts)
    _take(tables.users, dealing.user_place, user_at, users, spare.users)
    _take(tables.items, place, item_at, items, spare.items)
    _take_numbers(tables.bias, place, item_at, items, spare.bias)
    if not meet(dealing.arrived, stopped, part.threads, 2 * number - 1):
        return
    _settle(spare.users, tables.users, user_at, partition.user_at, dealing.user_place, users)
    _settle(spare.items, tables.items, item_at, partition.item_at, place, items)
    _put(spare.bias, items, tables.bias)
    begin_cells(dealing.counts, own, dealing.at, partition.cell, partition.run_start)
    if meet(dealing.arrived, stopped, part.threads, 2 * number):
        place_events(
            dealing.events, (user_at, user_edge), own, item_block, place, dealing.at,
            partition.run_user, partition.run_start, partition.item, partition.event,
        )
        dealing.made[own_made] = number


# What the threads of an epoch work on.


class State(NamedTuple):
    """The tables as they stand in an epoch, with all that says how they are learned.

    tables: in the order of the layout's partition. query, features: a cell's own copy of the
    tables that cells share, one a block, or none where there are no such features; with histories
    only one of the query, of which cells copy what they need. accumulators:
    one a block, or none where plain SGD needs none. pieces: with histories, the cells' own parts of
    the query table in the round at hand, one a block, see `engine.cpu.history`. factors: columns of
    the tables; length: of the vectors of queries and items. triple_shrink: by query feature and by
    item feature, what a step keeps of their vectors of triples. dealing: where threads make the
    partitions themselves.
    """

    problem: Problem
    settings: Settings
    layout: Layout
    factors: int
    length: int
    tables: Tables
    query: Copies | None
    features: Copies | None
    accumulators: Accumulators
    pieces: list[Any]
    triple_shrink: tuple[np.ndarray, np.ndarray]
    dealing: Dealing | None = None
