"""The best items of a large catalogue: a pass over int8 codes finds the few to score exactly.

Query q and item p are turned onto orthonormal axes, the first of which hold most of the spread of
the items. On these few, q1 and p1 are each a scale times int8 codes plus a rest: q1 = q' + dq and
p1 = p' + dp. Of the other axes, only the lengths |q2| and |p2| are kept. So q.p is at most
q'.p' + |q'||dp| + |dq||p| + |q2||p2|. An item is scored exactly unless this bound, and what float32
may round off it, stays below the n-th best score found so far. The lists are therefore those of
scoring every item. A score is the float64 sum of the products of the vectors as they are, in a
fixed order, rounded once: products of float32 are exact in float64, so it has the same bits on
every machine, for any number of threads and of queries.

Items may be arranged in cells (`large_catalogue.cells`). A query then visits cells from the most
promising on and stops at the first that is estimated to stay below the n-th best score. An item
whose constant is -inf is never listed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows
from fmpair.ranking.int8_kernels import (
    BLOCK,
    LARGEST,
    SMALLEST,
    TINY,
    enclose,
    estimate_cells,
    merge,
    padded,
    scan_all,
    score_given,
    visit,
    write_codes,
)
from fmpair.threads import all_threads, blas_on, side_by_side

PACKED_AT_ONCE = 1 << 16  # items that a thread packs at a time
SAMPLE = 50_000  # items that the axes are fitted to
LEFT_OUT = 0.05  # the most of their spread that codes may leave out
ROUNDING = 2.0**-17  # of |q||p|: what float32 rounds off a bound and a score, see `asked`

Best = tuple[np.ndarray, np.ndarray, np.ndarray]


class Packed(NamedTuple):
    """Item vectors as int8, arranged in cells; a single one holds the items in their own order.

    axes: float64 [factors, columns], orthonormal columns, on which vectors have codes. codes: int8
    [items, width], with zeros beyond the columns. facts: float32 [3, items]: scale, length of the
    vector, and length of what lies off the axes. order: int32 [items], the item of each row. start:
    int64 [cells + 1], the first row of each cell. centre: float32 [cells, factors]. radius: float32
    [cells], the largest distance from the centre. constant: float32 [items], of each row. most:
    float32 [cells], the largest constant. size: the largest absolute value of a finite constant.
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

        def bound(cell: int) -> None:
            enclose(vectors, order, start, cell, centre, radius)

        side_by_side(bound, range(cells), None)
    nothing = np.zeros(0, np.float32)
    packed = Packed(axes, codes, facts, order, start, centre, radius, nothing, nothing, 0.0)
    return with_constants(packed, constants)


def repacked(
    packed: Packed, vectors: np.ndarray, constants: np.ndarray, changed: np.ndarray
) -> Packed:
    """Return the items with other vectors, float32 [items, factors], and constants [items].

    changed: the items whose vectors differ from those that `packed` was made of, and the new ones,
    whose numbers follow. Axes and centres stay; a changed item stays in its cell, a new one is put
    into the last, and the radius of a cell grows where it must. So bounds hold as before.
    """
    old, items = len(packed.order), len(vectors)
    new, width = items - old, packed.codes.shape[1]
    order = np.concatenate([packed.order, np.arange(old, items, dtype=np.int32)])
    codes = np.concatenate([packed.codes, np.zeros((new, width), np.int8)])
    facts = np.concatenate([packed.facts, np.zeros((3, new), np.float32)], axis=1)
    start = np.append(packed.start[:-1], items)
    place = np.empty(items, np.int64)
    place[order] = np.arange(items)
    row, exact = place[changed], vectors[changed].astype(np.float64)
    turned = exact @ packed.axes
    own_codes, own_facts = np.zeros((len(row), width), np.int8), np.zeros((3, len(row)), np.float32)
    own_facts[1], own_facts[2] = lengths(exact, turned)
    write_codes(turned, 0, own_codes, own_facts)
    codes[row], facts[:, row] = own_codes, own_facts
    radius = packed.radius.copy()
    if len(radius) > 1:
        cell = np.searchsorted(start, row, "right") - 1
        distance = np.linalg.norm(exact - packed.centre[cell], axis=1) * (1 + 1e-6)
        np.maximum.at(radius, cell, distance.astype(np.float32))
    moved = packed._replace(order=order, codes=codes, facts=facts, start=start, radius=radius)
    return with_constants(moved, constants)


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
        scan_all(edges[part], edges[part + 1], packed, asking, vectors, lists_of_part)

    def search(query: int) -> None:
        estimate = np.empty(len(packed.radius))
        estimate_cells(asking.vector[query], packed, float(reach or 0), estimate)
        cells = np.argsort(-estimate, kind="stable")
        visit(query, cells, estimate, packed, asking, vectors, best)

    if reach is None:
        side_by_side(scan, range(parts), threads)
    else:
        side_by_side(search, range(count), min(threads, max(count, 1)))
    merge(lists, best)
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
    score_given(np.ascontiguousarray(queries, np.float32), vectors, constants, chosen,
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
