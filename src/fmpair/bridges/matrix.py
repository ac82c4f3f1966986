"""Events and feature rows as the sparse matrices that other libraries take."""

from __future__ import annotations

from typing import Any

import numpy as np

from fmpair.arrays import Rows, add_repeats, group_rows
from fmpair.data import Dataset
from fmpair.models.classic.interactions import interactions


def csr(rows: Rows, columns: int) -> Any:
    """Sparse rows as a scipy matrix [rows, columns]."""
    from scipy.sparse import csr_matrix

    # 32-bit offsets: what compiled loops of other libraries are written for
    start = rows.start.astype(np.int32) if rows.start[-1] < 2**31 else rows.start
    return csr_matrix((rows.value, rows.column, start), shape=(rows.size, columns))


def ratings(data: Dataset) -> Rows:
    """Per user the distinct items; values are the mean rating, where there is none the weights."""
    rating = data.column("rating")
    if rating is None:
        return interactions(data, "linear")
    total = add_repeats(group_rows(data.user, data.item, len(data.users), rating))
    return total._replace(value=total.value / data.seen.value)
