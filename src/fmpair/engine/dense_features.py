"""Fields whose features occur together, as the values of a list and the dimensions of a vector do.

Sparse rows describe them like any other field, and define what is learned. Engines use this to
multiply matrices instead, and to bound steps on features that always move together.
"""

from __future__ import annotations

import numpy as np

from fmpair.arrays import Rows, starts
from fmpair.engine.contract import Groups

Dense = list[tuple[slice, np.ndarray]]  # features of a field, and values [rows, features]


def dense_fields(groups: Groups, rows: Rows) -> list[slice]:
    """Return the features of each field of which a row has all, in order, or none."""
    fields, first = np.unique(groups.field, return_index=True)
    edges = np.append(first, len(groups.field)).tolist()
    counts, lengths = np.bincount(rows.column, minlength=edges[-1]), np.diff(rows.start)
    found = []
    for start, end in zip(edges[:-1], edges[1:]):
        times, size = int(counts[start]), end - start
        if size < 2 or not times or (counts[start:end] != times).any() or lengths.max() < size:
            continue
        inside = np.flatnonzero((rows.column >= start) & (rows.column < end))
        column = rows.column[inside].reshape(times, size)
        together = (np.diff(inside.reshape(times, size), axis=1) == 1).all()
        if together and (column == np.arange(start, end)).all():
            found.append(slice(start, end))
    return found


def joint_steepness(groups: Groups, rows: Rows) -> np.ndarray:
    """Return a lower bound of the squared value that a feature is held by: float32 [features].

    Features that occur together move together, so a sum of steps on each could overshoot though
    none of them does alone. In a list, the sum of the row's values times the own value bounds what
    the others add (Gershgorin). For vectors that is too much: the sum of the outer products of
    unit vectors has no eigenvalue above its Frobenius norm, the square root of the mean squared
    product of two of them, which is their share of owners.
    """
    out = np.zeros(len(groups.field), np.float32)
    size = np.abs(rows.value.astype(np.float64))
    place = rows.owner * (int(groups.field.max(initial=0)) + 1) + groups.field[rows.column]
    total = np.bincount(place, size)
    np.maximum.at(out, rows.column, (size * total[place]).astype(np.float32))
    for field in dense_fields(groups, rows):
        inside = (rows.column >= field.start) & (rows.column < field.stop)
        values = rows.value[inside].reshape(-1, field.stop - field.start)
        longest = float(np.einsum("rd,rd->r", values, values).max())
        share = min(float(groups.owners[field.start]) / max(rows.size, 1), 1.0)
        out[field] = longest * np.sqrt(share)
    return out


def split(rows: Rows, fields: list[slice]) -> tuple[Rows, Dense]:
    """Return the rows without the dense fields, and these as matrices, zeros where missing."""
    dense: Dense = []
    kept = np.ones(len(rows.column), bool)
    for field in fields:
        inside = (rows.column >= field.start) & (rows.column < field.stop)
        size = field.stop - field.start
        matrix = np.zeros((rows.size, size), np.float32)
        matrix[rows.owner[inside][::size]] = rows.value[inside].reshape(-1, size)
        dense.append((field, matrix))
        kept &= ~inside
    lengths = np.bincount(rows.owner[kept], minlength=rows.size)
    return Rows(starts(lengths), rows.column[kept], rows.value[kept]), dense
