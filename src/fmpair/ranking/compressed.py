"""The best items of a large catalogue: a pass over int8 codes finds the few to score exactly.

Query q and item p are turned onto orthonormal axes, the first of which hold most of the spread of
the items. On these few, q1 and p1 are each a scale times int8 codes plus a rest: q1 = q' + dq and
p1 = p' + dp. Of the other axes, only the lengths |q2| and |p2| are kept. So q.p is at most
q'.p' + |q'||dp| + |dq||p| + |q2||p2|. An item is scored exactly unless this bound, and what float32
may round off it, stays below the n-th best score found so far. The lists are therefore those of
scoring every item. A score is the float64 sum of the products of the vectors as they are, in a
fixed order, rounded once: products of float32 are exact in float64, so it has the same bits on
every machine, for any number of threads and of queries.

Items may be arranged in cells (`cells`). A query then visits cells from the most promising on and
stops at the first that is estimated to stay below the n-th best score. An item whose constant is
-inf is never listed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows
from fmpair.jit import kernel
from fmpair.ranking.int8_dots import ROWS, dot, dots, padded
from fmpair.ranking.top import push_item, ranks_below, replace_worst, sort_items
from fmpair.threads import all_threads, blas_on, side_by_side

BLOCK = 2_048  # rows, whose codes stay in the L2 cache for all queries
LARGEST = 127  # code
PACKED_AT_ONCE = 1 << 16  # items
SAMPLE = 50_000  # items that the axes are fitted to
LEFT_OUT = 0.05  # the most of their spread that codes may leave out
SMALLEST = 1e-30  # a number of an item that has a code
ROUNDING = 2.0**-17  # of |q||p|: what float32 rounds off a bound and a score, see `asked`
TINY = 1e-37  # more than what underflow takes
LOWEST = np.float32(np.finfo(np.float32).min)

Best = tuple[np.ndarray, np.ndarray, np.ndarray]


class Packed(NamedTuple):
    """Item vectors as int8, arranged in cells; a single one holds the items in their own order.

    axes: float64 [factors, columns], orthonormal columns, on which vectors have codes: int8
    [items, width], with zeros beyond the columns. facts: float32 [3, items]: scale, length of the
    vector, and length of what lies off the axes. order: int32 [items], the item of each row; start:
    int64 [cells + 1], rows; centre:
    float32 [cells, factors]; radius: float32 [cells], the largest distance from the centre.
    constant: float32 [items], of each row; most: float32 [cells], the largest constant; size: of
    the largest finite one.
    """

    axes: np.ndarray
    codes: np.ndarray
    facts: np.ndarray
    order: np.ndarray
    start: np.ndarray
    centre: np.ndarray
    radius: np.ndarray
    constant: np.ndarray
    most: np.ndarray
    size: float


class Asked(NamedTuple):
    """Queries. codes: int8 [queries, width]; vector: float32 [queries, factors].

    facts: float32 [queries, 5]: scale, the factors of an item's facts in the bound, and a term of
    all items. start, hidden: the items to leave out of each list, ascending.
    """

    codes: np.ndarray
    vector: np.ndarray
    facts: np.ndarray
    start: np.ndarray
    hidden: np.ndarray


class Lists(NamedTuple):
    """Heaps, whose roots are their worst: score float32, item int32 [..., n], size int64 [...]."""

    score: np.ndarray
    item: np.ndarray
    size: np.ndarray


def pack(
    vectors: np.ndarray,
    constants: np.ndarray,
    order: np.ndarray | None = None,
    start: np.ndarray | None = None,
) -> Packed:
    """Compress float32 vectors [items, factors]; order, start: the cells, None for one of all."""
    items, factors = vectors.shape
    order = np.arange(items, dtype=np.int32) if order is None else order.astype(np.int32)
    start = np.array([0, items]) if start is None else start
    with blas_on(1):  # several threads would wait for each other longer than this takes
        axes, cells = main_axes(vectors), len(start) - 1
    codes = np.zeros((items, padded(axes.shape[1])), np.int8)
    facts = np.zeros((3, items), np.float32)
    centre, radius = np.zeros((cells, factors), np.float32), np.zeros(cells, np.float32)

    def work(first: int) -> None:
        part = slice(first, min(first + PACKED_AT_ONCE, items))
        exact = vectors[order[part]].astype(np.float64)
        turned = exact @ axes
        facts[1, part], facts[2, part] = lengths(exact, turned)
        write_codes(turned, first, codes, facts)

    side_by_side(work, range(0, items, PACKED_AT_ONCE), None)
    if cells > 1:

        def enclose(cell: int) -> None:
            _enclose(vectors, order, start, cell, centre, radius)

        side_by_side(enclose, range(cells), None)
    nothing = np.zeros(0, np.float32)
    packed = Packed(axes, codes, facts, order, start, centre, radius, nothing, nothing, 0.0)
    return with_constants(packed, constants)


def main_axes(vectors: np.ndarray) -> np.ndarray:
    """Return the mean's direction and those of the largest spread: float64 [factors, columns].

    As many columns as leave out little of the spread, and fill the width of the codes.
    """
    items, factors = vectors.shape
    sample = vectors[:: max(items // SAMPLE, 1)].astype(np.float64)
    mean = sample.mean(axis=0) if len(sample) else np.zeros(factors)
    mean /= np.linalg.norm(mean) or 1.0
    sample -= (sample @ mean)[:, None] * mean
    spread, turned = np.linalg.eigh(sample.T @ sample)
    left_out = np.cumsum(np.maximum(spread, 0))  # by the axes up to each, of small spread first
    most = LEFT_OUT * left_out[-1] if len(left_out) else 0.0
    columns = padded(int((left_out > most).sum()) + 1)
    if columns >= factors:
        return np.eye(factors)
    axes = np.linalg.qr(np.column_stack([mean, turned[:, ::-1]])[:, :columns])[0]
    return np.ascontiguousarray(axes)  # as it is read from a file: kernels are compiled for one


def lengths(exact: np.ndarray, turned: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds of the lengths of vectors and of what is off the axes, float64 [rows].

    exact: float64 [rows, factors], turned: the same on the axes.
    """
    length, on = (np.einsum("rf,rf->r", part, part) for part in (exact, turned))
    off = np.sqrt(np.maximum(length - on, 0) + 1e-13 * length)  # the difference is rounded
    off = np.zeros_like(off) if exact.shape == turned.shape else off
    return np.sqrt(length) * (1 + 1e-6) + TINY, off * (1 + 1e-6)


def with_constants(packed: Packed, constants: np.ndarray) -> Packed:
    """Return the items with other constants, float32 [items]."""
    row_constants = constants[packed.order].astype(np.float32)
    most = np.full(len(packed.radius), -np.inf, np.float32)
    filled = np.flatnonzero(np.diff(packed.start))
    if len(filled):
        most[filled] = np.fmax.reduceat(row_constants, packed.start[:-1][filled])
    size = float(np.abs(row_constants[np.isfinite(row_constants)]).max(initial=0))
    return packed._replace(constant=row_constants, most=most, size=size)


def top(
    queries: np.ndarray,
    vectors: np.ndarray,
    packed: Packed,
    hidden: Rows,
    n: int,
    threads: int | None = None,
    reach: float | None = None,
) -> Best:
    """Return the n best items of each query, as `ranking.top.top` does.

    vectors: float32 [items, factors], what `packed` was made of. reach: None scores every item that
    may be among the best; a number from 0 to 1 visits the cells that may hold one if their items
    come nearer to the query than the centre by at most this share of the radius. threads: None for
    all cores.
    """
    items, count = len(vectors), len(queries)
    n, threads = min(n, items), threads or all_threads()
    asking = asked(queries, packed, hidden)
    parts = min(threads, max(items // BLOCK, 1)) if reach is None else 1
    lists = _lists(parts, count, n)
    best = Lists(*(array[0] for array in lists))
    edges = np.linspace(0, items, parts + 1).astype(np.int64)

    def scan(part: int) -> None:
        lists_of_part = Lists(*(array[part] for array in lists))
        _scan_all(edges[part], edges[part + 1], packed, asking, vectors, lists_of_part)

    def search(query: int) -> None:
        estimate = np.empty(len(packed.radius))
        _estimate(asking.vector[query], packed, float(reach or 0), estimate)
        cells = np.argsort(-estimate, kind="stable")
        _visit(query, cells, estimate, packed, asking, vectors, best)

    if reach is None:
        side_by_side(scan, range(parts), threads)
    else:
        side_by_side(search, range(count), min(threads, max(count, 1)))
    _merge(lists, best)
    return best.item, best.score, best.size


def top_given(
    queries: np.ndarray,
    vectors: np.ndarray,
    constants: np.ndarray,
    chosen: np.ndarray,
    hidden: Rows,
    n: int,
) -> Best:
    """Return the n best of a few items as places in `chosen`, ascending; hidden: places too."""
    lists = _lists(1, len(queries), min(n, len(chosen)))
    merged = Lists(*(array[0] for array in lists))
    _score_given(np.ascontiguousarray(queries, np.float32), vectors, constants, chosen,
                 hidden.start, _sorted_rows(hidden), merged)  # fmt: skip
    return merged.item, merged.score, merged.size


def asked(queries: np.ndarray, packed: Packed, hidden: Rows) -> Asked:
    """Compress queries, and prepare their bounds.

    A number is at most half a scale from its code, so |dp| is at most that times the root of the
    columns. No partial sum of the bound exceeds 8|q||p| + |constant|. Twelve roundings of 2^-24
    each are less than ROUNDING of |q||p| and 2^-20 of the constant.
    """
    vector = np.ascontiguousarray(queries, np.float32)
    exact = vector.astype(np.float64)
    turned, columns = exact @ packed.axes, packed.axes.shape[1]
    scale = (np.abs(turned).max(axis=1, initial=0) / LARGEST).astype(np.float32)
    whole = np.where(scale > 0, scale, 1).astype(np.float64)[:, None]
    code = np.clip(np.rint(turned / whole), -LARGEST, LARGEST) * (scale > 0)[:, None]
    codes = np.zeros((len(vector), packed.codes.shape[1]), np.int8)
    codes[:, :columns] = code
    length, off = lengths(exact, turned)
    rest = np.linalg.norm(turned - code * whole, axis=1) * (1 + 1e-6) + ROUNDING * length
    half = np.linalg.norm(code * whole, axis=1) * np.sqrt(columns) / 2 * (1 + 1e-5)
    term = 2.0**-20 * packed.size + SMALLEST * np.sqrt(columns) * length + TINY
    facts = np.column_stack([scale, half, rest, off * (1 + 1e-6), term])
    column = _sorted_rows(hidden)
    return Asked(codes, vector, facts.astype(np.float32), hidden.start, column)


def _sorted_rows(rows: Rows) -> np.ndarray:
    """Return the columns, ascending in each row."""
    if not len(rows.column):
        return np.zeros(0, np.int32)
    return rows.column[np.lexsort((rows.column, rows.owner))].astype(np.int32)


def _lists(parts: int, queries: int, n: int) -> Lists:
    shape = parts, queries, n
    score, item = np.full(shape, -np.inf, np.float32), np.full(shape, -1, np.int32)
    return Lists(score, item, np.zeros(shape[:2], np.int64))


@kernel
def write_codes(turned, first, codes, facts):
    """Write codes and scales of rows from `first` on; turned: float64 [rows, columns]."""
    for row in range(len(turned)):
        peak = 0.0
        for value in turned[row]:
            peak = max(peak, abs(value))
        scale = np.float32(peak / LARGEST) if peak >= SMALLEST else np.float32(0)
        facts[0, first + row] = scale
        if scale > 0:
            for f in range(turned.shape[1]):
                code = np.rint(turned[row, f] / np.float64(scale))
                codes[first + row, f] = np.int8(min(max(code, -LARGEST), LARGEST))


@kernel
def _enclose(vectors, order, start, cell, centre, radius):
    """Write the mean of a cell's vectors, and the distance of the farthest."""
    factors, count = vectors.shape[1], start[cell + 1] - start[cell]
    mean = np.zeros(factors)
    for row in range(start[cell], start[cell + 1]):
        for f in range(factors):
            mean[f] += vectors[order[row], f]
    for f in range(factors):
        centre[cell, f] = mean[f] / max(count, 1)
    farthest = 0.0
    for row in range(start[cell], start[cell + 1]):
        distance = 0.0
        for f in range(factors):
            gap = np.float64(vectors[order[row], f]) - np.float64(centre[cell, f])
            distance += gap * gap
        farthest = max(farthest, distance)
    radius[cell] = np.float32(np.sqrt(farthest) * (1 + 1e-6))


@kernel
def _product(query, table, row):
    """query . table[row] in float64, in eight sums: as exact products, fused or not."""
    size = len(query)
    whole = size & -8
    a = b = c = d = e = f = g = h = 0.0
    for k in range(0, whole, 8):
        a += np.float64(query[k]) * np.float64(table[row, k])
        b += np.float64(query[k + 1]) * np.float64(table[row, k + 1])
        c += np.float64(query[k + 2]) * np.float64(table[row, k + 2])
        d += np.float64(query[k + 3]) * np.float64(table[row, k + 3])
        e += np.float64(query[k + 4]) * np.float64(table[row, k + 4])
        f += np.float64(query[k + 5]) * np.float64(table[row, k + 5])
        g += np.float64(query[k + 6]) * np.float64(table[row, k + 6])
        h += np.float64(query[k + 7]) * np.float64(table[row, k + 7])
    for k in range(whole, size):
        a += np.float64(query[k]) * np.float64(table[row, k])
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


@kernel
def _is_in(number, ascending):
    """Return whether a number is among others, by halves."""
    low, high = 0, len(ascending)
    while low < high:
        middle = (low + high) >> 1
        if ascending[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low < len(ascending) and ascending[low] == number


@kernel
def _offer(score, item, size, value, number):
    """Put an item on a list if it is among the best; return the new size."""
    if size < len(score):
        if value > -np.inf:
            push_item(score, item, size, value, number)
            return size + 1
    elif size and ranks_below(score[0], item[0], value, number):
        replace_worst(score, item, size, value, number)
    return size


@kernel(fastmath={"contract"})
def _bound(first, count, packed, asking, q, least, product, bound):
    """Write the bounds of the rows [first, first + count); return whether one reaches `least`."""
    codes, width, facts = packed.codes, packed.codes.shape[1], asking.facts[q]
    tiled = count // ROWS * ROWS
    for row in range(0, tiled, ROWS):
        dots(codes, first + row, asking.codes, q, width, product, row)
    for row in range(tiled, count):
        product[row] = dot(codes, first + row, asking.codes, q, width)
    last = first + count
    scale, length = packed.facts[0, first:last], packed.facts[1, first:last]
    off, constant = packed.facts[2, first:last], packed.constant[first:last]
    by_code, by_scale, by_length, by_off, term = facts[0], facts[1], facts[2], facts[3], facts[4]
    reached = False
    for row in range(count):
        error = length[row] * by_length + off[row] * by_off + term
        near = scale[row] * (by_code * np.float32(product[row]) + by_scale) + constant[row]
        bound[row] = near + error
        reached |= bound[row] >= least
    return reached


@kernel
def _worst(lists, q):
    """Return the score that an item must reach to be listed."""
    score = lists.score[q]
    return max(score[0], LOWEST) if lists.size[q] == len(score) else LOWEST


@kernel
def _scan(first, last, packed, asking, q, vectors, lists, product, bound):
    """Offer the rows [first, last) that may be among the best of query q to its list.

    product int32, bound float32 [BLOCK]: scratch.
    """
    worst = _worst(lists, q)
    if not _bound(first, last - first, packed, asking, q, worst, product, bound):
        return
    hidden = asking.hidden[asking.start[q] : asking.start[q + 1]]
    for row in range(first, last):
        if not bound[row - first] >= worst:
            continue
        number = packed.order[row]
        if _is_in(number, hidden):
            continue
        constant = np.float64(packed.constant[row])
        value = np.float32(_product(asking.vector[q], vectors, number) + constant)
        size = _offer(lists.score[q], lists.item[q], lists.size[q], value, number)
        lists.size[q] = size
        worst = _worst(lists, q)


@kernel
def _scan_all(first, last, packed, asking, vectors, lists):
    product, bound = np.empty(BLOCK, np.int32), np.empty(BLOCK, np.float32)
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        for q in range(len(asking.vector)):
            _scan(begin, end, packed, asking, q, vectors, lists, product, bound)


@kernel
def _estimate(query, packed, reach, estimate):
    """Write the best score that is expected of each cell; with reach 1 no item exceeds it."""
    length = 0.0
    for value in query:
        length += np.float64(value) * np.float64(value)
    for cell in range(len(estimate)):
        near, most = _product(query, packed.centre, cell), np.float64(packed.most[cell])
        spread = reach * np.sqrt(length) * np.float64(packed.radius[cell])
        slack = 2.0**-20 * (abs(near) + abs(most) + spread) + TINY  # a score is rounded
        estimate[cell] = near + most + spread + slack if most > -np.inf else -np.inf


@kernel
def _visit(q, cells, estimate, packed, asking, vectors, lists):
    """Scan cells in this order, until none can be expected to hold one of the best items."""
    product, bound = np.empty(BLOCK, np.int32), np.empty(BLOCK, np.float32)
    for cell in cells:
        if estimate[cell] < _worst(lists, q):
            break
        for begin in range(packed.start[cell], packed.start[cell + 1], BLOCK):
            end = min(begin + BLOCK, packed.start[cell + 1])
            _scan(begin, end, packed, asking, q, vectors, lists, product, bound)


@kernel
def _merge(lists, merged):
    """Merge the lists of all parts into those of the first, best items first."""
    for q in range(lists.size.shape[1]):
        score, item = merged.score[q], merged.item[q]
        for part in range(1, len(lists.size)):
            for rank in range(lists.size[part, q]):
                value, number = lists.score[part, q, rank], lists.item[part, q, rank]
                merged.size[q] = _offer(score, item, merged.size[q], value, number)
        sort_items(score, item, merged.size[q])


@kernel
def _score_given(queries, vectors, constants, chosen, start, hidden, lists):
    """List the best of a few items by their places."""
    for q in range(len(queries)):
        leave_out = hidden[start[q] : start[q + 1]]
        for position in range(len(chosen)):
            if _is_in(position, leave_out):
                continue
            item = chosen[position]
            product = _product(queries[q], vectors, item)
            value = np.float32(product + np.float64(constants[item]))
            lists.size[q] = _offer(lists.score[q], lists.item[q], lists.size[q], value, position)
        sort_items(lists.score[q], lists.item[q], lists.size[q])
