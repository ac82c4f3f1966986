"""What an engine is given: arrays only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows

POSITIVES = ("permutation", "bootstrap", "user")


class Problem(NamedTuple):
    """The events to learn from and the features of both sides.

    user, item, situation: int32 [events]; weight: float32 [events].
    known: bool [events], events that are only known to be positive and are not learned from.
    drawn: bool [items], the items that may be drawn as negatives.
    contexts: rows over the query features, one per situation; user_rows: the same, one per user.
    item_rows: rows over the item features, one per item.
    """

    user: np.ndarray
    item: np.ndarray
    weight: np.ndarray
    known: np.ndarray
    drawn: np.ndarray
    situation: np.ndarray
    contexts: Rows
    user_rows: Rows
    item_rows: Rows

    @property
    def users(self) -> int:
        return self.user_rows.size

    @property
    def items(self) -> int:
        return self.item_rows.size


class Parameters(NamedTuple):
    """What is learned. Vectors: float32 [rows, factors]; biases: float32 [rows]."""

    users: np.ndarray
    items: np.ndarray
    item_bias: np.ndarray
    query: np.ndarray
    features: np.ndarray
    feature_bias: np.ndarray


class Settings(NamedTuple):
    """How to learn. Rates are multiples of an epoch's learning rate; 0 freezes a table.

    regularization: user, positive, negative, bias; query and features: float32, one per row.
    blocks: B of the strata plan; deal_every: epochs between two deals; threads: how many work.
    """

    seed: int
    positives: str
    blocks: int
    deal_every: int
    threads: int
    user: float
    positive: float
    negative: float
    bias: float
    query: np.ndarray
    features: np.ndarray
    user_rate: float = 1.0
    item_rate: float = 1.0
    query_rate: float = 1.0
    feature_rate: float = 1.0
    learn_bias: bool = True
