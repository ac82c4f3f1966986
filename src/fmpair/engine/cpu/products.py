"""Products of matrices inside kernels, without a BLAS.

A BLAS would need the interpreter for every product, so that threads wait for each other, and its
bits depend on its version, the processor and its threads. Here each sum is over k = 0, 1, 2, ...
with one rounding per term.
"""

from __future__ import annotations

import numpy as np
from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from fmpair.engine.cpu.simd import FLOAT, INDEX, INT64, LANES, row_operation
from fmpair.jit import kernel

NARROW = 2 * LANES  # columns of tables are a multiple of it
# Rows and columns of the tiles whose sums fit into the registers of the processor.
ROWS, WIDE = (8, 32) if binding.get_host_cpu_features().get("avx512f") else (4, 16)
# Tuples whose lengths, part of their types, are the constants of compiled tiles.
_ROWS, _WIDE, _NARROW = (0,) * ROWS, (0,) * (WIDE // LANES), (0,) * (NARROW // LANES)


@kernel(plain=True)
def rounded(size):
    """Return the rows or columns to reserve for `size` of them: a multiple of tiles."""
    return (size + WIDE - 1) // WIDE * WIDE


@intrinsic
def _tile(typing, out, o, o_row, a, a_at, a_row, a_step, b, b_at, b_step, depth, rows, width):
    """out[o + r * o_row + c] = sum over k of a[a_at + r * a_row + k * a_step]
    * b[b_at + k * b_step + c], for r < len(rows) and c < LANES * len(width); flat positions.
    """
    def emit(e):
        builder, lanes, many = e.builder, e.columns, len(e.types[11])
        vector = ir.VectorType(FLOAT, lanes)
        sums = [cgutils.alloca_once(builder, vector) for _ in range(many)]
        for total in sums:
            builder.store(ir.Constant(vector, [0.0] * lanes), total)
        out, o, o_row, a, a_at, a_row, a_step, b, b_at, b_step, depth = e.values[:11]
        first, second = builder.gep(e.data(3), [a_at]), builder.gep(e.data(7), [b_at])
        zero, one = (ir.Constant(INT64, n) for n in (0, 1))
        with cgutils.for_range_slice(builder, zero, depth, one, INT64) as (k, _):
            right = e.load(builder.gep(second, [builder.mul(k, b_step)]), 0, lanes)
            column = builder.gep(first, [builder.mul(k, a_step)])
            for r, total in enumerate(sums):
                at = builder.mul(ir.Constant(INT64, r), a_row)
                left = e.splat(builder.load(builder.gep(column, [at])), lanes)
                builder.store(e.fma(left, right, builder.load(total), lanes), total)
        target = builder.gep(e.data(0), [o])
        for r, total in enumerate(sums):
            row = builder.gep(target, [builder.mul(ir.Constant(INT64, r), o_row)])
            e.store(builder.load(total), row, 0, lanes)

    signature = types.void(
        out, INDEX, INDEX, a, INDEX, INDEX, INDEX, b, INDEX, INDEX, INDEX, rows, width
    )
    return row_operation(signature, emit)


@kernel
def pack(table, first, count, packed):
    """Copy the rows [first, first + count) of a table to panels of WIDE rows, transposed.

    packed: float32, flat, [panels, columns, WIDE], zeros where a panel has fewer rows.
    """
    columns = table.shape[1]
    for m in range(rounded(count)):
        at = m // WIDE * WIDE * columns + m % WIDE
        for f in range(columns):
            packed[at + f * WIDE] = table[first + m, f] if m < count else np.float32(0)


@kernel
def with_packed(out, row, left, packed, events, count):
    """out[n, m] = left[n] . items[m] with the items of `pack`; flat, `row` columns each.

    Computes whole tiles: up to ROWS more events and WIDE more items.
    """
    columns = left.shape[1]
    for m in range(0, count, WIDE):
        for n in range(0, events, ROWS):
            _tile(
                out, n * row + m, row, left, n * columns, columns, 1, packed, m * columns, WIDE,
                columns, _ROWS, _WIDE,
            )


@kernel
def weighted_sums(out, rows, weight, of_row, of_term, table, first, terms):
    """out[r] = sum over t of weight[r * of_row + t * of_term] * table[first + t]; weight: flat.

    Computes whole tiles: up to ROWS more rows.
    """
    columns = table.shape[1]
    wide = columns // WIDE * WIDE
    for c in range(0, wide, WIDE):
        for r in range(0, rows, ROWS):
            _tile(
                out, r * columns + c, columns, weight, r * of_row, of_row, of_term, table,
                first * columns + c, columns, terms, _ROWS, _WIDE,
            )
    for c in range(wide, columns, NARROW):
        for r in range(0, rows, ROWS):
            _tile(
                out, r * columns + c, columns, weight, r * of_row, of_row, of_term, table,
                first * columns + c, columns, terms, _ROWS, _NARROW,
            )
