"""Who has what, and how much it counts: the sparse matrix that classic models learn from."""

from __future__ import annotations

import numpy as np

from fmpair.arrays import Rows, add_repeats, group_rows
from fmpair.data import Dataset
from fmpair.errors import DataError
from fmpair.training.weights import log_weights


def interactions(data: Dataset, weights: str) -> Rows:
    """Per user the distinct items; values by the sum w of the weights of their events.

    weights: none (1 for every pair), log (1 + ln w from 1 on, w below), linear (w).
    """
    if not len(data):
        raise DataError("there are no events to learn from")
    if weights == "none":
        return data.seen._replace(value=np.ones(len(data.seen.column), np.float32))
    rows = add_repeats(group_rows(data.user, data.item, len(data.users), data.weight))
    if weights == "linear":
        return rows
    return rows._replace(value=log_weights(rows.value).astype(np.float32))
