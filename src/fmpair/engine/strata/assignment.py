"""Which block of the strata plan every user and every item is in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


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
