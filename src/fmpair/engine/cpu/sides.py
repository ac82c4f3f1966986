"""Vectors of the query and of the items of a list, and their products, for the kernel of lists.

Operations on all rows of a list come first: `member` is int32, other lists are float32. As in
`optimizer`, arguments that are None do not exist in the compiled code.
"""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from fmpair.engine.cpu.losses import ZERO
from fmpair.engine.cpu.pairs import build_item
from fmpair.engine.cpu.simd import (
    FLOAT,
    INDEX,
    INT32,
    INT64,
    LANES,
    REAL,
    WIDE,
    Emitter,
    assign,
    gather,
    row_operation,
)
from fmpair.engine.cpu.triples import begin_query, end_query, meet_item, meet_query
from fmpair.jit import kernel


@contextmanager
def _members(e: Emitter, table: int, member: int, start, end):
    """Loop over the entries of a list: (entry, pointer to its row)."""
    builder, step = e.builder, ir.Constant(INT64, 1)
    with cgutils.for_range_slice(builder, start, end, step, INT64) as (m, _):
        number = builder.sext(builder.load(builder.gep(e.data(member), [m])), INT64)
        offset = builder.mul(number, ir.Constant(INT64, e.columns))
        yield m, builder.gep(e.data(table), [offset])


@intrinsic
def list_dots(typing, query, table, member, out, start, end, width):
    """out[m] = query[0] . table[member[m]], for m from start to end"""
    def emit(e):
        query = e.data(0)
        pieces = {o: e.load(query, o, n) for o, n in e.chunks()}  # stay in registers
        with _members(e, 1, 2, e.values[4], e.values[5]) as (m, row):
            product = e.dot(lambda o, n: pieces[o], lambda o, n: e.load(row, o, n))
            e.builder.store(product, e.builder.gep(e.data(3), [m]))

    return row_operation(types.void(query, table, member, out, INDEX, INDEX, width), emit)


@intrinsic
def list_squares(typing, table, member, out, start, end, width):
    """out[m] = table[member[m]] . itself, for m from start to end"""
    def emit(e):
        with _members(e, 0, 1, e.values[3], e.values[4]) as (m, row):
            square = e.dot(lambda o, n: e.load(row, o, n), lambda o, n: e.load(row, o, n))
            e.builder.store(square, e.builder.gep(e.data(2), [m]))

    return row_operation(types.void(table, member, out, INDEX, INDEX, width), emit)


@intrinsic
def list_step(
    typing, scratch, items, member, coef, own_rate, shrink, size, rate, lost, triples, first, width
):
    """Move each item along the query scratch[0], which becomes the gradient of the user.

    items[member[m]] = shrink[m] * itself + rate * own_rate[m] * coef[m] * query, for m below size;
    scratch[0] = sum of coef[m] * items[member[m]] (before the step) - lost * query. own_rate: None
    for 1. triples: kept shares of columns from `first` on, or None.
    """
    def emit(e):
        query, size, rate, lost = e.data(0), e.values[6], e.values[7], e.values[8]
        for o, n in e.chunks(WIDE):
            x, of_triples = e.load(query, o, n), e.from_column(e.values[10], o, n)
            total = cgutils.alloca_once(e.builder, ir.VectorType(FLOAT, n))
            e.builder.store(e.scaled(e.builder.fneg(lost), x, n), total)
            with _members(e, 1, 2, ir.Constant(INT64, 0), size) as (m, row):
                c = e.builder.load(e.builder.gep(e.data(3), [m]))
                kept = e.splat(e.builder.load(e.builder.gep(e.data(5), [m])), n)
                if triples != types.none:
                    other = e.splat(e.builder.load(e.builder.gep(e.data(9), [m])), n)
                    kept = e.builder.select(of_triples, other, kept)
                v = e.load(row, o, n)
                e.builder.store(e.fma(e.splat(c, n), v, e.builder.load(total), n), total)
                step = e.builder.fmul(rate, c)
                if own_rate != types.none:
                    step = e.builder.fmul(step, e.builder.load(e.builder.gep(e.data(4), [m])))
                moved = e.fma(e.splat(step, n), x, e.builder.fmul(kept, v), n)
                e.store(moved, row, o, n)
            e.store(e.builder.load(total), query, o, n)

    signature = types.void(
        scratch, items, member, coef, own_rate, shrink, INDEX, REAL, REAL, triples, INDEX, width
    )
    return row_operation(signature, emit)


@intrinsic
def add_four(typing, table, row, a, b, c, d, width):
    """table[row, :4] += a, b, c, d"""
    def emit(e):
        total, pointer = ir.Constant(ir.VectorType(FLOAT, LANES), ir.Undefined), e.row(0, 1)
        for n, value in enumerate(e.values[2:6]):
            total = e.builder.insert_element(total, value, ir.Constant(INT32, n))
        e.store(e.builder.fadd(e.load(pointer, 0, LANES), total), pointer, 0, LANES)

    return row_operation(types.void(table, INDEX, REAL, REAL, REAL, REAL, width), emit)


@kernel(forceinline=True)
def build_sides(
    scratch, items, item_bias, member, constant, table, bias, item_at, start, column, value,
    q_triples, i_triples, here, end, width,
):
    """Fill scratch[m + 1] and constant[m] with the sides of items with attributes."""
    for m in range(here, end):
        i = np.int64(member[m])
        a, a_end = start[item_at[i]], start[item_at[i] + 1]
        constant[m] = build_item(
            scratch, m + 1, items, i, table, bias, a, a_end, column, value, width
        )
        constant[m] += item_bias[i]
        constant[m] -= meet_item(
            q_triples, i_triples, scratch, m, items, i, table, a, a_end, column, value
        )


@kernel(forceinline=True)
def take_constants(item_bias, member, constant, here, end):
    """Fill constant[m] for items without attributes, or folded with them."""
    for m in range(here, end):
        constant[m] = item_bias[member[m]]


@kernel(forceinline=True)
def build_query(
    scratch, users, u, table, p, p_end, p_column, p_value, c, c_end, c_column, c_value, q_triples,
    i_triples, width,
):
    """Build scratch[0]: the query of a user with attributes [p, p_end), context [c, c_end)."""
    gather(scratch, 0, users, u, table, c, c_end, c_column, c_value, width)
    gather(scratch, 0, scratch, 0, table, p, p_end, p_column, p_value, width)
    if q_triples is not None:
        meet_query(
            q_triples, i_triples, scratch, users, u, table, p, p_end, p_column, p_value, c, c_end,
            c_column, c_value
        )


@kernel(forceinline=True)
def build_user(scratch, users, u, q_triples, i_triples, width):
    """Build scratch[0] for a user without features."""
    assign(scratch, 0, users, u, width)
    if q_triples is not None:
        begin_query(q_triples, i_triples, scratch, users, u)
        end_query(q_triples, scratch)


@kernel(forceinline=True)
def dots(table, member, score, square, scratch, sharpness, here, end, width):
    """Compute score[m] = scratch[0] . table[member[m]], and squared lengths for cosines."""
    list_dots(scratch, table, member, score, here, end, width)
    if sharpness > ZERO:
        list_squares(table, member, square, here, end, width)


@kernel(forceinline=True)
def bring_up(scratch, i_triples, m, width):
    """Move the item at position m of a list to position 1."""
    assign(scratch, 2, scratch, m + 1, width)
    if i_triples is not None:
        met = i_triples.met
        for g in range(met.shape[1]):  # not row to row, which takes ten times as long to compile
            for f in range(met.shape[2]):
                met[1, g, f] = met[m, g, f]
