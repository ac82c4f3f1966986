"""Ranking kernels: query vectors against one item matrix, blocked, seen items masked natively."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import numpy as np

from fmpair.arrays import Rows
from fmpair.jit import inline, kernel
from fmpair.ranking import plain
from fmpair.threads import side_by_side

ON_DEVICE = "fmpair.ranking.gpu"
SCORES_AT_ONCE = 1 << 20  # float32 scores of one batch: 4 MB a thread, which stay in cache
BATCHES = 32  # at least, so that many threads have work: more would multiply in small pieces
FEW_ROWS = 32  # that are not divided further for it
LEAST_ROWS = 8  # however many the items: to read them all takes longer than to multiply


def item_matrix(vectors: np.ndarray, constants: np.ndarray) -> np.ndarray:
    """float32 [factors + 1, items]: an item's vector and constant as a column, for `top`, `ranks`.

    vectors: [items, factors]; constants: [items].
    """
    return np.ascontiguousarray(np.column_stack([vectors, constants]).T, np.float32)


def top(
    queries: np.ndarray,
    items: np.ndarray,
    hidden: Rows,
    n: int,
    threads: int | None = None,
    device: str | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The n best items of each query: (item int32 [q, n], score float32 [q, n], how many int [q]).

    items: an `item_matrix`; hidden: per query the items (its columns) left out. Ties go to the
    lower item number. device: of PyTorch, where it ranks; None for the kernels.
    """
    if device is not None:
        return import_module(ON_DEVICE).top(queries, items, hidden, n, device)
    count = len(queries)
    n = min(n, items.shape[1])
    best = np.full((count, n), -1, np.int32)
    score = np.full((count, n), -np.inf, np.float32)
    filled = np.zeros(count, np.int64)

    def work(first: int, scores: np.ndarray) -> None:
        select(scores, first, hidden.start, hidden.column, n, best, score, filled)

    _in_batches(queries, items, work, threads)
    return best, score, filled


def ranks(
    queries: np.ndarray,
    items: np.ndarray,
    hidden: Rows,
    target: np.ndarray,
    threads: int | None = None,
    device: str | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Per query how many items stand above its target item, and how many level: int64 [q] each.

    items: an `item_matrix`; device: as in `top`.
    """
    if device is not None:
        return import_module(ON_DEVICE).ranks(queries, items, hidden, target, device)
    above, level = np.zeros(len(queries), np.int64), np.zeros(len(queries), np.int64)

    def work(first: int, scores: np.ndarray) -> None:
        _rank(scores, first, hidden.start, hidden.column, target, above, level)

    _in_batches(queries, items, work, threads)
    return above, level


def rows_at_once(queries: int, items: int) -> int:
    """Of how many queries the scores are made at a time; the number of threads has no say in it."""
    rows = min(max(SCORES_AT_ONCE // max(items, 1), LEAST_ROWS), 1024)
    return min(rows, max(-(-queries // BATCHES), FEW_ROWS))


def _in_batches(
    queries: np.ndarray,
    items: np.ndarray,
    work: Callable[[int, np.ndarray], None],
    threads: int | None,
) -> None:
    """Call work(first query, scores [batch, items]) for batches of queries, side by side."""
    rows = rows_at_once(len(queries), items.shape[1])
    idle: list[np.ndarray] = []  # room for scores, one a thread: fresh memory is slow to write to

    def run(first: int) -> None:
        part = queries[first : first + rows]
        full = np.ones((len(part), queries.shape[1] + 1), np.float32)
        full[:, :-1] = part
        room = idle.pop() if idle else np.empty((rows, items.shape[1]), np.float32)
        work(first, np.matmul(full, items, out=room[: len(part)]))
        idle.append(room)

    side_by_side(run, range(0, len(queries), rows), threads)


@kernel(plain=plain.select)
def select(scores, first, start, column, n, best, score, filled):
    """The n best of each row: kept in a heap with the worst on top, then sorted.

    scores: float32 [rows, items], its row r asks as query first + r; start, column: the items left
    out of each query's list, which become -inf. Written at the query's place: best int32 [queries,
    n], score float32 [queries, n] (given as -inf), filled int64 [queries], how many there are.
    """
    for r in range(len(scores)):
        row, query = scores[r], first + r
        for e in range(start[query], start[query + 1]):
            row[column[e]] = -np.inf
        heap, held, size = score[query], best[query], 0
        worst = np.float32(-np.inf)
        for item in range(len(row)):
            value = row[item]
            if value > worst:
                if size < n:
                    _push(heap, held, size, value, item)
                    size += 1
                    if size == n:
                        worst = heap[0]
                else:
                    _replace(heap, held, size, value, item)
                    worst = heap[0]
        for end in range(size - 1, 0, -1):
            value, item = heap[end], held[end]
            top_value, top_item = heap[0], held[0]
            _replace(heap, held, end, value, item)
            heap[end], held[end] = top_value, top_item
        filled[query] = size


@inline
def _worse(value, item, other, other_item):
    """Whether (value, item) ranks below (other, other_item)."""
    return value < other or (value == other and item > other_item)


@kernel
def _push(heap, held, size, value, item):
    place = size
    while place > 0:
        parent = (place - 1) >> 1
        if not _worse(value, item, heap[parent], held[parent]):
            break
        heap[place], held[place] = heap[parent], held[parent]
        place = parent
    heap[place], held[place] = value, item


@kernel
def _replace(heap, held, size, value, item):
    """Put (value, item) in place of the worst."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and _worse(heap[child + 1], held[child + 1], heap[child], held[child]):
            child += 1
        if not _worse(heap[child], held[child], value, item):
            break
        heap[place], held[place] = heap[child], held[child]
        place = child
    heap[place], held[place] = value, item


@kernel(plain=plain.rank)
def _rank(scores, first, start, column, target, above, level):
    for r in range(len(scores)):
        row, query = scores[r], first + r
        own = row[target[query]]
        for e in range(start[query], start[query + 1]):
            row[column[e]] = -np.inf
        row[target[query]] = -np.inf
        more, equal = 0, 0
        for item in range(len(row)):
            more += row[item] > own
            equal += row[item] == own
        above[query], level[query] = more, equal
