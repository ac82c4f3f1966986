"""Ranking metrics by name: `ndcg@10` is a formula and a cut-off.

Below, r_1 < r_2 < ... are the ranks (1 is best) of the relevant items of a list, R is the number of
relevant items, including those missing from the list, and sums run over r <= k. Tied items are in
random order: every metric is its exact expected value over that order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fmpair.errors import OptionError, unknown

__all__ = ["Metric", "Placement"]

RankValue = Callable[[np.ndarray], np.ndarray]


class TiedBlocks(NamedTuple):
    """Runs of equal scores that contain relevant items, by unit, best first; int64 [blocks] each.

    above: items that score higher; size: items in the block; relevant: relevant items in the
    block; before: relevant items that score higher.
    """

    unit: np.ndarray
    above: np.ndarray
    size: np.ndarray
    relevant: np.ndarray
    before: np.ndarray


@dataclass(frozen=True, eq=False)
class Placement:
    """Positions of the relevant items; those of unit u are entries start[u]:start[u+1].

    start: int64 [units + 1]. above: int64 [entries], items of the list that score higher.
    level: int64 [entries], items that score the same, itself included; 0 if it is not listed.
    gain: float64 [entries], relevance, 1 unless graded. listed: int64 [units], list lengths.
    """

    start: np.ndarray
    above: np.ndarray
    level: np.ndarray
    gain: np.ndarray
    listed: np.ndarray

    @property
    def units(self) -> int:
        return len(self.listed)

    @cached_property
    def owner(self) -> np.ndarray:
        """int64 [entries]: the unit of each relevant item."""
        return np.repeat(np.arange(self.units), self.relevant)

    @property
    def relevant(self) -> np.ndarray:
        """int64 [units]: number of relevant items, listed or not."""
        return np.diff(self.start)

    @cached_property
    def blocks(self) -> TiedBlocks:
        entry = np.flatnonzero(self.level > 0)
        entry = entry[np.lexsort((self.above[entry], self.owner[entry]))]
        unit, above = self.owner[entry], self.above[entry]
        begins = (np.diff(unit, prepend=-1) != 0) | (np.diff(above, prepend=-1) != 0)
        first = np.flatnonzero(begins)
        relevant = np.diff(np.append(first, len(entry)))
        before = first - np.searchsorted(unit, unit[first])
        return TiedBlocks(unit[first], above[first], self.level[entry[first]], relevant, before)

    def summed(self, value: np.ndarray) -> np.ndarray:
        """Sum a value per relevant item by unit: float64 [units]."""
        return np.bincount(self.owner, weights=value, minlength=self.units)


def constant(rank: np.ndarray) -> np.ndarray:
    return np.ones_like(rank, np.float64)


def reciprocal(rank: np.ndarray) -> np.ndarray:
    return 1 / rank


def discount(rank: np.ndarray) -> np.ndarray:
    return 1 / np.log2(rank + 1)


def hit(placement: Placement, k: int) -> np.ndarray:
    """hit@k = 1 if r_1 <= k, else 0."""
    return _first(placement, k, constant)


def mrr(placement: Placement, k: int) -> np.ndarray:
    """mrr@k = 1 / r_1 if r_1 <= k, else 0."""
    return _first(placement, k, reciprocal)


def precision(placement: Placement, k: int) -> np.ndarray:
    """precision@k = (number of r <= k) / k; also for lists shorter than k."""
    return placement.summed(expected(placement, cumulative(constant, k))) / k


def recall(placement: Placement, k: int) -> np.ndarray:
    """recall@k = (number of r <= k) / R."""
    return placement.summed(expected(placement, cumulative(constant, k))) / placement.relevant


def ndcg(placement: Placement, k: int) -> np.ndarray:
    """ndcg@k = DCG / ideal DCG, DCG = sum of g / log2(r + 1) with the gain g itself (linear)."""
    return _ndcg(placement, k, placement.gain)


def ndcg_exp(placement: Placement, k: int) -> np.ndarray:
    """ndcg_exp@k = DCG / ideal DCG, DCG = sum of (2^g - 1) / log2(r + 1) (exponential gain)."""
    return _ndcg(placement, k, np.exp2(placement.gain) - 1)


def average_precision(placement: Placement, k: int) -> np.ndarray:
    """map@k = (sum over r_i <= k of i / r_i) / min(k, R)."""
    return _precisions(placement, k) / np.minimum(k, placement.relevant)


def average_precision_all(placement: Placement, k: int) -> np.ndarray:
    """map_all@k = (sum over r_i <= k of i / r_i) / R."""
    return _precisions(placement, k) / placement.relevant


def auc(placement: Placement, _: int = 0) -> np.ndarray:
    """auc = share of pairs (relevant, not relevant) in the right order, ties counting half.

    A relevant item missing from the list loses all its pairs. Without irrelevant items every listed
    relevant item counts 1.
    """
    blocks, units = placement.blocks, placement.units
    listed = np.bincount(blocks.unit, weights=blocks.relevant, minlength=units)
    others = (placement.listed - listed)[blocks.unit]
    higher = blocks.above - blocks.before
    level = blocks.size - blocks.relevant
    won = np.where(others > 0, (others - higher - level / 2) / np.maximum(others, 1), 1.0)
    return np.bincount(blocks.unit, weights=won * blocks.relevant, minlength=units) / (
        placement.relevant
    )


def cumulative(rank_value: RankValue, k: int) -> np.ndarray:
    """Return float64 [k + 1]: the summed values of ranks 1..r, for r from 0 to k."""
    return np.concatenate([[0.0], np.cumsum(rank_value(np.arange(1, k + 1)))])


def expected(placement: Placement, total: np.ndarray) -> np.ndarray:
    """Return float64 [entries]: mean value of an item's possible ranks; 0 if not listed."""
    last = len(total) - 1
    lowest = np.minimum(placement.above + placement.level, last)
    highest = np.minimum(placement.above, last)
    return (total[lowest] - total[highest]) / np.maximum(placement.level, 1)


def _ndcg(placement: Placement, k: int, gain: np.ndarray) -> np.ndarray:
    total = cumulative(discount, k)
    order = np.lexsort((-gain, placement.owner))
    position = np.arange(len(gain)) - placement.start[placement.owner]
    weight = np.append(np.diff(total), 0.0)[np.minimum(position, k)]
    best = placement.summed(gain[order] * weight)  # order keeps each unit's entries together
    reached = placement.summed(gain * expected(placement, total))
    return reached / np.where(best > 0, best, 1)


def _first(placement: Placement, k: int, rank_value: RankValue) -> np.ndarray:
    """Expected value of the rank of the first relevant item, which lies in the first block.

    With c relevant among m tied items, the first of them is at position j, given none before,
    with probability c / (m - j + 1).
    """
    blocks = placement.blocks
    first = np.flatnonzero(np.diff(blocks.unit, prepend=-1))
    first = first[blocks.above[first] < k]
    above, size, relevant = (part[first] for part in (blocks.above, blocks.size, blocks.relevant))
    value, none_yet = np.zeros(len(first)), np.ones(len(first))
    for position in range(1, k + 1):
        reachable = (above + position <= k) & (position <= size) & (none_yet > 0)
        if not reachable.any():
            break
        now = np.where(reachable, relevant / np.maximum(size - position + 1, 1), 0.0)
        value += none_yet * now * rank_value(above + position)
        none_yet *= 1 - np.minimum(now, 1)
    out = np.zeros(placement.units)
    out[blocks.unit[first]] = value
    return out


def _precisions(placement: Placement, k: int) -> np.ndarray:
    """Expected sum over r_i <= k of i / r_i.

    In a block of m items with c relevant, below a items of which b are relevant, position j holds
    a relevant item with probability c / m; (j - 1)(c - 1) / (m - 1) more are expected before it.
    """
    _, above, size, relevant, before = blocks = placement.blocks
    harmonic = cumulative(reciprocal, k)
    last = np.minimum(above + size, k)
    positions = np.maximum(last - above, 0)
    inverse = harmonic[last] - harmonic[np.minimum(above, k)]  # sum of 1 / (a + j)
    earlier = positions - (above + 1) * inverse  # sum of (j - 1) / (a + j)
    more = (relevant - 1) / np.maximum(size - 1, 1)
    value = relevant / size * ((1 + before) * inverse + more * earlier)
    return np.bincount(blocks.unit, weights=value, minlength=placement.units)


RANKED: dict[str, Callable[[Placement, int], np.ndarray]] = {
    "hit": hit,
    "precision": precision,
    "recall": recall,
    "mrr": mrr,
    "ndcg": ndcg,
    "ndcg_exp": ndcg_exp,
    "map": average_precision,
    "map_all": average_precision_all,
    "auc": auc,
}
# Value of a rank in a list with one relevant item.
ALONE: dict[str, RankValue] = {
    "hit": constant,
    "recall": constant,
    "precision": constant,
    "mrr": reciprocal,
    "map": reciprocal,
    "map_all": reciprocal,
    "ndcg": discount,
    "ndcg_exp": discount,
}
ERRORS = ("rmse", "mae")  # on predicted ratings
LISTS = ("coverage", "gini", "novelty", "popularity", "diversity")  # on the recommended lists
UNCUT = ("auc", *ERRORS)
NAMES = (*RANKED, *ERRORS, *LISTS)
DIGITS = 7  # of a cut-off: formulas build a table of that length


@dataclass(frozen=True)
class Metric:
    """A formula and its cut-off rank; 0 if the formula has none."""

    name: str
    cutoff: int

    @classmethod
    def parse(cls, text: str) -> Metric:
        """Parse a name such as `ndcg@10`."""
        name, at, cutoff = text.partition("@")
        if name not in NAMES:
            raise OptionError(unknown("metric", name, NAMES))
        if name in UNCUT:
            if at:
                raise OptionError(f"metric {text!r} takes no cut-off: write {name}")
            return cls(name, 0)
        if len(cutoff) > DIGITS:
            raise OptionError(f"a cut-off has at most {DIGITS} digits, as in {name}@10")
        if not cutoff.isdecimal() or int(cutoff) < 1:
            raise OptionError(f"metric {text!r} needs a cut-off, such as {name}@10")
        return cls(name, int(cutoff))

    def __str__(self) -> str:
        return f"{self.name}@{self.cutoff}" if self.cutoff else self.name

    def worth(self, rank: np.ndarray) -> np.ndarray:
        """Return the value of a rank in a list with one relevant item; 0 beyond the cut-off."""
        if self.name not in ALONE:
            raise OptionError(f"{self} needs more than one rank: use one of {', '.join(ALONE)}")
        value = (rank <= self.cutoff) * ALONE[self.name](rank)
        return value / self.cutoff if self.name == "precision" else value

    def values(self, rank: np.ndarray) -> np.ndarray:
        """Return float64 [lists]: the value of each list from its only relevant item's rank."""
        return self.worth(np.asarray(rank, np.float64))

    def of(self, placement: Placement) -> np.ndarray:
        """Return float64 [units]: the value of each unit, expected over the order of ties."""
        return RANKED[self.name](placement, self.cutoff)
