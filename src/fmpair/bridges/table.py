"""The scores of every user for every item, written out: for models that have no shorter form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from fmpair.capacity import check_memory, memory
from fmpair.data import Dataset
from fmpair.features import FeatureSpace
from fmpair.fitted.integrity import Numbers, check

SHARE = 0.5  # of the machine's memory that one table may take


@dataclass(frozen=True, eq=False)
class Table:
    """A scorer that looks scores up: float32 [users, items]."""

    table: np.ndarray
    scores_unknown_users: ClassVar[bool] = False

    @classmethod
    def of(cls, table: np.ndarray) -> Table:
        """With items that a model has no score for below all others of the user."""
        usable = np.isfinite(table)
        lowest = np.where(usable, table, np.inf).min(axis=1, keepdims=True, initial=np.inf)
        lowest[np.isinf(lowest)] = 0
        return cls(np.where(usable, table, lowest - 1).astype(np.float32))

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray], space: FeatureSpace) -> Table:
        shape = len(space.users), len(space.items)
        return cls(**check(arrays, {"table": Numbers(shape)}))

    def scores(self, users: np.ndarray, context: pl.DataFrame) -> np.ndarray:
        return self.table[users]

    def arrays(self) -> dict[str, np.ndarray]:
        return {"table": self.table}


def empty_table(what: str, data: Dataset) -> np.ndarray:
    """float32 [users, items] of NaN, for scores to be written into; refused where too large."""
    shape = len(data.users), len(data.items)
    size, most_gb = f"{shape[0]:,} users and {shape[1]:,} items", SHARE * memory() / 2**30
    remedy = "filter the events to a denser core first"
    check_memory(what, size, 4 * shape[0] * shape[1], most_gb, remedy)
    return np.full(shape, np.nan, np.float32)
