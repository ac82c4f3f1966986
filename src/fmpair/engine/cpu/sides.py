"""The query and the items of a list as vectors, and their products.

As in `optimizer`, what is None does not exist in the compiled code, and all becomes a part of the
kernel.
"""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from fmpair.engine.cpu.losses import ZERO
from fmpair.engine.cpu.pairs import build_item
from fmpair.engine.cpu.simd import FLOAT, INT32, INT64, LANES, WIDE, Emitter, assign, gather
from fmpair.engine.cpu.triples import add_features, begin_query, end_query, meet_item
from fmpair.jit import kernel

# Vector instructions on the rows of a list of items at once, for the kernel of lists.
#
# Tables and `width` are as in `rows.py`; `member` is int32, the other lists are float32.


@contextmanager
def _members(e: Emitter, table: int, member: int, start, end):
    """The loop over a list's entries: (entry, pointer to its row)."""
    builder, one = e.builder, ir.Constant(INT64, 1)
    with cgutils.for_range_slice(builder, start, end, one, INT64) as (m, _):
        number = builder.sext(builder.load(builder.gep(e.data(member), [m])), INT64)
        offset = builder.mul(number, ir.Constant(INT64, e.columns))
        yield m, builder.gep(e.data(table), [offset])


@intrinsic
def list_dots(typing, query, table, member, out, start, end, width):
    """out[m] = query[0] . table[member[m]], for m from start to end"""
    index = types.int64
    signature = types.void(query, table, member, out, index, index, width)

    def generate(context, builder, signature, arguments):
        e = Emitter(context, builder, signature, arguments)
        query = e.data(0)
        pieces = {o: e.load(query, o, n) for o, n in e.chunks()}  # stay in registers
        with _members(e, 1, 2, arguments[4], arguments[5]) as (m, row):
            product = e.dot(lambda o, n: pieces[o], lambda o, n: e.load(row, o, n))
            builder.store(product, builder.gep(e.data(3), [m]))
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def list_squares(typing, table, member, out, start, end, width):
    """out[m] = table[member[m]] . itself, for m from start to end"""
    index = types.int64
    signature = types.void(table, member, out, index, index, width)

    def generate(context, builder, signature, arguments):
        e = Emitter(context, builder, signature, arguments)
        with _members(e, 0, 1, arguments[3], arguments[4]) as (m, row):
            square = e.dot(lambda o, n: e.load(row, o, n), lambda o, n: e.load(row, o, n))
            builder.store(square, builder.gep(e.data(2), [m]))
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def list_step(
    typing, scratch, items, member, coef, own_rate, shrink, size, rate, lost, triples, border, width
):
    """One step on a list of items: each along the query scratch[0], which becomes the user's way.

    items[member[m]] = shrink[m] * itself + rate * own_rate[m] * coef[m] * query, for m below size;
    scratch[0] = sum of coef[m] * items[member[m]] (as they were) - lost * query.
    own_rate: None where all are 1. triples: what is kept of columns from len(border) on, or None.
    """
    real, index = types.float32, types.int64
    signature = types.void(
        scratch, items, member, coef, own_rate, shrink, index, real, real, triples, border, width
    )
    first = len(border) if triples != types.none else 0

    def generate(context, builder, signature, arguments):
        e = Emitter(context, builder, signature, arguments)
        query, size, rate, lost = e.data(0), arguments[6], arguments[7], arguments[8]
        for o, n in e.chunks(WIDE, first):
            held = 9 if triples != types.none and o >= first else 5
            x = e.load(query, o, n)
            total = cgutils.alloca_once(builder, ir.VectorType(FLOAT, n))
            builder.store(e.scaled(builder.fneg(lost), x, n), total)
            with _members(e, 1, 2, ir.Constant(INT64, 0), size) as (m, row):
                c, kept = (builder.load(builder.gep(e.data(a), [m])) for a in (3, held))
                v = e.load(row, o, n)
                builder.store(e.fma(e.splat(c, n), v, builder.load(total), n), total)
                step = builder.fmul(rate, c)
                if own_rate != types.none:
                    step = builder.fmul(step, builder.load(builder.gep(e.data(4), [m])))
                e.store(e.fma(e.splat(step, n), x, e.scaled(kept, v, n), n), row, o, n)
            e.store(builder.load(total), query, o, n)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def add_four(typing, table, row, a, b, c, d, width):
    """table[row, :4] += a, b, c, d"""
    real = types.float32
    signature = types.void(table, types.int64, real, real, real, real, width)

    def generate(context, builder, signature, arguments):
        e = Emitter(context, builder, signature, arguments)
        total, place = ir.Constant(ir.VectorType(FLOAT, LANES), ir.Undefined), e.row(0, 1)
        for n, value in enumerate(arguments[2:6]):
            total = builder.insert_element(total, value, ir.Constant(INT32, n))
        e.store(builder.fadd(e.load(place, 0, LANES), total), place, 0, LANES)
        return context.get_dummy_value()

    return signature, generate


@kernel(forceinline=True)
def build_sides(
    scratch, items, item_bias, member, constant, table, bias, item_at, start, column, value, third,
    mirror, here, end, width,
):
    """scratch[m + 1], constant[m]: the sides of a list's items with their attributes."""
    for m in range(here, end):
        i = np.int64(member[m])
        a, a_end = start[item_at[i]], start[item_at[i] + 1]
        constant[m] = build_item(
            scratch, m + 1, items, i, table, bias, a, a_end, column, value, width
        )
        constant[m] += item_bias[i]
        constant[m] -= meet_item(
            third, mirror, scratch, m, items, i, table, a, a_end, column, value
        )


@kernel(forceinline=True)
def take_constants(item_bias, member, constant, here, end):
    """constant[m]: those of a list's items that have no attributes, or are folded with them."""
    for m in range(here, end):
        constant[m] = item_bias[member[m]]


@kernel(forceinline=True)
def build_query(
    scratch, users, u, table, p, p_end, p_column, p_value, c, c_end, c_column, c_value, third,
    mirror, width,
):
    """scratch[0]: the query of a user with attributes [p, p_end) in a context [c, c_end)."""
    gather(scratch, 0, users, u, table, c, c_end, c_column, c_value, width)
    gather(scratch, 0, scratch, 0, table, p, p_end, p_column, p_value, width)
    if third is not None:
        begin_query(third, mirror, scratch, users, u)
        add_features(third, table, p, p_end, p_column, p_value)
        add_features(third, table, c, c_end, c_column, c_value)
        end_query(third, scratch)


@kernel(forceinline=True)
def build_user(scratch, users, u, third, mirror, width):
    """The same of a user about whom nothing else is known."""
    assign(scratch, 0, users, u, width)
    if third is not None:
        begin_query(third, mirror, scratch, users, u)
        end_query(third, scratch)


@kernel(forceinline=True)
def dots(table, member, score, square, scratch, sharpness, here, end, width):
    """score[m] = scratch[0] . table[member[m]]; of cosines also square[m], the squared length."""
    list_dots(scratch, table, member, score, here, end, width)
    if sharpness > ZERO:
        list_squares(table, member, square, here, end, width)


@kernel(forceinline=True)
def bring_up(scratch, mirror, m, width):
    """The item at place m of a list takes place 1."""
    assign(scratch, 2, scratch, m + 1, width)
    if mirror is not None:
        mirror.met[1] = mirror.met[m]
