"""The minibatches of a cell, for softmax over all items of its block.

Where events are learned from one by one, the softmax of an event is over a few negatives. Scores of
several events with all items of a block cost little more, since they are a product of matrices. So
the events of a cell are shuffled and learned from in minibatches. The items of the block stand for
all items: see `raised_by`.

All gradients of a minibatch are taken at the vectors that it begins with. So that few vectors move
more than once, a minibatch has at most half as many events as the cell has users, or items. The
user with most events has on average at most MAX_OF_USER of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fmpair.jit import kernel
from fmpair.rng import STEP, high, scramble

LARGEST = 256  # events of a minibatch
MAX_OF_USER = 2  # events of the most active user in a minibatch, on average
ITEMS = 192  # of a block at most, if there are enough events
MIN_USERS, MIN_EVENTS, MAX_BLOCKS = 64, 128, 64  # of a block, of a cell, of a plan
# With histories: more cells take more steps on copies, whose mean learns more slowly.
MIN_OF_HISTORIES = 256


class CellEvents(NamedTuple):
    """The events of a cell in the order in which they are learned from.

    event: int64, places in the partition; run: int64, the run of each. size: events of a minibatch.
    """

    event: np.ndarray
    run: np.ndarray
    size: int


@kernel
def events_of(runs, items, run_start, visits, state):
    """Return the CellEvents of the runs [first, last) with a block of `items` items.

    visits: how often each event is learned from, empty for once each. state: the random state of
    the cell.
    """
    first, last = runs
    begun = np.int64(run_start[first])
    count = np.int64(run_start[last]) - begun
    if len(visits) > 0:
        count = np.int64(visits[begun : begun + count].sum())
    event, run = np.empty(count, np.int64), np.empty(count, np.int64)
    n, most = 0, 1  # events so far, and those of the most active user
    for r in range(first, last):
        before = n
        for e in range(run_start[r], run_start[r + 1]):
            for _ in range(visits[e] if len(visits) > 0 else 1):
                event[n], run[n] = e, r
                n += 1
        most = max(most, n - before)
    draws = scramble(state)  # others draw from `state`
    for n in range(count - 1, 0, -1):
        draws += STEP
        m = high(scramble(draws), np.uint64(n + 1))
        event[n], event[m] = event[m], event[n]
        run[n], run[m] = run[m], run[n]
    size = min(LARGEST, (last - first) // 2, items // 2, MAX_OF_USER * count // most)
    return CellEvents(event, run, max(size, 1))


@kernel
def raised_by(items, of_block):
    """Return what is added to the scores of the items that an event did not choose.

    Each of them stands for its share of all `items` in the softmax over all items. items: 0 for no
    correction.
    """
    return math.log(max((items - 1) / max(of_block - 1, 1), 1.0))


def choose_blocks(users: int, items: int, events: int, histories: bool = False) -> int:
    """Return B for a problem's size: a power of two, independent of the number of threads."""
    blocks, least = 1, MIN_OF_HISTORIES if histories else MIN_EVENTS
    while (
        blocks < MAX_BLOCKS
        and items > ITEMS * blocks
        and users >= 2 * blocks * MIN_USERS
        and events >= 4 * blocks**2 * least
    ):
        blocks *= 2
    return blocks
