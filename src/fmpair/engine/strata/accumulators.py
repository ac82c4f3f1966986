"""AdaGrad's accumulators: per row, how much its gradients have moved it so far."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fmpair.engine.contract import Parameters, Settings

FIRST = 0.1  # where accumulators begin


class Accumulators(NamedTuple):
    """Per row, the sum of the mean squares of its gradients. query, features: a cell's own copy.

    mean: 1 / factors, what a sum of squares is multiplied by; bias: 1 where biases are learned,
    else 0.
    """

    users: np.ndarray
    items: np.ndarray
    query: np.ndarray
    features: np.ndarray
    mean: np.floating
    bias: np.floating


def first_accumulators(
    tables: Parameters, settings: Settings, kind: Any = np.float32
) -> Accumulators:
    """The accumulators of all rows before the first step."""

    def begun(rows: np.ndarray) -> np.ndarray:
        return np.full(len(rows), FIRST, kind)

    users, items, query, features = map(
        begun, (tables.users, tables.items, tables.query, tables.features)
    )
    mean, bias = kind(1 / tables.users.shape[1]), kind(settings.has_bias)
    return Accumulators(users, items, query, features, mean, bias)
