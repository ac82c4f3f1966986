"""Metrics by name: `ndcg@10` is a formula and a cut-off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fmpair.errors import OptionError, unknown

__all__ = ["Metric", "Placement"]


# The ranks of the relevant items: all that a ranking metric needs to know of a list.


class Blocks(NamedTuple):
    """Runs of equal scores that hold relevant items, by unit, the best first; int64 [blocks] each.

    above: how many stand higher; size: how many stand level; relevant: how many of these are
    relevant; before: how many of those higher are relevant.
    """

    unit: np.ndarray
    above: np.ndarray
    size: np.ndarray
    relevant: np.ndarray
    before: np.ndarray


@dataclass(frozen=True, eq=False)
class Placement:
    """The places of the relevant items; those of unit u are entries start[u]:start[u+1].

    start: int64 [units + 1]. above: int64 [entries], how many of the list score higher.
    level: int64 [entries], how many score the same, the item included; 0: it is not in the list.
    gain: float64 [entries], how relevant, 1 unless graded. listed: int64 [units], list lengths.
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
        """int64 [units]: the relevant items of each unit, in the list or not."""
        return np.diff(self.start)

    @cached_property
    def blocks(self) -> Blocks:
        entry = np.flatnonzero(self.level > 0)
        entry = entry[np.lexsort((self.above[entry], self.owner[entry]))]
        unit, above = self.owner[entry], self.above[entry]
        begins = (np.diff(unit, prepend=-1) != 0) | (np.diff(above, prepend=-1) != 0)
        first = np.flatnonzero(begins)
        relevant = np.diff(np.append(first, len(entry)))
        before = first - np.searchsorted(unit, unit[first])
        return Blocks(unit[first], above[first], self.level[entry[first]], relevant, before)

    def summed(self, value: np.ndarray) -> np.ndarray:
        """float64 [units]: a value per relevant item, added up by unit."""
        return np.bincount(self.owner, weights=value, minlength=self.units)


# Ranking metrics over lists with ties: each the expected value under random order of the tied.
#
# Throughout, r_1 < r_2 < ... are the ranks (1 is best) of the relevant items of a list, R is the
# number of relevant items, those missing from the list included, and sums run over r <= k.
# Where scores are equal the rank of an item is uniform over the places of its block; the expected
# values below are exact, not simulated.


Worth = Callable[[np.ndarray], np.ndarray]


def one(rank: np.ndarray) -> np.ndarray:
    return np.ones_like(rank, np.float64)


def reciprocal(rank: np.ndarray) -> np.ndarray:
    return 1 / rank


def discount(rank: np.ndarray) -> np.ndarray:
    return 1 / np.log2(rank + 1)


def hit(placement: Placement, k: int) -> np.ndarray:
    """hit@k = 1 if r_1 <= k, else 0."""
    return _first(placement, k, one)


def mrr(placement: Placement, k: int) -> np.ndarray:
    """mrr@k = 1 / r_1 if r_1 <= k, else 0."""
    return _first(placement, k, reciprocal)


def precision(placement: Placement, k: int) -> np.ndarray:
    """precision@k = (number of r <= k) / k; short lists divide by k too."""
    return placement.summed(expected(placement, cumulative(one, k))) / k


def recall(placement: Placement, k: int) -> np.ndarray:
    """recall@k = (number of r <= k) / R."""
    return placement.summed(expected(placement, cumulative(one, k))) / placement.relevant


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

    The relevant items that are not in the list lose all their pairs; a list of nothing but
    relevant items has lost none.
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


def cumulative(worth: Worth, k: int) -> np.ndarray:
    """float64 [k + 1]: the sum of the values of the ranks 1..r, for r from 0 to k."""
    return np.concatenate([[0.0], np.cumsum(worth(np.arange(1, k + 1)))])


def expected(placement: Placement, total: np.ndarray) -> np.ndarray:
    """float64 [entries]: mean value of the ranks a relevant item may have; 0 if not listed."""
    last = len(total) - 1
    lowest = np.minimum(placement.above + placement.level, last)
    highest = np.minimum(placement.above, last)
    return (total[lowest] - total[highest]) / np.maximum(placement.level, 1)


def _ndcg(placement: Placement, k: int, gain: np.ndarray) -> np.ndarray:
    total = cumulative(discount, k)
    order = np.lexsort((-gain, placement.owner))
    place = np.arange(len(gain)) - placement.start[placement.owner]
    weight = np.append(np.diff(total), 0.0)[np.minimum(place, k)]
    best = placement.summed(gain[order] * weight)  # order keeps each unit's entries together
    reached = placement.summed(gain * expected(placement, total))
    return reached / np.where(best > 0, best, 1)


def _first(placement: Placement, k: int, worth: Worth) -> np.ndarray:
    """Expected value of the rank of the first relevant item, which its first block decides.

    With c relevant among m tied, the chance that the first of them is at place j, none having
    come before, is c / (m - j + 1).
    """
    blocks = placement.blocks
    first = np.flatnonzero(np.diff(blocks.unit, prepend=-1))
    first = first[blocks.above[first] < k]
    above, size, relevant = (part[first] for part in (blocks.above, blocks.size, blocks.relevant))
    value, none_yet = np.zeros(len(first)), np.ones(len(first))
    for place in range(1, k + 1):
        open_ = (above + place <= k) & (place <= size) & (none_yet > 0)
        if not open_.any():
            break
        now = np.where(open_, relevant / np.maximum(size - place + 1, 1), 0.0)
        value += none_yet * now * worth(above + place)
        none_yet *= 1 - np.minimum(now, 1)
    out = np.zeros(placement.units)
    out[blocks.unit[first]] = value
    return out


def _precisions(placement: Placement, k: int) -> np.ndarray:
    """Expected sum over r_i <= k of i / r_i.

    In a block of m with c relevant, b relevant above it and a of all, place j holds a relevant
    item with chance c / m, and (j - 1)(c - 1) / (m - 1) more are then expected before it.
    """
    _, above, size, relevant, before = blocks = placement.blocks
    harmonic = cumulative(reciprocal, k)
    last = np.minimum(above + size, k)
    places = np.maximum(last - above, 0)
    inverse = harmonic[last] - harmonic[np.minimum(above, k)]  # sum of 1 / (a + j)
    earlier = places - (above + 1) * inverse  # sum of (j - 1) / (a + j)
    more = (relevant - 1) / np.maximum(size - 1, 1)
    value = relevant / size * ((1 + before) * inverse + more * earlier)
    return np.bincount(blocks.unit, weights=value, minlength=placement.units)


# A metric by name: a formula and a cut-off.


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
DIGITS = 7  # of a cut-off: formulas have a table of that length


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
        if len(cutoff) > DIGITS:
            raise OptionError(f"a cut-off has at most {DIGITS} digits, as in {name}@10")
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
