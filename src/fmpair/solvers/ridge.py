"""Ridge regression of many targets on sparse lists and dense vectors, by conjugate gradients.

The result has the same bits on any number of threads: each row of a sparse product is computed by
one thread, and dense matrix products run on one thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fmpair.arrays import Rows, group_rows, row_adder
from fmpair.threads import blas_on, side_by_side

ROWS_AT_ONCE = 1024
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

    @cached_property
    def gram(self) -> np.ndarray | None:
        """The Gram matrix X'X if the design is one dense block, else None: float32."""
        if len(self.rows.column) or len(self.dense) != 1:
            return None
        with blas_on(1):
            return self.dense[0][1].T @ self.dense[0][1]

    def take(self, rows: np.ndarray) -> Design:
        """Return the design of some rows."""
        dense = tuple((block, matrix[rows]) for block, matrix in self.dense)
        return Design(self.rows.take(rows), self.columns, dense, self.threads)

    def squared(self) -> Design:
        """Return the design of squared values."""
        dense = tuple((block, matrix**2) for block, matrix in self.dense)
        rows = self.rows._replace(value=self.rows.value**2)
        return Design(rows, self.columns, dense, self.threads)

    def dot(self, table: np.ndarray) -> np.ndarray:
        """Return X times a table [columns, k]: float32 [rows, k]."""
        out = _products(self.rows, table, self.threads)
        with blas_on(1):
            for block, matrix in self.dense:
                out += matrix @ table[block]
        return out

    def back(self, table: np.ndarray) -> np.ndarray:
        """Return X' times a table [rows, k]: float32 [columns, k]."""
        out = _products(self.by_column, table, self.threads)
        with blas_on(1):
            for block, matrix in self.dense:
                out[block] += matrix.T @ table
        return out

    def twice(self, table: np.ndarray) -> np.ndarray:
        """Return X'X times a table [columns, k]: float32 [columns, k]."""
        if self.gram is None:
            return self.back(self.dot(table))
        out = np.zeros_like(table)
        with blas_on(1):
            out[self.dense[0][0]] = self.gram @ table[self.dense[0][0]]
        return out


def ridge(
    design: Design, targets: np.ndarray, strength: float, start: np.ndarray | None = None
) -> np.ndarray:
    """Return the weights that predict targets [rows, k] with the least loss: float32 [columns, k].

    strength: the L2 penalty. start: initial weights, zeros if None. Solves (X'X + strength I) W =
    X'T by conjugate gradients, preconditioned by the diagonal.
    """
    right, penalty = design.back(targets), np.float32(strength)
    scale = 1 / (design.squares + penalty)[:, None]
    weights = np.zeros_like(right) if start is None else start.copy()
    residual = right - (design.twice(weights) + penalty * weights if start is not None else 0)
    small = _lengths(right, scale).sum() * TOLERANCE**2
    direction = scale * residual
    size = _lengths(residual, scale)
    for _ in range(STEPS):
        if size.sum() <= small:
            break
        image = design.twice(direction) + penalty * direction
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
    held_out = rng.permutation(len(targets)) % HELD_OUT == 0
    train, test = design.take(np.flatnonzero(~held_out)), design.take(np.flatnonzero(held_out))
    unit = float(design.squares.sum()) / max(len(targets), 1)
    weights, best = None, (np.inf, STRENGTHS[0] * unit)
    for strength in STRENGTHS:
        weights = ridge(train, projected[~held_out], strength * unit, weights)
        error = float(np.square(test.dot(weights) - projected[held_out]).sum())
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
