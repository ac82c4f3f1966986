"""Sparse products, nearest rows, and weighted least squares (the steps of implicit ALS)."""

from __future__ import annotations

import numpy as np

from fmpair.arrays import Rows, group_rows
from fmpair.jit import inline, kernel
from fmpair.ranking.top import SCORES_AT_ONCE, empty_lists, select
from fmpair.threads import side_by_side

ROWS_AT_ONCE = 256


def turned(rows: Rows, columns: int) -> Rows:
    """Return the transpose: row c of the result holds the rows that have column c."""
    return group_rows(rows.column, rows.owner, columns, rows.value)


def product(left: Rows, right: Rows, columns: int) -> np.ndarray:
    """Return left times right, both sparse, as a dense table: float32 [rows of left, columns]."""
    out = np.zeros((left.size, columns), np.float32)
    _add_products(left.start, left.column, left.value, *right, out)
    return out


def gram(rows: Rows, columns: int, threads: int | None = None) -> np.ndarray:
    """Return the inner products of every two columns: float32 [columns, columns]."""
    by_column, out = turned(rows, columns), np.zeros((columns, columns), np.float32)
    step = max(SCORES_AT_ONCE // max(columns, 1), 1)

    def run(first: int) -> None:
        start = by_column.start[first : first + step + 1]
        part = out[first : first + step]
        _add_products(start, by_column.column, by_column.value, *rows, part)

    side_by_side(run, range(0, columns, step), threads)
    return out


def nearest(rows: Rows, columns: int, k: int, shrinkage: float, threads: int | None) -> Rows:
    """Return, per row, the k nearest rows by cosine, best first, with positive cosines only.

    shrinkage: added to the product of the two lengths, against chance on few entries.
    """
    by_column = turned(rows, columns)
    norm = np.sqrt(np.add.reduceat(np.append(rows.value, 0) ** 2, rows.start[:-1]))
    norm = np.where(np.diff(rows.start) > 0, norm, 0).astype(np.float32)
    k = min(k, rows.size)
    best, score, filled = empty_lists(rows.size, k)
    itself = np.arange(rows.size + 1), np.arange(rows.size, dtype=np.int32)
    step = int(np.clip(SCORES_AT_ONCE // max(rows.size, 1), 1, 1024))

    def run(first: int) -> None:
        own = rows.start[first : first + step + 1]
        found = np.zeros((len(own) - 1, rows.size), np.float32)
        _add_products(own, rows.column, rows.value, *by_column, found)
        _as_cosines(found, norm[first : first + step], norm, np.float32(shrinkage))
        select(found, first, *itself, k, best, score, filled)

    side_by_side(run, range(0, rows.size, step), threads)
    kept = np.arange(k) < filled[:, None]
    start = np.concatenate([[0], np.cumsum(filled)])
    return Rows(start, best[kept], score[kept])


@kernel(plain=True)
def _add_products(start, column, value, right_start, right_column, right_value, out):
    """Add value * right[column] to out[r], over the entries of row r."""
    for r in range(len(out)):
        row = out[r]
        for e in range(start[r], start[r + 1]):
            own, weight = column[e], value[e]
            for f in range(right_start[own], right_start[own + 1]):
                row[right_column[f]] += weight * right_value[f]


@kernel
def _as_cosines(found, own, norm, shrinkage):
    """Turn inner products into cosines; those not above 0 become -inf."""
    for r in range(len(found)):
        row = found[r]
        for c in range(len(row)):
            row[c] = row[c] / (own[r] * norm[c] + shrinkage) if row[c] > 0 else -np.inf


def solve(
    rows: Rows, fixed: np.ndarray, moved: np.ndarray, strength: np.ndarray, steps: int,
    threads: int | None,
) -> None:  # fmt: skip
    """Move the vectors of one side, float32 [rows, k], towards their optimum, in place.

    Each minimises the sum over all columns of c (p - moved . fixed)^2 + strength |moved|^2, where p
    is 1 and c is 1 + value at the row's entries, else 0 and 1, by `steps` conjugate gradient steps.
    strength: float32 [rows].
    """
    square = _inner(fixed).astype(np.float32)

    def run(first: int) -> None:
        last = min(first + ROWS_AT_ONCE, rows.size)
        _solve(first, last, *rows, fixed, square, strength, steps, moved)

    side_by_side(run, range(0, rows.size, ROWS_AT_ONCE), threads)


def squared_error(rows: Rows, left: np.ndarray, right: np.ndarray) -> float:
    """Return the sum over all pairs of c (p - left . right)^2, weighted as in `solve`."""
    everywhere = float((_inner(left) * _inner(right)).sum())
    return everywhere + _error_at_entries(*rows, left, right)


@kernel
def _inner(vectors):
    """Return vectors' vectors: float64 [k, k]. Not by BLAS, whose bits depend on its threads."""
    k = vectors.shape[1]
    out = np.zeros((k, k))
    for row in range(len(vectors)):
        for a in range(k):
            for b in range(k):
                out[a, b] += np.float64(vectors[row, a]) * vectors[row, b]
    return out


@inline
def _dot(left, right):  # that of Numba needs SciPy
    total = np.float32(0)
    for a in range(len(left)):
        total += left[a] * right[a]
    return total


@kernel(fastmath=True)
def _apply(vector, entries, column, value, fixed, square, strength, out):
    """Set out = (square + sum of value * f f' + strength) vector, f: the entries' fixed vectors."""
    k = len(vector)
    for a in range(k):
        total = strength * vector[a]
        for b in range(k):
            total += square[a, b] * vector[b]
        out[a] = total
    for e in range(entries[0], entries[1]):
        other = fixed[column[e]]
        weight = value[e] * _dot(other, vector)
        for a in range(k):
            out[a] += weight * other[a]


@kernel(fastmath=True)
def _solve(first, last, start, column, value, fixed, square, strength, steps, moved):
    """Take steps of conjugate gradients; in loops, which compile sooner than slices."""
    k = moved.shape[1]
    residual, image = np.empty(k, np.float32), np.empty(k, np.float32)
    direction = np.empty(k, np.float32)
    for row in range(first, last):
        vector, entries = moved[row], (start[row], start[row + 1])
        if entries[0] == entries[1]:
            for a in range(k):
                vector[a] = 0
            continue
        _apply(vector, entries, column, value, fixed, square, strength[row], image)
        for a in range(k):
            residual[a] = -image[a]
        for e in range(entries[0], entries[1]):
            other = fixed[column[e]]
            for a in range(k):
                residual[a] += (1 + value[e]) * other[a]
        for a in range(k):
            direction[a] = residual[a]
        length = _dot(residual, residual)
        for _ in range(steps):
            if length < 1e-20:
                break
            _apply(direction, entries, column, value, fixed, square, strength[row], image)
            step = length / _dot(direction, image)
            for a in range(k):
                vector[a] += step * direction[a]
                residual[a] -= step * image[a]
            longer = _dot(residual, residual)
            for a in range(k):
                direction[a] = residual[a] + (longer / length) * direction[a]
            length = longer


@kernel
def _error_at_entries(start, column, value, left, right):
    """Return what the entries add to the error beyond weight 1 and target 0."""
    total = 0.0
    for row in range(len(start) - 1):
        for e in range(start[row], start[row + 1]):
            score = _dot(left[row], right[column[e]])
            total += (1 + value[e]) * (1 - score) ** 2 - score**2
    return total
