"""How much an event counts: its weight as it is, its logarithm, or 1."""

from __future__ import annotations

import numpy as np

from fmpair.data import Dataset
from fmpair.errors import DataError

WEIGHTS = ("log", "linear", "none")
MOST_WEIGHT = 10.0  # of one event, in mean weights


def log_weights(weight: np.ndarray) -> np.ndarray:
    """1 + ln w from 1 on, w itself below: a hundred times count six times as much as one."""
    return np.where(weight < 1, weight, 1 + np.log(np.maximum(weight, 1)))


def event_weights(weights: str, data: Dataset) -> np.ndarray:
    """float32 [events]: how much each event counts, 1 on average."""
    if weights == "none" or "weight" not in data.columns.columns:
        return np.broadcast_to(np.float32(1), len(data))  # one number, however many events
    weight = log_weights(data.weight) if weights == "log" else data.weight
    if not weight.any():
        raise DataError("all weights are 0: nothing is left to learn from")
    # a single event must not take a step that undoes all others
    return np.minimum(weight / weight.mean(), MOST_WEIGHT).astype(np.float32)
