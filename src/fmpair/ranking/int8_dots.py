"""Inner products of int8 rows as LLVM code: one instruction for 16 numbers where a CPU has it."""

from __future__ import annotations

from functools import cache

from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic

INT8, INT32, INT64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
BYTES, SUMS = ir.VectorType(INT8, 16), ir.VectorType(INT32, 4)
LANES = 32  # rows are padded with zeros to a multiple
ROWS = 4  # rows of a tile, whose sums are added up together


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
