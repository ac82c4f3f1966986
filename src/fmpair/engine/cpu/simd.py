"""Vector operations on rows of float32 tables, written in LLVM for the kernels.

A row has `4 * len(width)` columns: `width` is a tuple whose length, part of its type, makes the
number of factors a constant of the compiled kernel. Tables have that many columns and are aligned
to 16 bytes: see `aligned`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

LANES = 4
CHUNK = 16
WIDE = 32  # for sums over sparse entries: each chunk walks all entries again
FLOAT = ir.FloatType()
INT32 = ir.IntType(32)
INT64 = ir.IntType(64)
INDEX, REAL = types.int64, types.float32
# Arguments of pair steps: kept shares of (user, positive, negative), step lengths of (user, item).
KEEPS, GAINS = types.UniTuple(types.float32, 3), types.UniTuple(types.float32, 2)
FAST = ("fast",)


def width_of(factors: int) -> tuple[int, ...]:
    """Return the width argument of kernels for tables made by `aligned`."""
    return (0,) * (padded(factors) // LANES)


def padded(factors: int) -> int:
    """Return the columns of a table: factors rounded up to pairs of vector registers."""
    return max(-(-factors // (2 * LANES)), 1) * 2 * LANES


def aligned(table: np.ndarray, columns: int = 0) -> np.ndarray:
    """Return a float32 copy aligned to a cache line, padded with zeros to at least `columns`."""
    out = blank(len(table), padded(max(table.shape[1], columns)))
    out[:, : table.shape[1]] = table
    return out


def taken(table: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the given rows of an aligned table as another aligned table."""
    return np.take(table, rows, axis=0, out=blank(len(rows), table.shape[1]), mode="clip")


def blank(rows: int, columns: int) -> np.ndarray:
    """Return an aligned float32 table of zeros; memory is allocated as it is written to."""
    raw = np.zeros(rows * columns + CHUNK, np.float32)
    skip = (-raw.ctypes.data % 64) // 4
    return raw[skip : skip + rows * columns].reshape(rows, columns)


class Emitter:
    """Builds the LLVM code of one row operation, a chunk of the row at a time."""

    def __init__(self, context, builder, signature, arguments):
        self.context, self.builder = context, builder
        self.types, self.values = signature.args, arguments
        self.columns = LANES * len(signature.args[-1])

    def data(self, array: int):
        """Pointer to the first element of the array values[array]."""
        make = self.context.make_array(self.types[array])
        return make(self.context, self.builder, self.values[array]).data

    def row(self, table: int, index: int):
        """Pointer to row values[index] of the array values[table]."""
        offset = self.builder.mul(self.values[index], ir.Constant(INT64, self.columns))
        return self.builder.gep(self.data(table), [offset])

    def chunks(self, most: int = CHUNK):
        """Yield (offset, lanes) of the chunks of a row."""
        for offset in range(0, self.columns, most):
            yield offset, min(most, self.columns - offset)

    def at(self, row, offset, lanes):
        pointer = self.builder.gep(row, [ir.Constant(INT64, offset)])
        return self.builder.bitcast(pointer, ir.VectorType(FLOAT, lanes).as_pointer())

    def load(self, row, offset, lanes):
        alignment = 16 if offset % LANES == 0 else 4
        return self.builder.load(self.at(row, offset, lanes), align=alignment)

    def store(self, value, row, offset, lanes):
        alignment = 16 if offset % LANES == 0 else 4
        self.builder.store(value, self.at(row, offset, lanes), align=alignment)

    def from_column(self, first, offset, lanes):
        """Say for every lane whether its column is `first` or a later one."""
        columns = ir.Constant(ir.VectorType(INT64, lanes), [offset + n for n in range(lanes)])
        return self.builder.icmp_signed(">=", columns, self.splat(first, lanes))

    def splat(self, scalar, lanes):
        """Copy a scalar into every lane."""
        vector = ir.VectorType(scalar.type, lanes)
        undefined, first = ir.Constant(vector, ir.Undefined), ir.Constant(INT32, 0)
        single = self.builder.insert_element(undefined, scalar, first)
        mask = ir.Constant(ir.VectorType(INT32, lanes), [0] * lanes)
        return self.builder.shuffle_vector(single, single, mask)

    def fma(self, a, b, c, lanes):
        """Compute a * b + c, rounded once."""
        vector = ir.VectorType(FLOAT, lanes)
        kind, name = ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{lanes}f32"
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(function, [a, b, c])

    def scaled(self, scalar, value, lanes):
        return self.builder.fmul(self.splat(scalar, lanes), value)

    def total(self, sums):
        """Sum all lanes of a list of (vector, lanes)."""
        out = ir.Constant(FLOAT, 0.0)
        for vector, lanes in sums:
            kind = ir.FunctionType(FLOAT, [FLOAT, ir.VectorType(FLOAT, lanes)])
            name = f"llvm.vector.reduce.fadd.v{lanes}f32"
            function = cgutils.get_or_insert_function(self.builder.module, kind, name)
            out = self.builder.call(function, [out, vector], fastmath=FAST)
        return out

    def dot(self, load_left, load_right, most: int = CHUNK):
        """Compute the inner product of two rows, each a loader (offset, lanes) -> vector."""
        sums: dict[int, ir.Value] = {}
        for offset, lanes in self.chunks(most):
            left, right = load_left(offset, lanes), load_right(offset, lanes)
            if lanes in sums:
                sums[lanes] = self.fma(left, right, sums[lanes], lanes)
            else:
                sums[lanes] = self.builder.fmul(left, right)
        return self.total([(vector, lanes) for lanes, vector in sums.items()])


def row_operation(signature, emit: Callable[[Emitter], Any]):
    """Return what an intrinsic returns; emit: builds the code and returns its value, if any."""

    def generate(context, builder, signature, arguments):
        value = emit(Emitter(context, builder, signature, arguments))
        return context.get_dummy_value() if value is None else value

    return signature, generate


def gathered(e: Emitter, row, offset, lanes, squares: bool):
    """Compute row[offset:] + sum of value * table[column] over entries [start, end).

    Arguments 4 to 8 of the operation are table, start, end, column, value. Also returns, if asked
    for, the sum of squares of the added terms by lane.
    """
    builder, vector = e.builder, ir.VectorType(FLOAT, lanes)
    total = cgutils.alloca_once(builder, vector)
    square = cgutils.alloca_once(builder, vector)
    builder.store(e.load(row, offset, lanes), total)
    builder.store(ir.Constant(vector, [0.0] * lanes), square)
    start, end = e.values[5], e.values[6]
    with cgutils.for_range_slice(builder, start, end, ir.Constant(INT64, 1), INT64) as (entry, _):
        column = builder.sext(builder.load(builder.gep(e.data(7), [entry])), INT64)
        value = builder.load(builder.gep(e.data(8), [entry]))
        pointer = builder.gep(e.data(4), [builder.mul(column, ir.Constant(INT64, e.columns))])
        part = e.scaled(value, e.load(pointer, offset, lanes), lanes)
        builder.store(builder.fadd(builder.load(total), part), total)
        if squares:
            builder.store(e.fma(part, part, builder.load(square), lanes), square)
    return builder.load(total), builder.load(square)


@intrinsic
def dot(typing, left, a, right, b, width):
    """left[a] . right[b]"""
    def emit(e):
        first, second = e.row(0, 1), e.row(2, 3)
        return e.dot(lambda o, n: e.load(first, o, n), lambda o, n: e.load(second, o, n))

    return row_operation(types.float32(left, INDEX, right, INDEX, width), emit)


@intrinsic
def dot_difference(typing, query, q, items, i, j, width):
    """query[q] . (items[i] - items[j])"""
    def emit(e):
        a, b, c = e.row(0, 1), e.row(2, 3), e.row(2, 4)
        return e.dot(
            lambda o, n: e.load(a, o, n),
            lambda o, n: e.builder.fsub(e.load(b, o, n), e.load(c, o, n)),
        )

    return row_operation(types.float32(query, INDEX, items, INDEX, INDEX, width), emit)


@intrinsic
def assign(typing, target, t, source, s, width):
    """target[t] = source[s]"""
    def emit(e):
        to, source_row = e.row(0, 1), e.row(2, 3)
        for o, n in e.chunks():
            e.store(e.load(source_row, o, n), to, o, n)

    return row_operation(types.void(target, INDEX, source, INDEX, width), emit)


@intrinsic
def blend(typing, target, t, shrink, source, s, gain, width):
    """target[t] = shrink * target[t] + gain * source[s]"""
    def emit(e):
        to, source_row, shrink, gain = e.row(0, 1), e.row(3, 4), e.values[2], e.values[5]
        for o, n in e.chunks():
            kept = e.scaled(shrink, e.load(to, o, n), n)
            e.store(e.fma(e.splat(gain, n), e.load(source_row, o, n), kept, n), to, o, n)

    return row_operation(types.void(target, INDEX, REAL, source, INDEX, REAL, width), emit)


@intrinsic
def gather(typing, target, t, source, s, table, start, end, column, value, width):
    """target[t] = source[s] + sum over entries [start, end) of value * table[column]"""
    def emit(e):
        to, source_row = e.row(0, 1), e.row(2, 3)
        for o, n in e.chunks(WIDE):
            e.store(gathered(e, source_row, o, n, squares=False)[0], to, o, n)

    signature = types.void(target, INDEX, source, INDEX, table, INDEX, INDEX, column, value, width)
    return row_operation(signature, emit)


@intrinsic
def gather_dot(typing, target, t, source, s, table, start, end, column, value, items, i, j, width):
    """Run `gather`, and return the result . (items[i] - items[j]) without reloading it."""
    def emit(e):
        to, source_row, positive, negative = e.row(0, 1), e.row(2, 3), e.row(9, 10), e.row(9, 11)

        def whole(o, n):
            total = gathered(e, source_row, o, n, squares=False)[0]
            e.store(total, to, o, n)
            return total

        def apart(o, n):
            return e.builder.fsub(e.load(positive, o, n), e.load(negative, o, n))

        return e.dot(whole, apart, WIDE)

    signature = types.float32(
        target, INDEX, source, INDEX, table, INDEX, INDEX, column, value, items, INDEX, INDEX, width
    )
    return row_operation(signature, emit)


@intrinsic
def gather_pairs(typing, target, t, source, s, table, start, end, column, value, width):
    """Run `gather`, and return the sum of inner products over all pairs of its terms."""
    def emit(e):
        to, source_row = e.row(0, 1), e.row(2, 3)
        sums: dict[int, ir.Value] = {}
        for o, n in e.chunks(WIDE):
            term = e.load(source_row, o, n)
            total, squares = gathered(e, source_row, o, n, squares=True)
            e.store(total, to, o, n)
            # the square of the sum, less the squares of the parts: twice the pairs
            rest = e.builder.fsub(e.builder.fmul(total, total), e.fma(term, term, squares, n))
            sums[n] = e.builder.fadd(sums[n], rest) if n in sums else rest
        twice = e.total([(vector, lanes) for lanes, vector in sums.items()])
        return e.builder.fmul(ir.Constant(FLOAT, 0.5), twice)

    signature = types.float32(
        target, INDEX, source, INDEX, table, INDEX, INDEX, column, value, width
    )
    return row_operation(signature, emit)


@intrinsic
def blend_two(typing, target, t, shrink, source, s, gain, r, loss, width):
    """target[t] = shrink * target[t] + gain * source[s] + loss * source[r]"""
    def emit(e):
        to, first, second = e.row(0, 1), e.row(3, 4), e.row(3, 6)
        shrink, gain, loss = e.values[2], e.values[5], e.values[7]
        for o, n in e.chunks():
            kept = e.scaled(shrink, e.load(to, o, n), n)
            kept = e.fma(e.splat(gain, n), e.load(first, o, n), kept, n)
            e.store(e.fma(e.splat(loss, n), e.load(second, o, n), kept, n), to, o, n)

    signature = types.void(target, INDEX, REAL, source, INDEX, REAL, INDEX, REAL, width)
    return row_operation(signature, emit)


@intrinsic
def side_step(typing, users, u, items, i, j, scratch, shrink, gain, width):
    """Take one step on a pair of items with attributes.

    scratch: row 0 the query q, rows 1 and 2 the item sides p; they become the difference of the
    sides, and q + p of each. An item moves along q + p less its own vector. shrink, gain: as in
    `pair_step`.
    """
    def emit(e):
        user, positive, negative, q = e.row(0, 1), e.row(2, 3), e.row(2, 4), e.data(5)
        p, r = (e.builder.gep(q, [ir.Constant(INT64, n * e.columns)]) for n in (1, 2))
        keep_u, keep_i, keep_j = cgutils.unpack_tuple(e.builder, e.values[6], 3)
        gain_u, gain_i = cgutils.unpack_tuple(e.builder, e.values[7], 2)
        loss = e.builder.fneg(gain_i)
        keep_i, keep_j = e.builder.fsub(keep_i, gain_i), e.builder.fadd(keep_j, gain_i)
        for o, n in e.chunks():
            x, a, b = e.load(q, o, n), e.load(p, o, n), e.load(r, o, n)
            apart, along, against = e.builder.fsub(a, b), e.builder.fadd(x, a), e.builder.fadd(x, b)
            for value, row in ((apart, q), (along, p), (against, r)):
                e.store(value, row, o, n)
            for row, kept, step, way in (
                (user, keep_u, gain_u, apart),
                (positive, keep_i, gain_i, along),
                (negative, keep_j, loss, against),
            ):
                shrunk = e.scaled(kept, e.load(row, o, n), n)
                e.store(e.fma(e.splat(step, n), way, shrunk, n), row, o, n)

    signature = types.void(users, INDEX, items, INDEX, INDEX, scratch, KEEPS, GAINS, width)
    return row_operation(signature, emit)


def _emit_pair(e: Emitter, shrink: int, also) -> None:
    """Emit the pair step; users[u], query[q], items[i], items[j] are arguments 0 to 6.

    shrink: the index of the argument KEEPS, which GAINS follows. also: called with the difference
    of the items, the offset and the lanes of every chunk.
    """
    builder = e.builder
    user, query, positive, negative = e.row(0, 1), e.row(2, 3), e.row(4, 5), e.row(4, 6)
    keep_u, keep_i, keep_j = cgutils.unpack_tuple(builder, e.values[shrink], 3)
    gain_u, gain_i = cgutils.unpack_tuple(builder, e.values[shrink + 1], 2)
    loss = builder.fneg(gain_i)
    for o, n in e.chunks():
        v, x = e.load(user, o, n), e.load(query, o, n)
        a, b = e.load(positive, o, n), e.load(negative, o, n)
        apart = builder.fsub(a, b)
        e.store(e.fma(e.splat(gain_u, n), apart, e.scaled(keep_u, v, n), n), user, o, n)
        e.store(e.fma(e.splat(gain_i, n), x, e.scaled(keep_i, a, n), n), positive, o, n)
        e.store(e.fma(e.splat(loss, n), x, e.scaled(keep_j, b, n), n), negative, o, n)
        also(apart, o, n)


@intrinsic
def pair_step(typing, users, u, query, q, items, i, j, shrink, gain, width):
    """Move users[u] towards items[i] - items[j], and the two items along query[q]."""
    def emit(e):
        _emit_pair(e, 7, lambda apart, o, n: None)

    signature = types.void(users, INDEX, query, INDEX, items, INDEX, INDEX, KEEPS, GAINS, width)
    return row_operation(signature, emit)


@intrinsic
def pair_step_apart(typing, users, u, query, q, items, i, j, shrink, gain, width):
    """Run `pair_step`, and store the old difference of the items in query[q]."""
    def emit(e):
        query = e.row(2, 3)
        _emit_pair(e, 7, lambda apart, o, n: e.store(apart, query, o, n))

    signature = types.void(users, INDEX, query, INDEX, items, INDEX, INDEX, KEEPS, GAINS, width)
    return row_operation(signature, emit)


@intrinsic
def pair_step_one(
    typing, users, u, query, q, items, i, j, table, f, share, step, shrink, gain, width
):
    """Run `pair_step`, and table[f] = share * table[f] + step * (items[i] - items[j])."""
    def emit(e):
        feature, share, step = e.row(7, 8), e.values[9], e.values[10]

        def move(apart, o, n):
            kept = e.scaled(share, e.load(feature, o, n), n)
            e.store(e.fma(e.splat(step, n), apart, kept, n), feature, o, n)

        _emit_pair(e, 11, move)

    signature = types.void(
        users, INDEX, query, INDEX, items, INDEX, INDEX, table, INDEX, REAL, REAL, KEEPS,
        GAINS, width
    )
    return row_operation(signature, emit)
