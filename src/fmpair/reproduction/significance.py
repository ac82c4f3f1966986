"""One model against the baseline of its table: two means, and what the test says of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import polars as pl

from fmpair.report.number import figure, p_claim, percent
from fmpair.reproduction.paper import RECALL
from fmpair.reproduction.summary import Summary

LEVEL = 0.05
EFFECT = 0.01  # the least difference, as a share of the baseline, that counts as one
SEEDS = 6  # the fewest of either model that may decide

Outcome = Literal["better", "worse", "level", "undecided", "the same model"]


@dataclass(frozen=True)
class Difference:
    """Means of Recall@10 of a model and of the baseline; p: over users and fits, after Holm.

    level: shown to be within a hundredth of each other. detectable: the least difference that would
    have shown. seeds: of the model that has fewer.
    """

    other: float
    base: float
    p: float | None
    level: bool = False
    detectable: float | None = None
    seeds: int = 1

    @property
    def relative(self) -> float:
        return (self.other - self.base) / self.base if self.base else 0.0

    @property
    def other_better(self) -> bool:
        """Whether the model is better than the baseline, significantly and by enough."""
        return self._apart and self.relative >= EFFECT

    @property
    def base_better(self) -> bool:
        return self._apart and -self.relative >= EFFECT

    @property
    def _apart(self) -> bool:
        return self.p is not None and self.p < LEVEL

    @property
    def outcome(self) -> Outcome:
        """Of the model beside the baseline, by the one rule of all claims."""
        if self.other == self.base and self.p in (None, 1.0):  # to the last digit
            return "the same model"
        if self.other_better:
            return "better"
        if self.base_better:
            return "worse"
        # A difference that is certain and smaller than what counts is none either.
        return "level" if self.level or self._apart else "undecided"


def difference(found: Summary | None, model: str, label: str | None = None) -> Difference | None:
    """The model and its table's baseline under a protocol; None where it was not run."""
    row = None if found is None else found.row(model, RECALL, label)
    if found is None or row is None or row["baseline"] is None:
        return None
    base = found.row(row["baseline"], RECALL, label)
    if base is None:
        return None
    folds = found.tables[label or next(iter(found.tables))].folds
    seeds = min(row["repeats"], base["repeats"]) // max(folds, 1)
    same, detectable = bool(row.get("same")), row.get("detectable")
    return Difference(row["mean"], base["mean"], row["p"], same, detectable, seeds)


def told(one: Difference) -> str:
    """`.2237 against .2266 (-1.3 %, p < .001): worse`: the model, the baseline, and how sure."""
    if one.outcome == "the same model":
        return f"{figure(one.other)}, the same model"
    sign = "+" if one.relative > 0 else ""
    least = one.detectable
    unseen = f", detectable {percent(least / one.base)}" if least is not None and one.base else ""
    unseen = unseen if one.outcome == "undecided" else ""
    numbers = f"{figure(one.other)} against {figure(one.base)}"
    return f"{numbers} ({sign}{percent(one.relative)}, {p_claim(one.p)}{unseen}): {one.outcome}"


def factor(found: Summary, model: str, other: str) -> float:
    """How many times as long the one's epochs take as the other's."""
    times = found.epoch_seconds().group_by("model").agg(pl.col("seconds").mean())
    seconds = dict(times.rows())
    return seconds[model] / seconds[other]
