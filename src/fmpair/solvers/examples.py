"""What a factorization machine learns from: examples with a target, and penalties."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows


class Examples(NamedTuple):
    """What to learn from. rows: features of each example; target: float64 [examples], 1 or -1
    for a binary one.

    edges: int64 [groups + 1], the features of group g are edges[g] to edges[g + 1].
    """

    rows: Rows
    target: np.ndarray
    edges: np.ndarray
    binary: bool


class Penalties(NamedTuple):
    """Strength of regularisation of every feature's linear term and vectors: float64 [features]."""

    linear: np.ndarray
    vectors: np.ndarray
