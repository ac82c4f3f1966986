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

from fmpair.engine.contract import Settings
from fmpair.engine.strata.partition import Partition

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


def events_of(partition: Partition, cell: int, visits: np.ndarray, state: int) -> CellEvents:
    """Return a cell's events; visits: how often each is learned from, empty for once each.

    state: the random state of the cell.
    """
    first, last = int(partition.cell[cell]), int(partition.cell[cell + 1])
    start = partition.run_start[first : last + 1].astype(np.int64)
    event = np.arange(start[0], start[-1])
    run = np.repeat(np.arange(first, last), np.diff(start))
    if len(visits):
        times = visits[event]
        event, run = np.repeat(event, times), np.repeat(run, times)
    order = np.random.default_rng(state).permutation(len(event))
    column = cell % partition.blocks
    items = int(partition.item_edge[column + 1] - partition.item_edge[column])
    most = int(np.bincount(run - first).max(initial=1))  # events of a user
    size = min(LARGEST, (last - first) // 2, items // 2, MAX_OF_USER * len(event) // most)
    return CellEvents(event[order], run[order], max(size, 1))


def raised_by(settings: Settings, items: int, of_block: int) -> float:
    """Return what is added to the scores of the items that an event did not choose.

    Each of them stands for its share of all items in the softmax over all items.
    """
    if not settings.logq_correction:
        return 0.0
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
