"""Inner products of int8 rows as LLVM code: one instruction for 16 numbers where a CPU has it."""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

INT8, INT32, INT64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
LANES = 32  # rows are padded with zeros to a multiple
ROWS = 4  # rows of a tile, which share the loads of the query


def padded(columns: int) -> int:
    """Return the length of a row with its padding."""
    return -(-max(columns, 1) // LANES) * LANES


def _emit(context, builder, signature, arguments, rows: int):
    """Return int32 values: tables[a], ..., tables[a + rows - 1], each times queries[q].

    Arguments 0 to 4 of the operation are table, a, queries, q and the length of a row.
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
    totals = [cgutils.alloca_once_value(builder, ir.Constant(INT32, 0)) for _ in starts]

    def add(offset, lanes: int) -> None:
        narrow, wide = ir.VectorType(INT8, lanes), ir.VectorType(INT32, lanes)
        kind, name = ir.FunctionType(INT32, [wide]), f"llvm.vector.reduce.add.v{lanes}i32"
        reduce = cgutils.get_or_insert_function(builder.module, kind, name)

        def load(row):
            pointer = builder.bitcast(builder.gep(row, [offset]), narrow.as_pointer())
            return builder.sext(builder.load(pointer, align=1), wide)

        other = load(query)
        for total, row in zip(totals, starts):
            part = builder.call(reduce, [builder.mul(load(row), other)])
            builder.store(builder.add(builder.load(total), part), total)

    most = 2 * LANES
    whole = builder.and_(width, ir.Constant(INT64, -most))
    zero, step = ir.Constant(INT64, 0), ir.Constant(INT64, most)
    with cgutils.for_range_slice(builder, zero, whole, step, INT64) as (offset, _):
        add(offset, most)
    with builder.if_then(builder.icmp_signed("<", whole, width)):
        add(whole, LANES)
    return [builder.load(total) for total in totals]


@intrinsic
def dot(typing, table, a, queries, q, width):
    """table[a] . queries[q], int32"""

    def generate(context, builder, signature, arguments):
        return _emit(context, builder, signature, arguments, 1)[0]

    return types.int32(table, types.intp, queries, types.intp, types.intp), generate


@intrinsic
def dots(typing, table, a, queries, q, width, out, at):
    """out[at + r] = table[a + r] . queries[q] for the ROWS rows of a tile, int32"""

    def generate(context, builder, signature, arguments):
        values = _emit(context, builder, signature, arguments, ROWS)
        array = context.make_array(signature.args[5])(context, builder, arguments[5])
        target = builder.gep(array.data, [arguments[6]])
        for row, value in enumerate(values):
            builder.store(value, builder.gep(target, [ir.Constant(INT64, row)]))
        return context.get_dummy_value()

    signature = types.void(table, types.intp, queries, types.intp, types.intp, out, types.intp)
    return signature, generate
