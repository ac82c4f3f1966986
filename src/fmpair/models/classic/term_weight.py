"""How much each column of a sparse matrix tells two rows apart: tf-idf and BM25."""

from __future__ import annotations

import numpy as np

from fmpair.arrays import Rows, tally

SCHEMES = ("plain", "tf-idf", "bm25")
SATURATION, LENGTH = 1.2, 0.75  # k1 and b of BM25, as usual


def weighted(rows: Rows, columns: int, scheme: str) -> Rows:
    """The rows with values that count rare columns more.

    idf(column) = ln(1 + rows / rows that have it); tf-idf: sqrt(value) * idf;
    bm25: idf * value * (k1 + 1) / (value + k1 * (1 - b + b * length / mean length)).
    """
    if scheme == "plain":
        return rows
    times = tally(rows.column, columns)
    idf = np.log1p(rows.size / np.maximum(times, 1))[rows.column]
    if scheme == "tf-idf":
        return rows._replace(value=(np.sqrt(rows.value) * idf).astype(np.float32))
    lengths = np.diff(rows.start)
    relative = lengths / max(lengths[lengths > 0].mean(), 1)
    spread = SATURATION * (1 - LENGTH + LENGTH * relative[rows.owner])
    value = idf * rows.value * (SATURATION + 1) / (rows.value + spread)
    return rows._replace(value=value.astype(np.float32))
