"""Kernels that find the ranks of the relevant items of many lists, in batches, with ties."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fmpair.jit import kernel
from fmpair.ranking import plain
from fmpair.ranking.plain import UNIFORM, WEIGHTED, Pool, RankingTask, Ranks, empty_ranks
from fmpair.ranking.top import select
from fmpair.rng import GOLDEN, high, scramble
from fmpair.threads import side_by_side


def judge(
    scores: Callable[[np.ndarray], np.ndarray],
    task: RankingTask,
    candidates: Pool | np.ndarray,
    *,
    top: int = 0,
    batch: int,
    threads: int | None = None,
) -> Ranks:
    """Rank the relevant items of all units, `batch` units at a time.

    scores: query numbers (ascending) to float32 [queries, items]; items at -inf or NaN are not
    listed. candidates: bool [items] for whole lists, or a pool to draw from.
    """
    units, out = len(task.query), empty_ranks(task, top)

    def run(first: int) -> None:
        last = min(first + batch, units)
        queries, row = np.unique(task.query[first:last], return_inverse=True)
        _judge_batch(np.asarray(scores(queries), np.float32), row, first, task, candidates, out)

    side_by_side(run, range(0, units, batch), threads)
    return out


def _judge_batch(
    scores: np.ndarray,
    row: np.ndarray,
    first: int,
    task: RankingTask,
    candidates: Pool | np.ndarray,
    out: Ranks,
) -> None:
    if isinstance(candidates, Pool):
        longest = int(np.diff(task.relevant.start[first : first + len(row) + 1]).max())
        values = np.full((len(row), candidates.most + longest), -np.inf, np.float32)
        _draw(scores, row, first, task, candidates, values, out.score, out.eligible)
    else:
        values = np.empty((len(row), scores.shape[1]), np.float32)
        _mask(scores, row, first, task, candidates, values, out.score)
    start = task.relevant.start
    _count(values, first, start, out.score, out.above, out.level, out.listed)
    if out.best.shape[1]:
        part = slice(first, first + len(row))
        heap = np.full((len(row), out.best.shape[1]), -np.inf, np.float32)
        none, filled = np.zeros(len(row) + 1, np.int64), np.zeros(len(row), np.int64)
        select(values, 0, none, none.astype(np.int32), heap.shape[1], out.best[part], heap, filled)


@kernel(plain=plain.mask)
def _mask(scores, row, first, task, allowed, values, score):
    """Set each unit's scores, with the items that are not in its list at -inf."""
    for u in range(len(row)):
        unit, unit_values, query_scores = first + u, values[u], scores[row[u]]
        for item in range(len(unit_values)):
            unit_values[item] = query_scores[item] if allowed[item] else -np.inf
        owner = task.owner[unit]
        for e in range(task.hidden.start[owner], task.hidden.start[owner + 1]):
            unit_values[task.hidden.column[e]] = -np.inf
        for e in range(task.relevant.start[unit], task.relevant.start[unit + 1]):
            item = task.relevant.column[e]
            if item >= 0 and allowed[item]:
                unit_values[item] = query_scores[item]
                score[e] = query_scores[item]
            else:
                score[e] = -np.inf


@kernel(plain=plain.draw)
def _draw(scores, row, first, task, pool, values, score, eligible):
    """Set each unit's scores of the items drawn for it, followed by its relevant items."""
    mark = np.zeros(scores.shape[1], np.int32)
    allowed = np.empty(scores.shape[1] + 1, np.int32)
    for u in range(len(row)):
        unit, query_scores = first + u, scores[row[u]]
        owner, end = task.owner[unit], pool.most
        for e in range(task.hidden.start[owner], task.hidden.start[owner + 1]):
            mark[task.hidden.column[e]] = u + 1
        for e in range(task.relevant.start[unit], task.relevant.start[unit + 1]):
            item = task.relevant.column[e]
            score[e] = -np.inf
            if item >= 0:
                mark[item] = u + 1
                score[e] = query_scores[item]
                values[u, end] = query_scores[item]
                end += 1
        count = 0
        for e in range(pool.items.start[pool.row[unit]], pool.items.start[pool.row[unit] + 1]):
            item = pool.items.column[e]
            allowed[count] = item  # overwritten by the next unless counted: avoids a branch
            count += mark[item] != u + 1
        eligible[unit] = count
        taken = min(count, pool.most)
        if taken < count:
            state = scramble(pool.state + np.uint64(GOLDEN) * np.uint64(unit + 1))
            if pool.kind == UNIFORM:
                _shuffle_head(allowed, count, taken, state)
            elif pool.kind == WEIGHTED:
                _weighted_head(allowed, count, taken, pool.weight, state)
        for c in range(taken):
            values[u, c] = query_scores[allowed[c]]


@kernel
def _shuffle_head(allowed, count, taken, state):
    """Move a uniform sample without replacement to the head."""
    for n in range(taken):
        state += np.uint64(GOLDEN)
        other = n + high(scramble(state), np.uint64(count - n))
        allowed[n], allowed[other] = allowed[other], allowed[n]


@kernel
def _weighted_head(allowed, count, taken, weight, state):
    """Move a weighted sample without replacement to the head: the least exponential draws."""
    key = np.empty(count)
    for c in range(count):
        state += np.uint64(GOLDEN)
        uniform = (np.float64(scramble(state) >> np.uint64(11)) + 0.5) / 9007199254740992.0
        key[c] = -np.log(uniform) / weight[allowed[c]]
    limit = _nth(key.copy(), taken - 1)
    n = 0
    for c in range(count):
        if key[c] <= limit and n < taken:
            allowed[n] = allowed[c]
            n += 1


@kernel
def _nth(values, nth):
    """Return what would stand at a place of the sorted values, which it reorders.

    By quickselect. `np.partition` does the same, and takes ten seconds more to compile.
    """
    first, last = 0, len(values) - 1
    while first < last:
        pivot = values[(first + last) // 2]
        left, right = first, last
        while left <= right:
            while values[left] < pivot:
                left += 1
            while values[right] > pivot:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                left, right = left + 1, right - 1
        if nth <= right:
            last = right
        elif nth >= left:
            first = left
        else:
            break
    return values[nth]


@kernel(plain=plain.count)
def _count(values, first, start, score, above, level, listed):
    """Count a unit's values above and tied with each of its relevant ones."""
    for u in range(len(values)):
        unit_values, unit = values[u], first + u
        length = 0
        for c in range(len(unit_values)):
            length += unit_values[c] > -np.inf
        listed[unit] = length
        for e in range(start[unit], start[unit + 1]):
            target = score[e]
            if target > -np.inf:
                more, equal = 0, 0
                for c in range(len(unit_values)):
                    more += unit_values[c] > target
                    equal += unit_values[c] == target
                above[e], level[e] = more, equal


@kernel(plain=plain.shared)
def shared(start, column, left, right):
    """Count the columns that two sorted rows have in common, per pair of rows: int64 [pairs]."""
    out = np.zeros(len(left), np.int64)
    for pair in range(len(left)):
        a, b = start[left[pair]], start[right[pair]]
        while a < start[left[pair] + 1] and b < start[right[pair] + 1]:
            x, y = column[a], column[b]
            out[pair] += x == y
            a += x <= y
            b += y <= x
    return out
