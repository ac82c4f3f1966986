"""Vector instructions on rows of float32 tables, for the kernels.

A row is `4 * len(width)` numbers: `width` is a tuple whose length, a part of its type, makes the
number of factors a constant of the compiled kernel. Tables must be aligned to 16 bytes
(see `aligned`), with that many columns.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

# Building the instructions of one operation on rows, a chunk of the row at a time.


LANES = 4
CHUNK = 16
WIDE = 32  # of sums over entries, whose every piece walks the entries anew
FLOAT = ir.FloatType()
INT32 = ir.IntType(32)
INT64 = ir.IntType(64)
FAST = ("fast",)


class Emitter:
    """Builds the IR of one row operation, a chunk of the row at a time."""

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

    def chunks(self, most: int = CHUNK, border: int = 0):
        """(offset, lanes) of the pieces a row is worked in; none reaches over the border."""
        for start, end in ((0, border), (border, self.columns)):
            for offset in range(start, end, most):
                yield offset, min(most, end - offset)

    def at(self, row, offset, lanes):
        place = self.builder.gep(row, [ir.Constant(INT64, offset)])
        return self.builder.bitcast(place, ir.VectorType(FLOAT, lanes).as_pointer())

    def load(self, row, offset, lanes):
        return self.builder.load(self.at(row, offset, lanes), align=_alignment(offset))

    def store(self, value, row, offset, lanes):
        self.builder.store(value, self.at(row, offset, lanes), align=_alignment(offset))

    def splat(self, scalar, lanes):
        """A scalar in every lane."""
        vector = ir.VectorType(FLOAT, lanes)
        one = self.builder.insert_element(
            ir.Constant(vector, ir.Undefined), scalar, ir.Constant(INT32, 0)
        )
        mask = ir.Constant(ir.VectorType(INT32, lanes), [0] * lanes)
        return self.builder.shuffle_vector(one, one, mask)

    def fma(self, a, b, c, lanes):
        """a * b + c, rounded once."""
        vector = ir.VectorType(FLOAT, lanes)
        function = cgutils.get_or_insert_function(
            self.builder.module,
            ir.FunctionType(vector, [vector] * 3),
            f"llvm.fma.v{lanes}f32",
        )
        return self.builder.call(function, [a, b, c])

    def scaled(self, scalar, value, lanes):
        return self.builder.fmul(self.splat(scalar, lanes), value)

    def total(self, sums):
        """The sum over all lanes of a list of (vector, lanes)."""
        out = ir.Constant(FLOAT, 0.0)
        for vector, lanes in sums:
            function = cgutils.get_or_insert_function(
                self.builder.module,
                ir.FunctionType(FLOAT, [FLOAT, ir.VectorType(FLOAT, lanes)]),
                f"llvm.vector.reduce.fadd.v{lanes}f32",
            )
            out = self.builder.call(function, [out, vector], fastmath=FAST)
        return out

    def dot(self, load_left, load_right, most: int = CHUNK):
        """The inner product of two rows, each given as a loader (offset, lanes) -> vector."""
        sums: dict[int, ir.Value] = {}
        for offset, lanes in self.chunks(most):
            left, right = load_left(offset, lanes), load_right(offset, lanes)
            if lanes in sums:
                sums[lanes] = self.fma(left, right, sums[lanes], lanes)
            else:
                sums[lanes] = self.builder.fmul(left, right)
        return self.total([(vector, lanes) for lanes, vector in sums.items()])


def _alignment(offset: int) -> int:
    """Of a piece of a row, in bytes."""
    return 16 if offset % LANES == 0 else 4


def gathered(e: Emitter, row, offset, lanes, squares: bool):
    """row[offset:] + sum of value * table[column] over entries [start, end), in registers.

    Arguments 4 to 8 of the operation are table, start, end, column, value. With squares, also
    the lanes' sum of squares of what was added.
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
        place = builder.gep(e.data(4), [builder.mul(column, ir.Constant(INT64, e.columns))])
        part = e.scaled(value, e.load(place, offset, lanes), lanes)
        builder.store(builder.fadd(builder.load(total), part), total)
        if squares:
            builder.store(e.fma(part, part, builder.load(square), lanes), square)
    return builder.load(total), builder.load(square)


def width_of(factors: int) -> tuple[int, ...]:
    """The width argument of kernels for tables made by `aligned`."""
    return (0,) * (padded(factors) // LANES)


def padded(factors: int) -> int:
    """The number of columns of a table: factors rounded up to pairs of vector registers."""
    return max(-(-factors // (2 * LANES)), 1) * 2 * LANES


def aligned(table: np.ndarray, columns: int = 0) -> np.ndarray:
    """A float32 copy [rows, padded factors] on a cache line's boundary; the padding is zero.

    columns: how many it must have room for, where these are more.
    """
    out = _room(len(table), padded(max(table.shape[1], columns)))
    out[:, : table.shape[1]] = table
    return out


def taken(table: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The given rows of an aligned table, as another."""
    return np.take(table, rows, axis=0, out=_room(len(rows), table.shape[1]), mode="clip")


def blank(rows: int, columns: int) -> np.ndarray:
    """A float32 table of zeros on a cache line's boundary; memory is taken as it is written to."""
    return _room(rows, columns)


def _room(rows: int, columns: int) -> np.ndarray:
    raw = np.zeros(rows * columns + CHUNK, np.float32)
    skip = (-raw.ctypes.data % 64) // 4
    return raw[skip : skip + rows * columns].reshape(rows, columns)


@intrinsic
def dot(typing, left, a, right, b, width):
    """left[a] . right[b]"""
    signature = types.float32(left, types.int64, right, types.int64, width)

    def generate(context, builder, signature, arguments):
        e = Emitter(context, builder, signature, arguments)
        first, second = e.row(0, 1), e.row(2, 3)
        return e.dot(lambda o, n: e.load(first, o, n), lambda o, n: e.load(second, o, n))

    return signature, generate


@intrinsic
def dot_difference(typing, query, q, items, i, j, width):
    """query[q] . (items[i] - items[j])"""
    signature = types.float32(query, types.int64, items, types.int64, types.int64, width)

    def generate(context, builder, signature, arguments):
        e = Emitter(context, builder, signature, arguments)
        a, b, c = e.row(0, 1), e.row(2, 3), e.row(2, 4)
        return e.dot(
            lambda o, n: e.load(a, o, n),
            lambda o, n: builder.fsub(e.load(b, o, n), e.load(c, o, n)),
        )

    return signature, generate


@intrinsic
def assign(typing, target, t, source, s, width):
    """target[t] = source[s]"""
    signature = types.void(target, types.int64, source, types.int64, width)

    def generate(context, builder, signature, arguments):
        e = Emitter(context, builder, signature, arguments)
        to, source_row = e.row(0, 1), e.row(2, 3)
        for o, n in e.chunks():
            e.store(e.load(source_row, o, n), to, o, n)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def blend(typing, target, t, shrink, source, s, gain, width):
    """target[t] = shrink * target[t] + gain * source[s]"""
    real = types.float32
    signature = types.void(target, types.int64, real, source, types.int64, real, width)

    def generate(context, builder, signature, arguments):
        e = Emitter(context, builder, signature, arguments)
        to, source_row, shrink, gain = e.row(0, 1), e.row(3, 4), arguments[2], arguments[5]
        for o, n in e.chunks():
            kept = e.scaled(shrink, e.load(to, o, n), n)
            e.store(e.fma(e.splat(gain, n), e.load(source_row, o, n), kept, n), to, o, n)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def gather(typing, target, t, source, s, table, start, end, column, value, width):
    """target[t] = source[s] + sum over entries [start, end) of value * table[column]"""
    index = types.int64
    signature = types.void(target, index, source, index, table, index, index, column, value, width)

    def generate(context, builder, signature, arguments):
        e = Emitter(context, builder, signature, arguments)
        to, source_row = e.row(0, 1), e.row(2, 3)
        for o, n in e.chunks(WIDE):
            e.store(gathered(e, source_row, o, n, squares=False)[0], to, o, n)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def gather_dot(typing, target, t, source, s, table, start, end, column, value, items, i, j, width):
    """`gather`, and what it gathered . (items[i] - items[j]), without a detour through memory."""
    index = types.int64
    signature = types.float32(
        target, index, source, index, table, index, index, column, value, items, index, index, width
    )

    def generate(context, builder, signature, arguments):
        e = Emitter(context, builder, signature, arguments)
        to, source_row, positive, negative = e.row(0, 1), e.row(2, 3), e.row(9, 10), e.row(9, 11)

        def whole(o, n):
            total = gathered(e, source_row, o, n, squares=False)[0]
            e.store(total, to, o, n)
            return total

        def apart(o, n):
            return builder.fsub(e.load(positive, o, n), e.load(negative, o, n))

        return e.dot(whole, apart, WIDE)

    return signature, generate


@intrinsic
def gather_pairs(typing, target, t, source, s, table, start, end, column, value, width):
    """`gather`, and the sum of the inner products of all pairs of what was summed."""
    index = types.int64
    signature = types.float32(
        target, index, source, index, table, index, index, column, value, width
    )

    def generate(context, builder, signature, arguments):
        e = Emitter(context, builder, signature, arguments)
        to, source_row = e.row(0, 1), e.row(2, 3)
        sums: dict[int, ir.Value] = {}
        for o, n in e.chunks(WIDE):
            own = e.load(source_row, o, n)
            total, squares = gathered(e, source_row, o, n, squares=True)
            e.store(total, to, o, n)
            # the square of the sum, less the squares of the parts: twice the pairs
            rest = builder.fsub(builder.fmul(total, total), e.fma(own, own, squares, n))
            sums[n] = builder.fadd(sums[n], rest) if n in sums else rest
        twice = e.total([(vector, lanes) for lanes, vector in sums.items()])
        return builder.fmul(ir.Constant(FLOAT, 0.5), twice)

    return signature, generate


@intrinsic
def blend_two(typing, target, t, shrink, source, s, gain, r, loss, width):
    """target[t] = shrink * target[t] + gain * source[s] + loss * source[r]"""
    real, index = types.float32, types.int64
    signature = types.void(target, index, real, source, index, real, index, real, width)

    def generate(context, builder, signature, arguments):
        e = Emitter(context, builder, signature, arguments)
        to, first, second = e.row(0, 1), e.row(3, 4), e.row(3, 6)
        shrink, gain, loss = arguments[2], arguments[5], arguments[7]
        for o, n in e.chunks():
            kept = e.scaled(shrink, e.load(to, o, n), n)
            kept = e.fma(e.splat(gain, n), e.load(first, o, n), kept, n)
            e.store(e.fma(e.splat(loss, n), e.load(second, o, n), kept, n), to, o, n)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def side_step(typing, users, u, items, i, j, scratch, shrink, gain, width):
    """One step on a pair of items with attributes.

    scratch: 0 the query q, 1 and 2 the two item sides p; becomes their difference, and q + p each.
    An item moves along q + p less its own vector. shrink, gain: as in `pair_step`.
    """
    keeps, gains = types.UniTuple(types.float32, 3), types.UniTuple(types.float32, 2)
    index = types.int64
    signature = types.void(users, index, items, index, index, scratch, keeps, gains, width)

    def generate(context, builder, signature, arguments):
        e = Emitter(context, builder, signature, arguments)
        user, positive, negative, q = e.row(0, 1), e.row(2, 3), e.row(2, 4), e.data(5)
        p, r = (builder.gep(q, [ir.Constant(INT64, n * e.columns)]) for n in (1, 2))
        keep_u, keep_i, keep_j = cgutils.unpack_tuple(builder, arguments[6], 3)
        gain_u, gain_i = cgutils.unpack_tuple(builder, arguments[7], 2)
        loss = builder.fneg(gain_i)
        keep_i, keep_j = builder.fsub(keep_i, gain_i), builder.fadd(keep_j, gain_i)
        for o, n in e.chunks():
            x, a, b = e.load(q, o, n), e.load(p, o, n), e.load(r, o, n)
            apart, along, against = builder.fsub(a, b), builder.fadd(x, a), builder.fadd(x, b)
            for value, row in ((apart, q), (along, p), (against, r)):
                e.store(value, row, o, n)
            for row, kept, step, way in (
                (user, keep_u, gain_u, apart),
                (positive, keep_i, gain_i, along),
                (negative, keep_j, loss, against),
            ):
                own = e.scaled(kept, e.load(row, o, n), n)
                e.store(e.fma(e.splat(step, n), way, own, n), row, o, n)
        return context.get_dummy_value()

    return signature, generate


def _emit_pair(e: Emitter, shrink: int, also) -> None:
    """The pair step: users[u], query[q], items[i], items[j] are arguments 0 to 6.

    shrink: the argument (user, positive, negative) of shares kept, after it (user, item) of steps.
    also: called with the items' difference, offset and lanes of every piece.
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


KEEPS, GAINS = types.UniTuple(types.float32, 3), types.UniTuple(types.float32, 2)


@intrinsic
def pair_step(typing, users, u, query, q, items, i, j, shrink, gain, width):
    """One step on a pair: users[u] towards items[i] - items[j], the two items along query[q].

    shrink: (user, positive, negative) shares kept; gain: (user, item) step lengths.
    """
    index = types.int64
    signature = types.void(users, index, query, index, items, index, index, KEEPS, GAINS, width)

    def generate(context, builder, signature, arguments):
        e = Emitter(context, builder, signature, arguments)
        _emit_pair(e, 7, lambda apart, o, n: None)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def pair_step_apart(typing, users, u, query, q, items, i, j, shrink, gain, width):
    """`pair_step` that leaves the items' old difference in query[q]."""
    index = types.int64
    signature = types.void(users, index, query, index, items, index, index, KEEPS, GAINS, width)

    def generate(context, builder, signature, arguments):
        e = Emitter(context, builder, signature, arguments)
        query = e.row(2, 3)
        _emit_pair(e, 7, lambda apart, o, n: e.store(apart, query, o, n))
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def pair_step_one(
    typing, users, u, query, q, items, i, j, table, f, share, step, shrink, gain, width
):
    """`pair_step` with one feature: table[f] = share * table[f] + step * (items[i] - items[j])."""
    index, real = types.int64, types.float32
    signature = types.void(
        users, index, query, index, items, index, index, table, index, real, real, KEEPS, GAINS,
        width
    )

    def generate(context, builder, signature, arguments):
        e = Emitter(context, builder, signature, arguments)
        feature, share, step = e.row(7, 8), arguments[9], arguments[10]

        def move(apart, o, n):
            kept = e.scaled(share, e.load(feature, o, n), n)
            e.store(e.fma(e.splat(step, n), apart, kept, n), feature, o, n)

        _emit_pair(e, 11, move)
        return context.get_dummy_value()

    return signature, generate
