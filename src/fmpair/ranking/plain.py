"""Inputs and results of ranking (`RankingTask`, `Pool`, `Ranks`), and its kernels in plain NumPy.

The functions replace the compiled kernels on machines that cannot compile. Each takes the same
arguments as the kernel of that name in `top` or `ranks` and gives the same results, also for ties.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows
from fmpair.rng import GOLDEN, MASK, mixed, scrambled

IN_ORDER, UNIFORM, WEIGHTED = range(3)


class RankingTask(NamedTuple):
    """Ranked lists to evaluate, one per unit.

    query: int64 [units], ascending, the row of scores; owner: int64 [units], the row of hidden.
    hidden: items removed from the list, unless relevant. relevant: the relevant items of each unit,
    each once; -1 for an item without a score.
    """

    query: np.ndarray
    owner: np.ndarray
    hidden: Rows
    relevant: Rows


class Pool(NamedTuple):
    """Candidates of sampled evaluation: `most` are drawn, besides the relevant items.

    row: int64 [units], the row of `items` to draw from; items: distinct candidates, in order.
    weight: float64 [items], for WEIGHTED. kind: IN_ORDER, UNIFORM or WEIGHTED. state: random state.
    """

    row: np.ndarray
    items: Rows
    weight: np.ndarray
    kind: int
    most: int
    state: np.uint64


class Ranks(NamedTuple):
    """The ranks of relevant items. above, level: int64 [relevant entries], items above and tied.

    score: float32 [relevant entries]. listed, eligible: int64 [units], the length of the list and
    the number of candidates to draw from. best: int32 [units, top], the head of each list, padded
    with -1.
    """

    above: np.ndarray
    level: np.ndarray
    score: np.ndarray
    listed: np.ndarray
    eligible: np.ndarray
    best: np.ndarray


def empty_ranks(task: RankingTask, top: int) -> Ranks:
    """Return the arrays for the ranks of a task, not yet computed."""
    units, entries = len(task.query), len(task.relevant.column)
    above, level = np.zeros((2, entries), np.int64)
    listed, eligible = np.zeros((2, units), np.int64)
    best = np.full((units, top), -1, np.int32)
    return Ranks(above, level, np.zeros(entries, np.float32), listed, eligible, best)


def select(scores, first, start, column, n, best, score, filled):
    for query, row in enumerate(scores, first):
        row[column[start[query] : start[query + 1]]] = -np.inf
        item = np.flatnonzero(row > -np.inf)
        if len(item) > n:
            worst = np.partition(row[item], len(item) - n)[len(item) - n]
            item = item[row[item] >= worst]  # more than n if several tie with the worst
        item = item[np.argsort(-row[item], kind="stable")[:n]]
        filled[query] = len(item)
        best[query, : len(item)], score[query, : len(item)] = item, row[item]


def rank(scores, first, start, column, target, above, level):
    for query, row in enumerate(scores, first):
        target_score = row[target[query]]
        row[column[start[query] : start[query + 1]]] = -np.inf
        row[target[query]] = -np.inf
        above[query] = np.count_nonzero(row > target_score)
        level[query] = np.count_nonzero(row == target_score)


def mask(scores, row, first, task, allowed, values, score):
    for unit, (query_scores, unit_values) in enumerate(zip(scores[row], values), first):
        unit_values[:] = np.where(allowed, query_scores, -np.inf)
        unit_values[_part(task.hidden, task.owner[unit])] = -np.inf
        item = _part(task.relevant, unit)
        listed = (item >= 0) & allowed[item]
        unit_values[item[listed]] = query_scores[item[listed]]
        begin, end = task.relevant.start[unit : unit + 2]
        score[begin:end] = np.where(listed, query_scores[item], -np.inf)


def draw(scores, row, first, task, pool, values, score, eligible):
    for unit, (query_scores, unit_values) in enumerate(zip(scores[row], values), first):
        item = _part(task.relevant, unit)
        known = item[item >= 0]
        begin, end = task.relevant.start[unit : unit + 2]
        score[begin:end] = np.where(item >= 0, query_scores[item], -np.inf)
        unit_values[pool.most : pool.most + len(known)] = query_scores[known]
        free = np.ones(len(query_scores), bool)
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
        unit_values[:taken] = query_scores[allowed[:taken]]


def _shuffle_head(allowed: np.ndarray, taken: int, state: int) -> None:
    for n in range(taken):
        state += GOLDEN
        other = n + ((mixed(state) >> 32) * (len(allowed) - n) >> 32)
        allowed[n], allowed[other] = allowed[other], allowed[n]


def _weighted_head(allowed: np.ndarray, taken: int, weight: np.ndarray, state: int) -> np.ndarray:
    steps = np.arange(1, len(allowed) + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    uniform = ((scrambled(np.uint64(state & MASK) + steps) >> np.uint64(11)) + 0.5) / 2.0**53
    key = -np.log(uniform) / weight[allowed]
    limit = np.partition(key, taken - 1)[taken - 1]
    return allowed[key <= limit][:taken]


def count(values, first, start, score, above, level, listed):
    for unit, unit_values in enumerate(values, first):
        listed[unit] = np.count_nonzero(unit_values > -np.inf)
        for e in range(start[unit], start[unit + 1]):
            if score[e] > -np.inf:
                above[e] = np.count_nonzero(unit_values > score[e])
                level[e] = np.count_nonzero(unit_values == score[e])


def shared(start, column, left, right):
    rows = np.split(column, start[1:-1])
    pairs = (np.intersect1d(rows[a], rows[b], assume_unique=True) for a, b in zip(left, right))
    return np.array([len(both) for both in pairs], np.int64)


def _part(rows: Rows, number: int) -> np.ndarray:
    """Return a copy of one sparse row's columns."""
    return rows.column[rows.start[number] : rows.start[number + 1]].copy()
