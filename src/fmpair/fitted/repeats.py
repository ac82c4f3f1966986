"""Repeats: what an earlier item of a query gains itself, by the option `repeat` of a history.

The score of item i is q . p + b + repeat * x, where x is the weight of i in the history, 0 for all
other items. Vectors of rare items are short, so the product alone ranks them low even where the
user has just chosen them.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from fmpair.arrays import Rows, add_repeats, group_rows, ordered_rows, renumbered
from fmpair.features import FeatureSpace
from fmpair.features.history_fields import HISTORY
from fmpair.fitted.top_items import Best


def repeats_of(space: FeatureSpace, rows: Rows) -> Rows | None:
    """Return what the items of each query gain: sorted rows over the items, each item once.

    rows: the features of the queries. None if the model has no such gain.
    """
    if space.history is None or not space.history.repeat:
        return None
    first = next(offset for offset, e in space.query.of_role(HISTORY) if e.name == HISTORY)
    item = rows.column - np.int32(first)
    inside = (item >= 0) & (item < len(space.items))
    gain = np.float32(space.history.repeat) * rows.value[inside]
    return add_repeats(group_rows(rows.owner[inside], item[inside], rows.size, gain))


def gain_of(gains: Rows, items: np.ndarray) -> np.ndarray:
    """Return what one item of each query gains: float32 [queries]."""
    out = np.zeros(gains.size, np.float32)
    owner = gains.owner
    same = gains.column == items[owner]
    out[owner[same]] = gains.value[same]
    return out


class HasItems(Protocol):
    """A model of vectors and constants of items."""

    @property
    def item_vectors(self) -> np.ndarray: ...

    @property
    def item_constants(self) -> np.ndarray: ...


def with_gains(
    model: HasItems,
    best: Best,
    vectors: np.ndarray,
    gains: Rows,
    chosen: np.ndarray | None,
    hidden: Rows,
    offset: np.ndarray | None = None,
) -> Best:
    """Return lists of the best items of queries with the gains of their earlier items.

    best: the lists without gains, which are never negative, so every other item of the new lists is
    in them. vectors: of the queries. chosen: the items that may be listed, ascending, None for all;
    lists hold positions in them. hidden: positions to leave out, per query. offset: what rules add.
    """
    gains = _listable(gains, chosen, hidden, len(model.item_constants))
    owner, item = gains.owner, gains.column if chosen is None else chosen[gains.column]
    score = (vectors[owner] * model.item_vectors[item]).sum(axis=1)
    score = score + model.item_constants[item] + gains.value
    if offset is None:
        return _merged(best, owner, gains.column, score)
    score = score + offset[item]
    listed = score > -np.inf
    return _merged(best, owner[listed], gains.column[listed], score[listed])


def _listable(gains: Rows, chosen: np.ndarray | None, hidden: Rows, items: int) -> Rows:
    """Return the gains of items that may be listed, numbered as in lists."""
    if chosen is not None:
        position = np.full(items, -1, np.int32)
        position[chosen] = np.arange(len(chosen))
        gains = renumbered(gains, position)
    kept = ~np.isin(_pairs(gains.owner, gains.column), _pairs(hidden.owner, hidden.column))
    return ordered_rows(gains.owner[kept], gains.column[kept], gains.value[kept], gains.size)


def _merged(best: Best, owner: np.ndarray, item: np.ndarray, score: np.ndarray) -> Best:
    """Return lists with new scores of some items; ties go to the lower number."""
    listed, value, _ = best
    queries, n = listed.shape
    row, place = np.nonzero(listed >= 0)
    kept = ~np.isin(_pairs(row, listed[row, place]), _pairs(owner, item))
    row, place = row[kept], place[kept]
    owner = np.concatenate([row, owner])
    item = np.concatenate([listed[row, place], item])
    score = np.concatenate([value[row, place], score])
    order = np.lexsort((item, -score, owner))
    sizes = np.bincount(owner, minlength=queries)
    rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    order, rank = order[rank < n], rank[rank < n]
    items, scores = np.full_like(listed, -1), np.full_like(value, -np.inf)
    items[owner[order], rank], scores[owner[order], rank] = item[order], score[order]
    return items, scores, np.minimum(sizes, n)


def _pairs(owner: np.ndarray, item: np.ndarray) -> np.ndarray:
    """Return one number per pair of a query and an item: int64."""
    return (owner.astype(np.int64) << 32) | item
