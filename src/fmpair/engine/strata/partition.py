"""The strata plan: which events run side by side without sharing a user or an item.

Users and items fall into B blocks each, an event into one of B x B cells. Round r runs the cells
(t, (t + r) mod B). Inside a cell the events stand in runs, one run per user, so that all of a
user's positives of the item block stand together: negatives are verified against them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows, all_are, group_rows, starts, tally
from fmpair.engine.contract import Problem
from fmpair.jit import kernel
from fmpair.rng import STEP, high, low, scramble, stream

# Which block of the strata plan every user and every item is in.


class Assignment(NamedTuple):
    """Which block everyone is in. user_at, item_at: see Partition; item_block: int16 [items].

    user_edge, item_edge: int64 [B + 1], the positions where blocks begin.
    """

    user_at: np.ndarray
    item_at: np.ndarray
    user_edge: np.ndarray
    item_edge: np.ndarray
    item_block: np.ndarray


def assigned(
    activity: np.ndarray, times: np.ndarray, drawn: np.ndarray, blocks: int, draw: tuple[int, int]
) -> Assignment:
    """Users and items dealt into blocks, by how many events they have. draw: seed and number."""
    rng = np.random.default_rng([draw[0], 2, draw[1]])
    user_at, user_block = _blocks_of(activity, activity > 0, blocks, rng)
    item_at, item_block = _blocks_of(times, drawn | (times > 0), blocks, rng)
    item_edge = np.searchsorted(item_block[item_at], np.arange(blocks + 1))
    user_edge = np.searchsorted(user_block[user_at], np.arange(blocks + 1))
    return Assignment(user_at, item_at, user_edge, item_edge, item_block)


def _blocks_of(
    times: np.ndarray, active: np.ndarray, blocks: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(ids in order of blocks int32, block of each id int16): blocks alike in size and in times.

    Ids that are not active come last, in block B.
    """
    # the fractions break ties at random; one sort of one key is much quicker than a lexsort
    ranked = np.argsort(np.where(active, rng.random(len(times)) - times, np.inf))
    count = int(active.sum())
    rows = -(-count // blocks)
    shuffled = rng.permuted(np.tile(np.arange(blocks, dtype=np.int16), (rows, 1)), axis=1)
    block = np.full(len(times), blocks, np.int16)
    block[ranked[:count]] = shuffled.ravel()[:count]
    return np.argsort(block + rng.random(len(times))).astype(np.int32), block


# How events come into the cells of a partition: counted, then placed, by shares of user blocks.
#
# Threads may do the shares side by side: each writes what is of its own blocks only.


@kernel
def count_events(events, users, share, item_block, counts):
    """counts[0]: runs, counts[1]: events of each cell of a share of the user blocks.

    events: see `partition.Events`; users: (who stands where, where blocks begin).
    counts: int64 [2, B, B].
    """
    start, items, _, _, _ = events
    user_at, user_edge = users
    last = np.full(len(user_edge) - 1, -1, np.int64)
    for block in range(share[0], share[1]):
        runs, found = counts[0, block], counts[1, block]
        for column in range(len(found)):
            runs[column], found[column] = 0, 0
        for p in range(user_edge[block], user_edge[block + 1]):
            for e in range(start[user_at[p]], start[user_at[p] + 1]):
                column = item_block[items[e]]
                found[column] += 1
                runs[column] += last[column] != p
                last[column] = p


@kernel
def begin_cells(counts, share, at, cell, run_start):
    """Where each cell of a share begins, from the counts of all: its first run and event.

    at: int64 [2, B, B], filled with both; cell, run_start: as in a partition. The end of the share
    is written too, though it is where the next one begins.
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
    """Write the events of a share of the user blocks into their cells, a run for each user.

    position: of each item; at: from `begin_cells`, moved on.
    """
    start, items, numbers, _, _ = events
    user_at, user_edge = users
    last = np.full(len(user_edge) - 1, -1, np.int64)
    for block in range(share[0], share[1]):
        run, slot = at[0, block], at[1, block]
        for p in range(user_edge[block], user_edge[block + 1]):
            for e in range(start[user_at[p]], start[user_at[p] + 1]):
                column = item_block[items[e]]
                place = slot[column]
                slot[column] = place + 1
                if last[column] != p:
                    last[column] = p
                    run_user[run[column]], run_start[run[column]] = p, place
                    run[column] += 1
                item[place] = position[items[e]]
                if len(event):
                    event[place] = numbers[e]


LEAST_ITEMS = 64  # a block must leave a choice of negatives
# Events of a cell, which must outweigh the cost of starting it, and of merging what cells share:
# lists and shared tables are learned as well from few, histories (of all items) are not.
LEAST_EVENTS, LEAST_OF_MANY, LEAST_OF_HISTORIES = 800, 1_200, 16_000
LEAST_RUN = 1  # events of a user in a cell, on average
MOST_BLOCKS = 64
NO_IMPRESSIONS = Rows(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))


class Events(NamedTuple):
    """The events of a problem, user by user. start: int64 [users + 1]; item, event: int32.

    times: int64 [items], how often each item occurs; drawn: bool [items], those that may be drawn
    as negatives.
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
    """One partition of users and items into blocks; a position counts through the blocks.

    user_at, item_at: the user or item at a position; those without events come last.
    item_edge: int64 [B + 1], the positions where item blocks begin.
    cell: int64 [B * B + 1], the runs of cell (user block * B + item block).
    run_user: int32 [runs], run_start: int32 [runs + 1]: a run's user position and events.
    item, event: int32 [events]: item position and original number (or empty) of each event.
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


def choose_blocks(users: int, items: int, events: int, candidates: int, shared: str = "") -> int:
    """B for a problem's size: a power of two, never a matter of the number of threads.

    candidates: of a step, 1 for pairs; shared: by cells, `features`, `histories` or nothing.
    """
    wanted, least_items = 1, max(LEAST_ITEMS, candidates)
    least_events = LEAST_OF_MANY if shared or candidates > 1 else LEAST_EVENTS
    if shared == "histories":
        least_events = LEAST_OF_HISTORIES
    while (
        wanted < MOST_BLOCKS
        and items // (2 * wanted) >= least_items
        and users // (2 * wanted) >= LEAST_ITEMS
        and events // (4 * wanted * wanted) >= least_events
        and events // (2 * wanted * users) >= LEAST_RUN
    ):
        wanted *= 2
    return wanted


def by_user(problem: Problem, numbered: bool) -> Events:
    """The events user by user, a user's in their own order; numbered: with the number of each."""
    start = starts(tally(problem.user, problem.users))
    times = tally(problem.item, problem.items)
    item = np.empty_like(problem.item)
    event = np.empty(len(item) if numbered else 0, np.int32)
    _sort(problem.user, problem.item, start[:-1].copy(), item, event)
    return Events(start, item, event, times, problem.drawn)


@kernel
def _sort(users, items, slot, item, event):
    """Counting sort by user."""
    for e in range(len(users)):
        place = slot[users[e]]
        slot[users[e]] += 1
        item[place] = items[e]
        if len(event):
            event[place] = e


def distinct(start: np.ndarray, item: np.ndarray) -> Rows:
    """Per user the distinct items, sorted, each with its number of times. Sorts `item` in place."""
    found = np.zeros(len(start) - 1, np.int64)
    _sort_rows(start, item, found)
    rows = Rows(starts(found), np.empty(found.sum(), np.int32), np.zeros(found.sum(), np.float32))
    _gather_distinct(start, item, rows)
    return rows


@kernel
def _sort_rows(start, item, found):
    """Sort each user's items (Shell's way: quick to compile); found: how many distinct ones."""
    for user in range(len(found)):
        first, end = start[user], start[user + 1]
        gap = 1
        while 3 * gap < end - first:
            gap = 3 * gap + 1
        while gap > 0:
            for n in range(first + gap, end):
                value, place = item[n], n
                while place >= first + gap and item[place - gap] > value:
                    item[place] = item[place - gap]
                    place -= gap
                item[place] = value
            gap //= 3
        for n in range(first, end):
            found[user] += n == first or item[n] != item[n - 1]


@kernel
def _gather_distinct(start, item, rows):
    place = -1
    for user in range(len(start) - 1):
        for n in range(start[user], start[user + 1]):
            if n == start[user] or item[n] != item[n - 1]:
                place += 1
                rows.column[place] = item[n]
            rows.value[place] += 1


def partition(
    events: Events,
    blocks: int,
    seed: int,
    number: int,
    parts: int = 1,
    each: Callable[..., Iterable] = map,
) -> Partition:
    """The number-th partition: a pure function of seed and number.

    parts: into how many the work is divided; each: a map that does them, as of threads.
    """
    counts = (np.diff(events.start), events.times)
    return placed(
        events, assigned(*counts, events.drawn, blocks, (seed, number)), min(parts, blocks), each
    )


def placed(
    events: Events, assignment: Assignment, parts: int = 1, each: Callable[..., Iterable] = map
) -> Partition:
    """The events in their cells; those of some users only, where the other blocks are empty."""
    user_at, item_at, user_edge, item_edge, item_block = assignment
    blocks, position = len(item_edge) - 1, places(item_at)
    counts, at = np.zeros((2, 2, blocks, blocks), np.int64)
    users = (user_at, user_edge)

    def share(part: int) -> tuple[int, int]:
        return blocks * part // parts, blocks * (part + 1) // parts

    def count(part: int) -> None:
        count_events(events, users, share(part), item_block, counts)

    list(each(count, range(parts)))
    runs, found = counts.sum(axis=(1, 2))
    cell, run_start = np.empty(blocks * blocks + 1, np.int64), np.empty(runs + 1, np.int32)
    begin_cells(counts, (0, blocks), at, cell, run_start)
    run_user, item = np.empty(runs, np.int32), np.empty(found, np.int32)
    event = np.empty(len(events.event), np.int32)

    def place(part: int) -> None:
        out = (run_user, run_start, item, event)
        place_events(events, users, share(part), item_block, position, at, *out)

    list(each(place, range(parts)))
    return Partition(user_at, item_at, item_edge, cell, run_user, run_start, item, event)


def places(at: np.ndarray) -> np.ndarray:
    """The position of each id, given the id at each position."""
    place = np.empty_like(at)
    place[at] = np.arange(len(at), dtype=at.dtype)
    return place


def batch(partition: Partition, user_block: int, item_block: int) -> np.ndarray:
    """int32: the item of every event of a cell, counted from the block's first."""
    first, end = partition.run_start[
        partition.cell[user_block * partition.blocks + item_block :][:2]
    ]
    return partition.item[first:end] - np.int32(partition.item_edge[item_block])


def with_unchosen(problem: Problem) -> Problem:
    """The problem without shown items that their users have an event with."""
    if problem.impressions is None:
        return problem
    impressions, owner = problem.impressions, problem.impressions.owner
    chosen = np.isin(
        (owner << 32) | impressions.column, (problem.user.astype(int) << 32) | problem.item
    )
    kept = group_rows(owner[~chosen], impressions.column[~chosen], impressions.size)
    return problem._replace(impressions=kept)


def impressions_by_run(partition: Partition, impressions: Rows | None) -> Rows:
    """Per run the positions of the items its user was shown, of the run's block, ascending.

    impressions: rows of users. Without rows at all where nothing is known.
    """
    if impressions is None:
        return NO_IMPRESSIONS
    position = places(partition.item_at)[impressions.column]
    block = np.searchsorted(partition.item_edge, position, side="right") - 1
    blocks = np.repeat(np.arange(partition.blocks**2) % partition.blocks, np.diff(partition.cell))
    key = partition.run_user.astype(np.int64) * partition.blocks + blocks
    wanted = (
        places(partition.user_at)[impressions.owner].astype(np.int64) * partition.blocks + block
    )
    order = np.argsort(key)
    run = order[np.minimum(np.searchsorted(key, wanted, sorter=order), len(key) - 1)]
    found = (block < partition.blocks) & (key[run] == wanted)
    return group_rows(run[found], position[found], len(key))


def visits(kind: str, problem: Problem, events: Events, seed: int, epoch: int) -> np.ndarray:
    """How often each event is learned from in an epoch: uint32 [events], empty for once each."""
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
    """Each draw: an event, uniformly."""
    size = np.uint64(len(learned))
    for _ in range(count):
        state += STEP
        out[learned[high(scramble(state), size)]] += 1


@kernel
def _draw_users(users, start, event, count, state, out):
    """Each draw: a user uniformly, then one of the user's events uniformly."""
    size = np.uint64(len(users))
    for _ in range(count):
        state += STEP
        draw = scramble(state)
        user = users[high(draw, size)]
        first = start[user]
        out[event[first + low(draw, np.uint64(start[user + 1] - first))]] += 1
