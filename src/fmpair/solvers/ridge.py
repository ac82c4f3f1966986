"""Ridge regression of many targets on sparse lists and dense vectors, by conjugate gradients.

The result has the same bits on any number of threads: each row of a sparse product is computed by
one thread, and dense matrix products run on one thread, or on the device of a fit.

With one dense block, only its Gram matrix takes part in the steps. Rows are held out by subtracting
theirs from it, so that a cross-validation costs hardly more than one regression.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from fmpair.arrays import Rows, group_rows, row_adder
from fmpair.matrices import product, product_of_squares
from fmpair.threads import blas_on, side_by_side

ROWS_AT_ONCE = 1024
SUMS_AT_ONCE = 1 << 15
STEPS = 60  # most steps of conjugate gradients
TOLERANCE = 1e-2  # they end when the residual is this share of the right-hand side
# L2 penalties to try, in multiples of a row's mean squared length. The largest comes first, since
# it converges fastest and its solution is the start of the next.
STRENGTHS = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)
HELD_OUT = 10  # one of this many rows is held out to choose the penalty
DIRECTIONS = 16  # random projections of the targets from which the penalty is chosen


@dataclass(frozen=True)
class Design:
    """The inputs of a regression: sparse rows over `columns` columns, and dense blocks of columns.

    dense: the columns of each block and its values, float32 [rows, columns of the block].
    """

    rows: Rows
    columns: int
    dense: tuple[tuple[slice, np.ndarray], ...] = ()
    threads: int | None = None

    @cached_property
    def by_column(self) -> Rows:
        """The sparse rows, transposed."""
        return group_rows(self.rows.column, self.rows.owner, self.columns, self.rows.value)

    @cached_property
    def described(self) -> np.ndarray:
        """Which rows have a value: bool [rows]."""
        out = np.diff(self.rows.start) > 0
        for _, matrix in self.dense:
            out |= matrix.any(axis=1)
        return out

    @cached_property
    def squares(self) -> np.ndarray:
        """The squared length of each column: float32 [columns]."""
        values = self.rows.value.astype(np.float64)
        out = np.bincount(self.rows.column, values**2, self.columns).astype(np.float64)
        for block, matrix in self.dense:
            out[block] += np.einsum("rc,rc->c", matrix, matrix)
        return out.astype(np.float32)

    @property
    def one_block(self) -> bool:
        """Whether the design is one dense block and nothing else."""
        return len(self.dense) == 1 and not len(self.rows.column)

    @cached_property
    def gram(self) -> np.ndarray | None:
        """The Gram matrix X'X if the design is one dense block, else None: float32."""
        if not self.one_block:
            return None
        return product(self.dense[0][1], self.dense[0][1], transposed=True, keep=True)

    def take(self, rows: np.ndarray) -> Design:
        """Return the design of some rows."""
        dense = tuple((block, matrix[rows]) for block, matrix in self.dense)
        return Design(self.rows.take(rows), self.columns, dense, self.threads)

    def squared_dot(self, weights: np.ndarray) -> np.ndarray:
        """Return the squares of X times weights [columns]: float32 [rows]."""
        weights = weights[:, None]
        rows = self.rows._replace(value=self.rows.value**2)
        out = _products(rows, weights, self.threads)
        for block, matrix in self.dense:
            out += product_of_squares(matrix, weights[block])
        return out[:, 0]

    def dot(self, table: np.ndarray) -> np.ndarray:
        """Return X times a table [columns, k]: float32 [rows, k]."""
        if self.one_block:
            return product(self.dense[0][1], table[self.dense[0][0]], keep=True)
        out = _products(self.rows, table, self.threads)
        for block, matrix in self.dense:
            out += product(matrix, table[block], keep=True)
        return out

    def back(self, table: np.ndarray) -> np.ndarray:
        """Return X' times a table [rows, k]: float32 [columns, k]."""
        out = _products(self.by_column, table, self.threads)
        for block, matrix in self.dense:
            out[block] += product(matrix, table, transposed=True, keep=True)
        return out

    def twice(self, table: np.ndarray) -> np.ndarray:
        """Return X'X times a table [columns, k]: float32 [columns, k]."""
        if self.gram is None:
            return self.back(self.dot(table))
        return _within(self.dense[0][0], self.gram, table)

    def twice_of_sums(self, sums: Design) -> Normal | None:
        """Return (SX)'(SX), the normal equations of sums of rows; None but for one dense block.

        sums: S, sparse rows over the rows of this design. SX is computed for some rows at a time.
        """
        if self.gram is None:
            return None
        block, matrix = self.dense[0]
        gram = np.zeros_like(self.gram)
        for first in range(0, sums.rows.size, SUMS_AT_ONCE):
            rows = sums.rows.take(np.arange(first, min(first + SUMS_AT_ONCE, sums.rows.size)))
            part = _products(rows, matrix, self.threads)
            gram += product(part, part, transposed=True)
        squares = np.zeros(self.columns, np.float32)
        squares[block] = gram.diagonal()
        return _Gram(block, gram, squares)


def _within(block: slice, square: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return a square matrix over a block of columns times a table [columns, k]."""
    out = np.zeros_like(table)
    with blas_on(1):
        out[block] = square @ table[block]
    return out


class Normal(Protocol):
    """The left side X'X of the normal equations."""

    @property
    def squares(self) -> np.ndarray: ...

    def twice(self, table: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class _Gram:
    """The normal equations of one dense block without its rows: see `Design`."""

    block: slice
    gram: np.ndarray
    squares: np.ndarray

    def twice(self, table: np.ndarray) -> np.ndarray:
        return _within(self.block, self.gram, table)


@dataclass(frozen=True)
class Fold:
    """Rows that are held out of a regression.

    rows, others: the numbers of these rows and of all others. held_out: the design of the rows.
    rest: the normal equations of the others.
    """

    rows: np.ndarray
    others: np.ndarray
    held_out: Design
    rest: Normal

    @classmethod
    def of(cls, design: Design, rows: np.ndarray) -> Fold:
        """Return the design divided into these rows, held out, and all others."""
        others = np.ones(design.rows.size, bool)
        others[rows] = False
        numbers, part = np.flatnonzero(others), design.take(rows)
        if design.gram is None or part.gram is None:
            return cls(rows, numbers, part, design.take(numbers))
        block, squares = design.dense[0][0], design.squares - part.squares
        return cls(rows, numbers, part, _Gram(block, design.gram - part.gram, squares))

    def right(self, targets: np.ndarray, whole: np.ndarray) -> np.ndarray:
        """Return X'T of the other rows; whole: X'T of all rows."""
        if isinstance(self.rest, Design):
            return self.rest.back(targets[self.others])
        return whole - self.held_out.back(targets[self.rows])


def ridge(
    design: Design, targets: np.ndarray, strength: float, start: np.ndarray | None = None
) -> np.ndarray:
    """Return the weights that predict targets [rows, k] with the least loss: float32 [columns, k].

    strength: the L2 penalty. start: initial weights, zeros if None.
    """
    return solution(design, design.back(targets), strength, start)


def solution(
    normal: Normal, right: np.ndarray, strength: float, start: np.ndarray | None = None
) -> np.ndarray:
    """Solve (X'X + strength I) W = X'T by conjugate gradients, preconditioned by the diagonal.

    right: X'T, float32 [columns, k].
    """
    penalty = np.float32(strength)
    scale = 1 / (normal.squares + penalty)[:, None]
    weights = np.zeros_like(right) if start is None else start.copy()
    residual = right - (normal.twice(weights) + penalty * weights if start is not None else 0)
    small = _lengths(right, scale).sum() * TOLERANCE**2
    direction = scale * residual
    size = _lengths(residual, scale)
    for _ in range(STEPS):
        if size.sum() <= small:
            break
        image = normal.twice(direction) + penalty * direction
        step = size / np.maximum(np.einsum("ck,ck->k", direction, image), 1e-30)
        weights += step * direction
        residual -= step * image
        new_size = _lengths(residual, scale)
        direction = scale * residual + (new_size / np.maximum(size, 1e-30)) * direction
        size = new_size
    return weights


def best_strength(design: Design, targets: np.ndarray, seed: int) -> float:
    """Return the L2 penalty with the smallest squared error on held-out rows."""
    rng = np.random.default_rng([seed, 2])
    count = min(DIRECTIONS, targets.shape[1])
    with blas_on(1):
        projected = targets @ rng.standard_normal((targets.shape[1], count), np.float32)
    fold = Fold.of(design, np.flatnonzero(rng.permutation(len(targets)) % HELD_OUT == 0))
    right, wanted = fold.right(projected, design.back(projected)), projected[fold.rows]
    unit = float(design.squares.sum()) / max(len(targets), 1)
    weights, best = None, (np.inf, STRENGTHS[0] * unit)
    for strength in STRENGTHS:
        weights = solution(fold.rest, right, strength * unit, weights)
        error = float(np.square(fold.held_out.dot(weights) - wanted).sum())
        if error > best[0]:  # the error has one minimum
            break
        best = (error, strength * unit)
    return best[1]


def _lengths(table: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the squared length of each column, rows weighted by `scale` [rows, 1]."""
    return np.einsum("ck,ck->k", table, scale * table)


def _products(rows: Rows, table: np.ndarray, threads: int | None) -> np.ndarray:
    """Return sparse rows times a table: float32 [rows, columns of the table]."""
    out, table = np.zeros((rows.size, table.shape[1]), np.float32), np.ascontiguousarray(table)
    if not len(rows.column):
        return out
    add_rows = row_adder()

    def run(first: int) -> None:
        last = min(first + ROWS_AT_ONCE, rows.size)
        add_rows(rows.start[first : last + 1], rows.column, rows.value, table, out[first:last])

    side_by_side(run, range(0, rows.size, ROWS_AT_ONCE), threads)
    return out
