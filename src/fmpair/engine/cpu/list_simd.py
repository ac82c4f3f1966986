"""Vector instructions on the rows of a list of items at once, for the kernel of lists.

Tables and `width` are as in `rows.py`; `member` is int32, the other lists are float32.
"""

from __future__ import annotations

from contextlib import contextmanager

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from fmpair.engine.cpu.llvm import FLOAT, INT32, INT64, LANES, WIDE, Emitter


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
