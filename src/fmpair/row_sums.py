"""Sums of table rows, for sparse rows with many entries."""

from __future__ import annotations

import numpy as np

from fmpair.arrays import Rows
from fmpair.jit import kernel


def _add_plain(
    start: np.ndarray, column: np.ndarray, value: np.ndarray, table: np.ndarray, out: np.ndarray
) -> None:
    out += Rows(start - start[0], column[start[0] :], value[start[0] :]).plain_dot(table)


@kernel(plain=_add_plain)
def add_rows(start, column, value, table, out):
    """Add value * table[column] to out[r], over the entries of row r."""
    for r in range(len(out)):
        for e in range(start[r], start[r + 1]):
            own, weight = column[e], value[e]
            for k in range(out.shape[1]):
                out[r, k] += weight * table[own, k]
