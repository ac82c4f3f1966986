"""Metrics by name: `ndcg@10` is a formula and a cut-off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fmpair.errors import OptionError, unknown

# Each takes ranks (1 is best) of the one relevant item of a list, and a cut-off: value per list.
FORMULAS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "hit": lambda rank, k: (rank <= k).astype(np.float64),
    "recall": lambda rank, k: (rank <= k).astype(np.float64),
    "mrr": lambda rank, k: (rank <= k) / rank,
    "ndcg": lambda rank, k: (rank <= k) / np.log2(rank + 1),
}


@dataclass(frozen=True)
class Metric:
    """A formula over the rank of the relevant item, cut off at k."""

    name: str
    cutoff: int

    @classmethod
    def parse(cls, text: str) -> Metric:
        """`ndcg@10` as a Metric."""
        name, _, cutoff = text.partition("@")
        if name not in FORMULAS:
            raise OptionError(unknown("metric", name, FORMULAS))
        if not cutoff.isdigit() or int(cutoff) < 1:
            raise OptionError(f"metric {text!r} needs a cut-off, such as {name}@10")
        return cls(name, int(cutoff))

    def __str__(self) -> str:
        return f"{self.name}@{self.cutoff}"

    def values(self, rank: np.ndarray) -> np.ndarray:
        """float64 [lists]: the value of each list, given the rank of its relevant item."""
        return FORMULAS[self.name](np.asarray(rank, np.float64), self.cutoff)
