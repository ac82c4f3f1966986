"""The ranking kernels in plain NumPy, for machines on which nothing can be compiled.

Each takes what the kernel of its name takes and writes what that one writes, ties included.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows
from fmpair.rng import GOLDEN, MASK, mixed, scrambled

# What is to be judged: lists by unit, and the candidates to draw for them.


IN_ORDER, UNIFORM, WEIGHTED = range(3)


class Task(NamedTuple):
    """Lists to judge, one per unit.

    query: int64 [units], ascending, the row of scores; owner: int64 [units], the row of hidden.
    hidden: items that leave the list, unless they are relevant. relevant: per unit its relevant
    items, each once; -1 stands for one that has no score.
    """

    query: np.ndarray
    owner: np.ndarray
    hidden: Rows
    relevant: Rows


class Pool(NamedTuple):
    """Candidates to draw `most` of, beside the relevant items.

    row: int64 [units], the row of `items` to draw from; items: distinct candidates, in order.
    weight: float64 [items], for WEIGHTED. kind: IN_ORDER, UNIFORM or WEIGHTED. state: of the draws.
    """

    row: np.ndarray
    items: Rows
    weight: np.ndarray
    kind: int
    most: int
    state: np.uint64


def select(
    scores: np.ndarray,
    first: int,
    start: np.ndarray,
    column: np.ndarray,
    n: int,
    best: np.ndarray,
    score: np.ndarray,
    filled: np.ndarray,
) -> None:
    for query, row in enumerate(scores, first):
        row[column[start[query] : start[query + 1]]] = -np.inf
        item = np.flatnonzero(row > -np.inf)
        if len(item) > n:
            worst = np.partition(row[item], len(item) - n)[len(item) - n]
            item = item[row[item] >= worst]  # more than n, where several are level with the worst
        item = item[np.argsort(-row[item], kind="stable")[:n]]
        filled[query] = len(item)
        best[query, : len(item)], score[query, : len(item)] = item, row[item]


def rank(
    scores: np.ndarray,
    first: int,
    start: np.ndarray,
    column: np.ndarray,
    target: np.ndarray,
    above: np.ndarray,
    level: np.ndarray,
) -> None:
    for query, row in enumerate(scores, first):
        own = row[target[query]]
        row[column[start[query] : start[query + 1]]] = -np.inf
        row[target[query]] = -np.inf
        above[query], level[query] = np.count_nonzero(row > own), np.count_nonzero(row == own)


def mask(
    scores: np.ndarray,
    row: np.ndarray,
    first: int,
    task: Task,
    allowed: np.ndarray,
    values: np.ndarray,
    score: np.ndarray,
) -> None:
    for unit, (given, own) in enumerate(zip(scores[row], values), first):
        own[:] = np.where(allowed, given, -np.inf)
        own[_part(task.hidden, task.owner[unit])] = -np.inf
        item = _part(task.relevant, unit)
        listed = (item >= 0) & allowed[item]
        own[item[listed]] = given[item[listed]]
        begin, end = task.relevant.start[unit : unit + 2]
        score[begin:end] = np.where(listed, given[item], -np.inf)


def draw(
    scores: np.ndarray,
    row: np.ndarray,
    first: int,
    task: Task,
    pool: Pool,
    values: np.ndarray,
    score: np.ndarray,
    eligible: np.ndarray,
) -> None:
    for unit, (given, own) in enumerate(zip(scores[row], values), first):
        item = _part(task.relevant, unit)
        known = item[item >= 0]
        begin, end = task.relevant.start[unit : unit + 2]
        score[begin:end] = np.where(item >= 0, given[item], -np.inf)
        own[pool.most : pool.most + len(known)] = given[known]
        free = np.ones(len(given), bool)
        free[_part(task.hidden, task.owner[unit])] = free[known] = False
        allowed = _part(pool.items, pool.row[unit])
        allowed = allowed[free[allowed]]
        eligible[unit], taken = len(allowed), min(len(allowed), pool.most)
        if taken < len(allowed):
            state = mixed(int(pool.state) + GOLDEN * (unit + 1))
            if pool.kind == UNIFORM:
                _shuffle_head(allowed, taken, state)
            elif pool.kind == WEIGHTED:
                allowed = _weighted_head(allowed, taken, pool.weight, state)
        own[:taken] = given[allowed[:taken]]


def _shuffle_head(allowed: np.ndarray, taken: int, state: int) -> None:
    for place in range(taken):
        state += GOLDEN
        other = place + ((mixed(state) >> 32) * (len(allowed) - place) >> 32)
        allowed[place], allowed[other] = allowed[other], allowed[place]


def _weighted_head(allowed: np.ndarray, taken: int, weight: np.ndarray, state: int) -> np.ndarray:
    steps = np.arange(1, len(allowed) + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    uniform = ((scrambled(np.uint64(state & MASK) + steps) >> np.uint64(11)) + 0.5) / 2.0**53
    key = -np.log(uniform) / weight[allowed]
    limit = np.partition(key, taken - 1)[taken - 1]
    return allowed[key <= limit][:taken]


def count(
    values: np.ndarray,
    first: int,
    start: np.ndarray,
    score: np.ndarray,
    above: np.ndarray,
    level: np.ndarray,
    listed: np.ndarray,
) -> None:
    for unit, own in enumerate(values, first):
        listed[unit] = np.count_nonzero(own > -np.inf)
        for e in range(start[unit], start[unit + 1]):
            if score[e] > -np.inf:
                above[e] = np.count_nonzero(own > score[e])
                level[e] = np.count_nonzero(own == score[e])


def shared(
    start: np.ndarray, column: np.ndarray, left: np.ndarray, right: np.ndarray
) -> np.ndarray:
    rows = np.split(column, start[1:-1])
    pairs = (np.intersect1d(rows[a], rows[b], assume_unique=True) for a, b in zip(left, right))
    return np.array([len(both) for both in pairs], np.int64)


def _part(rows: Rows, number: int) -> np.ndarray:
    """A copy of one sparse row's columns."""
    return rows.column[rows.start[number] : rows.start[number + 1]].copy()
