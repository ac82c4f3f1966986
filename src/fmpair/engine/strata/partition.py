"""The strata plan: which events are trained in parallel without sharing a user or an item.

Users and items are divided into B blocks each, so an event falls into one of B x B cells. Round r
runs the cells (t, (t + r) mod B). Inside a cell the events form runs, one per user, so that all of
a user's positives in the item block are together: negatives are checked against them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows, all_are, group_rows, starts, tally
from fmpair.engine.contract import Problem
from fmpair.jit import kernel
from fmpair.rng import STEP, high, low, scramble, stream

MIN_ITEMS = 64  # a block must leave a choice of negatives
# Events of a cell: they must outweigh the cost of starting it and of merging shared tables.
MIN_EVENTS, MIN_OF_MANY, MIN_OF_HISTORIES = 800, 1_200, 16_000
MIN_RUN = 1  # events of a user in a cell, on average
MAX_BLOCKS = 64  # of users, and of items
Map = Callable[..., Iterable]  # such as `map`, or that of a pool of threads
NO_IMPRESSIONS = Rows(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))


class EventsByUser(NamedTuple):
    """The events of a problem, user by user. start: int64 [users + 1]; item, event: int32.

    times: int64 [items], events per item; drawn: bool [items], possible negatives.
    """

    start: np.ndarray
    item: np.ndarray
    event: np.ndarray
    times: np.ndarray
    drawn: np.ndarray


class Order(NamedTuple):
    """The user and the item at each position of partitioned tables: int32 [users], [items]."""

    user_at: np.ndarray
    item_at: np.ndarray


class Partition(NamedTuple):
    """A partition of users and items into blocks; positions count through the blocks.

    user_at, item_at: the user or item at a position; those without events come last. item_edge:
    int64 [B + 1], the positions where item blocks begin. cell: int64 [B * B + 1], the runs of cell
    (user block * B + item block). run_user: int32 [runs], run_start: int32 [runs + 1]: a run's user
    position and events. item, event: int32 [events]: item position and original number (or empty)
    of each event.
    """

    user_at: np.ndarray
    item_at: np.ndarray
    item_edge: np.ndarray
    cell: np.ndarray
    run_user: np.ndarray
    run_start: np.ndarray
    item: np.ndarray
    event: np.ndarray

    @property
    def blocks(self) -> int:
        return len(self.item_edge) - 1


class Assignment(NamedTuple):
    """The blocks of users and items. user_at, item_at: see Partition; item_block: int16 [items].

    user_edge, item_edge: int64 [B + 1], the positions where blocks begin.
    """

    user_at: np.ndarray
    item_at: np.ndarray
    user_edge: np.ndarray
    item_edge: np.ndarray
    item_block: np.ndarray


def choose_blocks(users: int, items: int, events: int, candidates: int, shared: str = "") -> int:
    """Return B for a problem's size: a power of two, independent of the number of threads.

    candidates: per step, 1 for pairs; shared: by cells, `features`, `histories` or nothing.
    """
    wanted, least_items = 1, max(MIN_ITEMS, candidates)
    least_events = MIN_OF_MANY if shared or candidates > 1 else MIN_EVENTS
    if shared == "histories":
        least_events = MIN_OF_HISTORIES
    while (
        wanted < MAX_BLOCKS
        and items // (2 * wanted) >= least_items
        and users // (2 * wanted) >= MIN_ITEMS
        and events // (4 * wanted * wanted) >= least_events
        and events // (2 * wanted * users) >= MIN_RUN
    ):
        wanted *= 2
    return wanted


def by_user(problem: Problem, numbered: bool) -> EventsByUser:
    """Return the events user by user, in order; numbered: with their original numbers."""
    start = starts(tally(problem.user, problem.users))
    times = tally(problem.item, problem.items)
    item = np.empty_like(problem.item)
    event = np.empty(len(item) if numbered else 0, np.int32)
    _sort(problem.user, problem.item, start[:-1].copy(), item, event)
    return EventsByUser(start, item, event, times, problem.drawn)


@kernel
def _sort(users, items, slot, item, event):
    """Counting sort by user."""
    for e in range(len(users)):
        at = slot[users[e]]
        slot[users[e]] += 1
        item[at] = items[e]
        if len(event):
            event[at] = e


def assigned(
    activity: np.ndarray, times: np.ndarray, drawn: np.ndarray, blocks: int, draw: tuple[int, int]
) -> Assignment:
    """Assign users and items to blocks, by their numbers of events. draw: (seed, number)."""
    rng = np.random.default_rng([draw[0], 2, draw[1]])
    user_at, user_block = _blocks_of(activity, activity > 0, blocks, rng)
    item_at, item_block = _blocks_of(times, drawn | (times > 0), blocks, rng)
    item_edge = np.searchsorted(item_block[item_at], np.arange(blocks + 1))
    user_edge = np.searchsorted(user_block[user_at], np.arange(blocks + 1))
    return Assignment(user_at, item_at, user_edge, item_edge, item_block)


def _blocks_of(
    times: np.ndarray, active: np.ndarray, blocks: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return (ids by block int32, block of each id int16); inactive ids come last, in block B."""
    # the fractions break ties at random; one sort of one key is much quicker than a lexsort
    ranked = np.argsort(np.where(active, rng.random(len(times)) - times, np.inf))
    count = int(active.sum())
    rows = -(-count // blocks)
    shuffled = rng.permuted(np.tile(np.arange(blocks, dtype=np.int16), (rows, 1)), axis=1)
    block = np.full(len(times), blocks, np.int16)
    block[ranked[:count]] = shuffled.ravel()[:count]
    return np.argsort(block + rng.random(len(times))).astype(np.int32), block


def partition(
    events: EventsByUser, blocks: int, seed: int, number: int, parts: int = 1, each: Map = map
) -> Partition:
    """Return the number-th partition, a pure function of seed and number, made in `parts` tasks."""
    activity, draw = np.diff(events.start), (seed, number)
    assignment = assigned(activity, events.times, events.drawn, blocks, draw)
    return placed(events, assignment, min(parts, blocks), each)


def placed(
    events: EventsByUser, assignment: Assignment, parts: int = 1, each: Map = map
) -> Partition:
    """Place the events in their cells; blocks may be empty where only some users are given."""
    user_at, item_at, user_edge, item_edge, item_block = assignment
    blocks, position = len(item_edge) - 1, places(item_at)
    counts, at = np.zeros((2, 2, blocks, blocks), np.int64)
    users = (user_at, user_edge)

    def share(part: int) -> tuple[int, int]:
        return blocks * part // parts, blocks * (part + 1) // parts

    def count(part: int) -> None:
        count_events(events, users, share(part), item_block, counts)

    list(each(count, range(parts)))
    runs, total = counts.sum(axis=(1, 2))
    cell, run_start = np.empty(blocks * blocks + 1, np.int64), np.empty(runs + 1, np.int32)
    begin_cells(counts, (0, blocks), at, cell, run_start)
    run_user, item = np.empty(runs, np.int32), np.empty(total, np.int32)
    event = np.empty(len(events.event), np.int32)

    def write_part(part: int) -> None:
        out = (run_user, run_start, item, event)
        place_events(events, users, share(part), item_block, position, at, *out)

    list(each(write_part, range(parts)))
    return Partition(user_at, item_at, item_edge, cell, run_user, run_start, item, event)


@kernel
def count_events(events, users, share, item_block, counts):
    """Count the runs (counts[0]) and events (counts[1]) of each cell of a share of user blocks.

    users: (user at each position, where blocks begin). counts: int64 [2, B, B]. Shares can be
    counted and placed in parallel.
    """
    start, items, _, _, _ = events
    user_at, user_edge = users
    last = np.full(len(user_edge) - 1, -1, np.int64)
    for block in range(share[0], share[1]):
        runs, sizes = counts[0, block], counts[1, block]
        for column in range(len(sizes)):
            runs[column], sizes[column] = 0, 0
        for p in range(user_edge[block], user_edge[block + 1]):
            for e in range(start[user_at[p]], start[user_at[p] + 1]):
                column = item_block[items[e]]
                sizes[column] += 1
                runs[column] += last[column] != p
                last[column] = p


@kernel
def begin_cells(counts, share, at, cell, run_start):
    """Set where each cell of a share begins, its first run and event, from the counts of all.

    at: int64 [2, B, B], filled with both; cell, run_start: as in a partition. The end of the share,
    where the next one begins, is written too.
    """
    blocks, runs, events = counts.shape[1], 0, 0
    for row in range(share[1]):
        for column in range(blocks):
            if row >= share[0]:
                cell[row * blocks + column] = runs
                at[0, row, column], at[1, row, column] = runs, events
            runs += counts[0, row, column]
            events += counts[1, row, column]
    cell[share[1] * blocks], run_start[runs] = runs, events


@kernel
def place_events(events, users, share, item_block, position, at, run_user, run_start, item, event):
    """Write the events of a share of user blocks into their cells; at: from `begin_cells`,
    advanced."""
    start, items, numbers, _, _ = events
    user_at, user_edge = users
    last = np.full(len(user_edge) - 1, -1, np.int64)
    for block in range(share[0], share[1]):
        run, slot = at[0, block], at[1, block]
        for p in range(user_edge[block], user_edge[block + 1]):
            for e in range(start[user_at[p]], start[user_at[p] + 1]):
                column = item_block[items[e]]
                entry = slot[column]
                slot[column] = entry + 1
                if last[column] != p:
                    last[column] = p
                    run_user[run[column]], run_start[run[column]] = p, entry
                    run[column] += 1
                item[entry] = position[items[e]]
                if len(event):
                    event[entry] = numbers[e]


def places(at: np.ndarray) -> np.ndarray:
    """Return the position of each id, given the id at each position."""
    position = np.empty_like(at)
    position[at] = np.arange(len(at), dtype=at.dtype)
    return position


def batch(partition: Partition, user_block: int, item_block: int) -> np.ndarray:
    """Return the item of every event of a cell, counted from the block's first: int32."""
    runs = partition.cell[user_block * partition.blocks + item_block :][:2]
    first, end = partition.run_start[runs]
    return partition.item[first:end] - np.int32(partition.item_edge[item_block])


def with_unchosen(problem: Problem) -> Problem:
    """Remove impressions of items with which their user has an event."""
    if problem.impressions is None:
        return problem
    impressions, owner = problem.impressions, problem.impressions.owner
    events = (problem.user.astype(int) << 32) | problem.item
    chosen = np.isin((owner << 32) | impressions.column, events)
    kept = group_rows(owner[~chosen], impressions.column[~chosen], impressions.size)
    return problem._replace(impressions=kept)


def impressions_by_run(partition: Partition, impressions: Rows | None) -> Rows:
    """Return, per run, the positions of the items of its block shown to its user, ascending."""
    if impressions is None:
        return NO_IMPRESSIONS
    position = places(partition.item_at)[impressions.column]
    block = np.searchsorted(partition.item_edge, position, side="right") - 1
    blocks = np.repeat(np.arange(partition.blocks**2) % partition.blocks, np.diff(partition.cell))
    key = partition.run_user.astype(np.int64) * partition.blocks + blocks
    users = places(partition.user_at)[impressions.owner].astype(np.int64)
    wanted = users * partition.blocks + block
    order = np.argsort(key)
    run = order[np.minimum(np.searchsorted(key, wanted, sorter=order), len(key) - 1)]
    listed = (block < partition.blocks) & (key[run] == wanted)
    return group_rows(run[listed], position[listed], len(key))


def visits(kind: str, problem: Problem, events: EventsByUser, seed: int, epoch: int) -> np.ndarray:
    """Return how often an epoch visits each event: uint32 [events], empty for once each."""
    if kind == "permutation" and all_are(problem.known, False):
        return np.zeros(0, np.uint32)
    learned = ~problem.known
    if kind == "permutation":
        return learned.astype(np.uint32)
    out = np.zeros(len(problem.user), np.uint32)
    count = int(learned.sum())
    state = np.uint64(stream(seed, 3, epoch))
    if kind == "bootstrap":
        _draw_events(np.flatnonzero(learned), count, state, out)
        return out
    event = events.event[learned[events.event]]
    start = starts(np.bincount(problem.user[learned], minlength=problem.users))
    _draw_users(np.flatnonzero(np.diff(start)), start, event, count, state, out)
    return out


@kernel
def _draw_events(learned, count, state, out):
    """Draw events uniformly."""
    size = np.uint64(len(learned))
    for _ in range(count):
        state += STEP
        out[learned[high(scramble(state), size)]] += 1


@kernel
def _draw_users(users, start, event, count, state, out):
    """Draw a user uniformly, then one of the user's events uniformly."""
    size = np.uint64(len(users))
    for _ in range(count):
        state += STEP
        draw = scramble(state)
        user = users[high(draw, size)]
        first = start[user]
        out[event[first + low(draw, np.uint64(start[user + 1] - first))]] += 1
