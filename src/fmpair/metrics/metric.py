"""A metric by name: a formula and a cut-off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fmpair.errors import OptionError, unknown
from fmpair.metrics import formulas
from fmpair.metrics.formulas import Worth, discount, one, reciprocal
from fmpair.metrics.placement import Placement

RANKED: dict[str, Callable[[Placement, int], np.ndarray]] = {
    "hit": formulas.hit,
    "precision": formulas.precision,
    "recall": formulas.recall,
    "mrr": formulas.mrr,
    "ndcg": formulas.ndcg,
    "ndcg_exp": formulas.ndcg_exp,
    "map": formulas.average_precision,
    "map_all": formulas.average_precision_all,
    "auc": formulas.auc,
}
# The value of a rank when the list has one relevant item: there the formulas agree.
ALONE: dict[str, Worth] = {
    "hit": one,
    "recall": one,
    "precision": one,
    "mrr": reciprocal,
    "map": reciprocal,
    "map_all": reciprocal,
    "ndcg": discount,
    "ndcg_exp": discount,
}
ERRORS = ("rmse", "mae")  # of predicted ratings
LISTS = ("coverage", "gini", "novelty", "popularity", "diversity")  # of what is recommended
UNCUT = ("auc", *ERRORS)
NAMES = (*RANKED, *ERRORS, *LISTS)


@dataclass(frozen=True)
class Metric:
    """A formula, cut off at rank k; the cut-off is 0 where the formula has none."""

    name: str
    cutoff: int

    @classmethod
    def parse(cls, text: str) -> Metric:
        """`ndcg@10` as a Metric."""
        name, at, cutoff = text.partition("@")
        if name not in NAMES:
            raise OptionError(unknown("metric", name, NAMES))
        if name in UNCUT:
            if at:
                raise OptionError(f"metric {text!r} takes no cut-off: say {name}")
            return cls(name, 0)
        if not cutoff.isdecimal() or int(cutoff) < 1:
            raise OptionError(f"metric {text!r} needs a cut-off, such as {name}@10")
        return cls(name, int(cutoff))

    def __str__(self) -> str:
        return f"{self.name}@{self.cutoff}" if self.cutoff else self.name

    def worth(self, rank: np.ndarray) -> np.ndarray:
        """float64: the value of a rank for a list with one relevant item, 0 beyond the cut-off."""
        if self.name not in ALONE:
            raise OptionError(
                f"{self} is not a function of one rank: use one of {', '.join(ALONE)}"
            )
        value = (rank <= self.cutoff) * ALONE[self.name](rank)
        return value / self.cutoff if self.name == "precision" else value

    def values(self, rank: np.ndarray) -> np.ndarray:
        """float64 [lists]: the value of each list, given the rank of its one relevant item."""
        return self.worth(np.asarray(rank, np.float64))

    def of(self, placement: Placement) -> np.ndarray:
        """float64 [units]: the value of each unit, expected over the order of equal scores."""
        return RANKED[self.name](placement, self.cutoff)
