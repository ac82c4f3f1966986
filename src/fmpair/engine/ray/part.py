"""A worker's part of a problem: its users with all their events, and their layout."""

from __future__ import annotations

from collections.abc import Iterator
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
from fmpair.engine.cpu.layout import EventLayout, laid_out
from fmpair.engine.strata.partition import Assignment, EventsByUser, placed
from fmpair.jit import kernel

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
