"""Ranking metrics over lists with ties: each the expected value under random order of the tied.

Throughout, r_1 < r_2 < ... are the ranks (1 is best) of the relevant items of a list, R is the
number of relevant items, those missing from the list included, and sums run over r <= k.
Where scores are equal the rank of an item is uniform over the places of its block; the expected
values below are exact, not simulated.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fmpair.metrics.placement import Placement

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
