"""What is to be judged: lists by unit, and the candidates to draw for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows

IN_ORDER, UNIFORM, WEIGHTED = range(3)


class Task(NamedTuple):
    """Lists to judge, one per unit.

    query: int64 [units], ascending, the row of scores; owner: int64 [units], the row of hidden.
    hidden: items that leave the list, unless they are relevant. relevant: per unit its relevant
    items, each once; -1 stands for one that has no score.
    """

    query: np.ndarray
    owner: np.ndarray
    hidden: Rows
    relevant: Rows


class Pool(NamedTuple):
    """Candidates to draw `most` of, beside the relevant items.

    row: int64 [units], the row of `items` to draw from; items: distinct candidates, in order.
    weight: float64 [items], for WEIGHTED. kind: IN_ORDER, UNIFORM or WEIGHTED. state: of the draws.
    """

    row: np.ndarray
    items: Rows
    weight: np.ndarray
    kind: int
    most: int
    state: np.uint64
