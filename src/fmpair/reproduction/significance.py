"""One model against the baseline of its table: two means and a p-value."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from fmpair.report.number import figure, p_claim
from fmpair.reproduction.paper import RECALL
from fmpair.reproduction.summary import Summary

LEVEL = 0.05


@dataclass(frozen=True)
class Difference:
    """Means of Recall@10 of a model and of the baseline; p: of the paired test, after Holm."""

    other: float
    base: float
    p: float | None

    @property
    def decided(self) -> bool:
        return self.p is not None and self.p < LEVEL

    @property
    def other_better(self) -> bool:
        """Whether the model is significantly better than the baseline."""
        return self.decided and self.other > self.base

    @property
    def base_better(self) -> bool:
        return self.decided and self.base > self.other


def difference(found: Summary | None, model: str, label: str | None = None) -> Difference | None:
    """The model and its table's baseline under a protocol; None where it was not run."""
    row = None if found is None else found.row(model, RECALL, label)
    if found is None or row is None or row["baseline"] is None:
        return None
    base = found.row(row["baseline"], RECALL, label)
    return None if base is None else Difference(row["mean"], base["mean"], row["p"])


def told(one: Difference) -> str:
    """`.2237 against .2266 (p < .001)`: the model, the baseline, and how sure."""
    return f"{figure(one.other)} against {figure(one.base)} ({p_claim(one.p)})"


def factor(found: Summary, model: str, other: str) -> float:
    """How many times as long the one's epochs take as the other's."""
    times = found.epoch_seconds().group_by("model").agg(pl.col("seconds").mean())
    seconds = dict(times.rows())
    return seconds[model] / seconds[other]
