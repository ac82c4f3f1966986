"""A worker's part of a problem: its users with all their events, and how they are laid out."""

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
    Source,
)
from fmpair.engine.cpu.layout import EventLayout, laid_out
from fmpair.engine.strata.partition import Assignment, EventsByUser, placed
from fmpair.jit import kernel

# Events on their way to the workers whose users they are of.


SHARD = 1 << 22  # events that are cut from a problem at a time
Piece = Shard | Maker  # what a worker is handed


def shards_of(problem: Problem, numbered: bool) -> Iterator[Shard]:
    """A problem's events in pieces; numbered: with the number of each."""
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
    """How many events each user and each item has."""
    return tally(problem.user, problem.users), tally(problem.item, problem.items)


def split(shard: Shard, owner: np.ndarray, workers: int) -> list[Shard]:
    """The shard's events by worker; owner: int16 [users], the worker of each user."""
    mine = owner[shard.user]
    return [_taken(shard, np.flatnonzero(mine == worker)) for worker in range(workers)]


def _taken(shard: Shard, rows: np.ndarray) -> Shard:
    return Shard(*(values[rows] if len(values) else values for values in shard))


def shards_in(pieces: tuple[Piece, ...], users: np.ndarray) -> Iterator[Shard]:
    """What a worker was handed, a shard at a time; users: the numbers of its own."""
    for piece in pieces:
        if isinstance(piece, Shard):
            yield piece
        else:
            yield from piece(users)


class Own(NamedTuple):
    """What a worker is told of its part.

    place: which of how many workers it is. users: int32, the numbers of its users in the order of
    the assignment; activity: int64, how many events each has. assignment: of these users, by their
    places here, and of all items. times: int64 [items]. frame: the problem without events, with the
    rows of these users only. settings: with scales of these users only.
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
        """Its user blocks."""
        return rows_of(self.settings.blocks, self.place)


def rows_of(blocks: int, place: tuple[int, int]) -> range:
    """The user blocks of one of so many workers: neighbours, so that most blocks of items stay."""
    return range(*(blocks * number // place[1] for number in (place[0], place[0] + 1)))


class Part(NamedTuple):
    """The part laid out. number: int32, of each of its events among all, or empty."""

    own: Own
    problem: Problem
    layout: EventLayout
    number: np.ndarray


def own_part(
    problem: Problem,
    settings: Settings,
    assignment: Assignment,
    source: Source,
    place: tuple[int, int],
) -> Own:
    """What a worker is told of its part."""
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
        history=None if lines is None else _lines_of(lines, users),
    )
    if settings.l2_scale:
        scale = settings.l2_scale
        settings = settings._replace(l2_scale=scale._replace(users=scale.users[users]))
    return Own(place, users, source.activity[users], local, source.times, frame, settings)


def without_events(problem: Problem) -> Problem:
    """The problem with features of users and items alone."""
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


def _lines_of(history: History, users: np.ndarray) -> History:
    """The time lines of some users."""
    rows = Rows(history.start, history.item, np.broadcast_to(np.float32(1), len(history.item)))
    mine = rows.take(users)
    return history._replace(start=mine.start, item=mine.column, until=NO_NUMBERS, since=NO_NUMBERS)


def read(own: Own, pieces: tuple[Piece, ...], users: int) -> Part:
    """A worker's part, from what it was handed; users: how many there are in all.

    Its events stand user by user, each user's in their order.
    """
    start = starts(own.activity)
    found = _gathered(own, pieces, users, start)
    problem = _problem(own, found, start)
    numbered = any(len(found[n]) for n in range(2, len(found)))  # anything beside user and item
    event = np.arange(start[-1] if numbered else 0, dtype=np.int32)
    events = EventsByUser(start, found.item, event, own.times, problem.drawn)
    layout = laid_out(problem, own.settings, events, placed(events, own.assignment))
    # of many events each copy is most of the memory: from now on the layout alone has them
    layout = replace(layout, events=events._replace(item=NO_NUMBERS, event=NO_NUMBERS))
    return Part(own, problem, layout, found.number)


def _gathered(own: Own, pieces: tuple[Piece, ...], users: int, start: np.ndarray) -> Shard:
    """All that the pieces have, user by user; `user` itself is left out."""
    place, slot = np.zeros(users, np.int32), start[:-1].copy()
    place[own.users] = np.arange(len(own.users), dtype=np.int32)
    found = list(Shard(NO_NUMBERS, NO_NUMBERS))
    for shard in shards_in(pieces, own.users):
        at = np.empty(len(shard.user), np.int64)
        _slots(place, shard.user, slot, at)
        for n in range(1, len(shard)):
            if len(shard[n]):
                if not len(found[n]):
                    found[n] = np.empty(start[-1], shard[n].dtype)
                found[n][at] = shard[n]
    return Shard(*found)


def _problem(own: Own, found: Shard, start: np.ndarray) -> Problem:
    """The frame with the events that stand user by user from `start` on."""
    frame, lines = own.frame, own.frame.history
    problem = frame._replace(weight=found.weight, situation=found.situation)
    if lines is None:
        return problem
    user = np.repeat(np.arange(len(start) - 1, dtype=np.int32), np.diff(start))
    begun = lines.start[user].astype(np.int32)
    since = found.since + begun if len(found.since) else found.since
    if not len(found.situation):  # of which there is one, for everybody
        problem = problem._replace(situation=np.zeros(len(user), np.int32))
    return problem._replace(
        user=user, history=lines._replace(until=found.until + begun, since=since)
    )


@kernel
def _slots(place, user, slot, at):
    """Where each event goes among those of all users: the next free place of its own."""
    for e in range(len(user)):
        own = place[user[e]]
        at[e] = slot[own]
        slot[own] += 1
