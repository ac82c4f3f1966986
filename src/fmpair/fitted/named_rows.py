"""Sparse rows as arrays by name, for files, and back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fmpair.arrays import Rows


def arrays_of(tables: Mapping[str, Rows]) -> dict[str, np.ndarray]:
    """Three arrays for each of the rows, such as `near.start`."""
    return {
        f"{name}.{part}": array
        for name, rows in tables.items()
        for part, array in zip(Rows._fields, rows)
    }


def rows_from(arrays: Mapping[str, np.ndarray], name: str) -> Rows:
    """The rows of that name."""
    return Rows(*(arrays[f"{name}.{part}"] for part in Rows._fields))
