"""Ranking kernels: multiply query vectors with the item matrix in batches, leave out seen items."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import numpy as np

from fmpair.arrays import Rows
from fmpair.jit import inline, kernel
from fmpair.ranking import plain
from fmpair.threads import side_by_side

ON_DEVICE = "fmpair.ranking.gpu"
SCORES_AT_ONCE = 1 << 20  # float32 scores of a batch: 4 MB per thread, which stay in cache
BATCHES = 32  # the least number of batches, so that many threads have work
FEW_ROWS = 32  # queries of a batch that are not split to reach BATCHES
# The least number of queries in a batch, since reading the items takes longer than multiplying.
MIN_ROWS = 8
ScoreBatch = Callable[[int, np.ndarray], None]  # (first query, scores [batch, items])


def item_matrix(vectors: np.ndarray, constants: np.ndarray) -> np.ndarray:
    """Return float32 [factors + 1, items]: vectors [items, factors] and constants [items], as
    columns."""
    return np.ascontiguousarray(np.column_stack([vectors, constants]).T, np.float32)


def top(
    queries: np.ndarray,
    items: np.ndarray,
    hidden: Rows,
    n: int,
    threads: int | None = None,
    device: str | None = None,
    apart: bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the n best items of each query: (items int32 [q, n], scores float32 [q, n], counts
    [q]).

    items: an `item_matrix`; hidden: the items to leave out, per query. Ties go to the lower item
    number. device: a device of PyTorch; None for the compiled kernels. apart: a product for each
    query, which gives the bits that the query has alone.
    """
    if device is not None:
        return import_module(ON_DEVICE).top(queries, items, hidden, n, device)
    n = min(n, items.shape[1])
    best, score, filled = empty_lists(len(queries), n)

    def work(first: int, scores: np.ndarray) -> None:
        select(scores, first, hidden.start, hidden.column, n, best, score, filled)

    _in_batches(queries, items, work, threads, apart)
    return best, score, filled


def empty_lists(queries: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return lists for `select` to fill: items int32 [q, n], scores float32 [q, n], counts [q]."""
    best, score = np.full((queries, n), -1, np.int32), np.full((queries, n), -np.inf, np.float32)
    return best, score, np.zeros(queries, np.int64)


def ranks(
    queries: np.ndarray,
    items: np.ndarray,
    hidden: Rows,
    target: np.ndarray,
    threads: int | None = None,
    device: str | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return how many items rank above the target of each query, and how many tie: int64 [q] each.

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
    """Return the number of queries in a batch; it does not depend on the number of threads."""
    rows = min(max(SCORES_AT_ONCE // max(items, 1), MIN_ROWS), 1024)
    return min(rows, max(-(-queries // BATCHES), FEW_ROWS))


def _in_batches(
    queries: np.ndarray,
    items: np.ndarray,
    work: ScoreBatch,
    threads: int | None,
    apart: bool = False,
) -> None:
    """Call work(first query, scores [batch, items]) for batches of queries, in parallel."""
    rows = rows_at_once(len(queries), items.shape[1])
    most = min(rows, len(queries))
    idle: list[np.ndarray] = []  # a buffer per thread: fresh memory is slow to write to

    def run(first: int) -> None:
        part = queries[first : first + rows]
        full = np.empty((len(part), queries.shape[1] + 1), np.float32)
        full[:, :-1], full[:, -1] = part, 1
        scores = idle.pop() if idle else np.empty((most, items.shape[1]), np.float32)
        for rows_of in _products(len(part), apart):
            np.matmul(full[rows_of], items, out=scores[rows_of])
        work(first, scores[: len(part)])
        idle.append(scores)

    side_by_side(run, range(0, len(queries), rows), threads)


def _products(queries: int, apart: bool) -> list[slice]:
    """Return the queries of each product: all of a batch, or one."""
    return [slice(row, row + 1) for row in range(queries)] if apart else [slice(0, queries)]


@kernel(plain=plain.select)
def select(scores, first, start, column, n, best, score, filled):
    """Select the n best items of each row with a heap whose root is the worst, then sort them.

    scores: float32 [rows, items], row r is query first + r; start, column: hidden items of each
    query. Written at the query's row: best int32 [queries, n], score float32 [queries, n]
    (initially -inf), filled int64 [queries], the number of items.
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
                    push_item(heap, held, size, value, item)
                    size += 1
                    if size == n:
                        worst = heap[0]
                else:
                    replace_worst(heap, held, size, value, item)
                    worst = heap[0]
        sort_items(heap, held, size)
        filled[query] = size


@inline
def ranks_below(value, item, other, other_item):
    """Return whether (value, item) ranks below (other, other_item)."""
    return value < other or (value == other and item > other_item)


@kernel
def sort_items(heap, held, size):
    """Turn a heap whose root is the worst into a list, best first."""
    for end in range(size - 1, 0, -1):
        value, item = heap[end], held[end]
        top_value, top_item = heap[0], held[0]
        replace_worst(heap, held, end, value, item)
        heap[end], held[end] = top_value, top_item


@kernel
def push_item(heap, held, size, value, item):
    """Add (value, item)."""
    node = size
    while node > 0:
        parent = (node - 1) >> 1
        if not ranks_below(value, item, heap[parent], held[parent]):
            break
        heap[node], held[node] = heap[parent], held[parent]
        node = parent
    heap[node], held[node] = value, item


@kernel
def replace_worst(heap, held, size, value, item):
    """Replace the worst by (value, item)."""
    node = 0
    while True:
        child = 2 * node + 1
        if child >= size:
            break
        if child + 1 < size and ranks_below(
            heap[child + 1], held[child + 1], heap[child], held[child]
        ):
            child += 1
        if not ranks_below(heap[child], held[child], value, item):
            break
        heap[node], held[node] = heap[child], held[child]
        node = child
    heap[node], held[node] = value, item


@kernel(plain=plain.rank)
def _rank(scores, first, start, column, target, above, level):
    for r in range(len(scores)):
        row, query = scores[r], first + r
        target_score = row[target[query]]
        for e in range(start[query], start[query + 1]):
            row[column[e]] = -np.inf
        row[target[query]] = -np.inf
        more, equal = 0, 0
        for item in range(len(row)):
            more += row[item] > target_score
            equal += row[item] == target_score
        above[query], level[query] = more, equal
