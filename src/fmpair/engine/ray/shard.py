"""Events on their way to the workers whose users they are of."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fmpair.arrays import tally
from fmpair.engine.contract import Problem
from fmpair.engine.shard import NO_NUMBERS, Maker, Shard

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
