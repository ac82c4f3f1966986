"""Products of sparse rows: what items or users have in common, and sums over neighbours."""

from __future__ import annotations

import numpy as np

from fmpair.arrays import Rows, group_rows
from fmpair.jit import kernel
from fmpair.ranking.top import SCORES_AT_ONCE, select
from fmpair.threads import side_by_side


def turned(rows: Rows, columns: int) -> Rows:
    """The same entries by column: row c of the result holds the rows that have c."""
    return group_rows(rows.column, rows.owner, columns, rows.value)


def product(left: Rows, right: Rows, columns: int) -> np.ndarray:
    """float32 [rows of left, columns]: left times right, both sparse, written out."""
    out = np.zeros((left.size, columns), np.float32)
    _add_products(left.start, left.column, left.value, *right, out)
    return out


def gram(rows: Rows, columns: int, threads: int | None = None) -> np.ndarray:
    """float32 [columns, columns]: the inner products of every two columns."""
    by_column, out = turned(rows, columns), np.zeros((columns, columns), np.float32)
    step = max(SCORES_AT_ONCE // max(columns, 1), 1)

    def run(first: int) -> None:
        start = by_column.start[first : first + step + 1]
        part = out[first : first + step]
        _add_products(start, by_column.column, by_column.value, *rows, part)

    side_by_side(run, range(0, columns, step), threads)
    return out


def nearest(rows: Rows, columns: int, k: int, shrinkage: float, threads: int | None) -> Rows:
    """Per row the k rows nearest by cosine, best first, with the cosine; none that is not above 0.

    shrinkage: added to the product of the two lengths, against chance on few entries.
    """
    by_column = turned(rows, columns)
    norm = np.sqrt(np.add.reduceat(np.append(rows.value, 0) ** 2, rows.start[:-1]))
    norm = np.where(np.diff(rows.start) > 0, norm, 0).astype(np.float32)
    k = min(k, rows.size)
    best = np.full((rows.size, k), -1, np.int32)
    score = np.full((rows.size, k), -np.inf, np.float32)
    filled = np.zeros(rows.size, np.int64)
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
    """out[r] += value * right[column], over the entries of row r."""
    for r in range(len(out)):
        row = out[r]
        for e in range(start[r], start[r + 1]):
            own, weight = column[e], value[e]
            for f in range(right_start[own], right_start[own + 1]):
                row[right_column[f]] += weight * right_value[f]


@kernel
def _as_cosines(found, own, norm, shrinkage):
    """Inner products as cosines; what is not above 0 becomes -inf, which is never listed."""
    for r in range(len(found)):
        row = found[r]
        for c in range(len(row)):
            row[c] = row[c] / (own[r] * norm[c] + shrinkage) if row[c] > 0 else -np.inf
