"""Kernels over int8 codes: inner products as LLVM code, bounds, and the lists of the best.

`compressed` says what they compute.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from fmpair.jit import kernel
from fmpair.ranking.top import push_item, ranks_below, replace_worst, sort_items

BLOCK = 2_048  # rows, whose codes stay in the L2 cache for all queries
LARGEST = 127  # the largest code
SMALLEST = 1e-30  # an item whose numbers are all smaller has no codes
TINY = 1e-37  # more than underflow can lose
LOWEST = np.float32(np.finfo(np.float32).min)
INT8, INT32, INT64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
BYTES, SUMS = ir.VectorType(INT8, 16), ir.VectorType(INT32, 4)
LANES = 32  # rows are padded with zeros to a multiple
ROWS = 4  # rows of a tile, whose sums are added up together


# Inner products: one instruction for 16 numbers where a CPU has it.


def padded(columns: int) -> int:
    """Return the length of a row with its padding."""
    return -(-max(columns, 1) // LANES) * LANES


@cache
def _partial_sums() -> str:
    """Return the operation from which LLVM makes the dot products of ARM, "" where it has none."""
    if not binding.get_process_triple().startswith(("aarch64", "arm64")):
        return ""
    version = binding.llvm_version_info[0]
    name = "vector.partial.reduce.add.v4i32.v16i32"
    return "" if version < 20 else f"llvm.{'experimental.' if version < 22 else ''}{name}"


def _select(builder, first, second, places):
    mask = ir.Constant(ir.VectorType(INT32, len(places)), list(places))
    return builder.shuffle_vector(first, second, mask)


def _pairs(builder, first, second):
    """Add up neighbours of two vectors, which is one instruction."""
    size = first.type.count
    even, odd = (_select(builder, first, second, range(start, 2 * size, 2)) for start in (0, 1))
    return builder.add(even, odd)


def _multiplied(builder, total, row, query):
    """Return total, 4 x int32, with the products of 2 x 16 int8 added, in any order."""
    wide = ir.VectorType(INT32, 16)
    product = builder.mul(builder.sext(row, wide), builder.sext(query, wide))
    if _partial_sums():
        kind = ir.FunctionType(SUMS, [SUMS, wide])
        add = cgutils.get_or_insert_function(builder.module, kind, _partial_sums())
        return builder.call(add, [total, product])
    even, odd = (_select(builder, product, product, range(start, 16, 2)) for start in (0, 1))
    eight = builder.add(even, odd)  # one instruction of x86 with the product
    low, high = (_select(builder, eight, eight, range(start, start + 4)) for start in (0, 4))
    return builder.add(total, builder.add(low, high))


def _emit(context, builder, signature, arguments, rows: int):
    """Return sums, 4 x int32 for each of the rows tables[a], ..., tables[a + rows - 1].

    Those of a row add up to its product with queries[q]. Arguments 0 to 4 of the operation are
    table, a, queries, q and the length of a row.
    """
    table, queries = (
        context.make_array(signature.args[at])(context, builder, arguments[at]).data
        for at in (0, 2)
    )
    width = arguments[4]
    query = builder.gep(queries, [builder.mul(arguments[3], width)])
    first = builder.mul(arguments[1], width)
    starts = [
        builder.gep(table, [builder.add(first, builder.mul(width, ir.Constant(INT64, row)))])
        for row in range(rows)
    ]
    totals = [cgutils.alloca_once_value(builder, ir.Constant(SUMS, [0] * 4)) for _ in starts]

    def load(row, offset):
        pointer = builder.bitcast(builder.gep(row, [offset]), BYTES.as_pointer())
        return builder.load(pointer, align=1)

    zero, step = ir.Constant(INT64, 0), ir.Constant(INT64, LANES)
    with cgutils.for_range_slice(builder, zero, width, step, INT64) as (offset, _):
        for more in range(0, LANES, 16):
            at = builder.add(offset, ir.Constant(INT64, more))
            other = load(query, at)
            for total, row in zip(totals, starts):
                new = _multiplied(builder, builder.load(total), load(row, at), other)
                builder.store(new, total)
    return [builder.load(total) for total in totals]


@intrinsic
def dot(typing, table, a, queries, q, width):
    """table[a] . queries[q], int32"""

    def generate(context, builder, signature, arguments):
        (sums,) = _emit(context, builder, signature, arguments, 1)
        two = _pairs(builder, sums, sums)
        return builder.extract_element(_pairs(builder, two, two), ir.Constant(INT32, 0))

    return types.int32(table, types.intp, queries, types.intp, types.intp), generate


@intrinsic
def dots(typing, table, a, queries, q, width, out, at):
    """out[at + r] = table[a + r] . queries[q] for the ROWS rows of a tile, int32"""

    def generate(context, builder, signature, arguments):
        one, two, three, four = _emit(context, builder, signature, arguments, ROWS)
        sums = _pairs(builder, _pairs(builder, one, two), _pairs(builder, three, four))
        array = context.make_array(signature.args[5])(context, builder, arguments[5])
        target = builder.bitcast(builder.gep(array.data, [arguments[6]]), SUMS.as_pointer())
        builder.store(sums, target, align=4)
        return context.get_dummy_value()

    signature = types.void(table, types.intp, queries, types.intp, types.intp, out, types.intp)
    return signature, generate


# Packing.


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
def enclose(vectors, order, start, cell, centre, radius):
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


# Searching.


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
def scan_all(first, last, packed, asking, vectors, lists):
    product, bound = np.empty(BLOCK, np.int32), np.empty(BLOCK, np.float32)
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        for q in range(len(asking.vector)):
            _scan(begin, end, packed, asking, q, vectors, lists, product, bound)


@kernel
def estimate_cells(query, packed, reach, estimate):
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
def visit(q, cells, estimate, packed, asking, vectors, lists):
    """Scan cells in this order, until none can be expected to hold one of the best items."""
    product, bound = np.empty(BLOCK, np.int32), np.empty(BLOCK, np.float32)
    for cell in cells:
        if estimate[cell] < _worst(lists, q):
            break
        for begin in range(packed.start[cell], packed.start[cell + 1], BLOCK):
            end = min(begin + BLOCK, packed.start[cell + 1])
            _scan(begin, end, packed, asking, q, vectors, lists, product, bound)


@kernel
def merge(lists, merged):
    """Merge the lists of all parts into those of the first, best items first."""
    for q in range(lists.size.shape[1]):
        score, item = merged.score[q], merged.item[q]
        for part in range(1, len(lists.size)):
            for rank in range(lists.size[part, q]):
                value, number = lists.score[part, q, rank], lists.item[part, q, rank]
                merged.size[q] = _offer(score, item, merged.size[q], value, number)
        sort_items(score, item, merged.size[q])


@kernel
def score_given(queries, vectors, constants, chosen, start, hidden, lists):
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
