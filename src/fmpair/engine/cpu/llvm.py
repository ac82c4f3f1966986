"""Building the instructions of one operation on rows, a chunk of the row at a time."""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils

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
