"""Ranked and similar items as arrays and frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from fmpair.arrays import Rows, join_rows, renumbered
from fmpair.checks import whole
from fmpair.data.vocabulary import Vocabulary
from fmpair.fitted.id_lookup import Ids, ids_of
from fmpair.fitted.question import option_items

# Places among the ranked items [queries, n], scores [queries, n], how many there are [queries].
Best = tuple[np.ndarray, np.ndarray, np.ndarray]


def chosen_items(items: Ids, candidates: Any, exclude: Any, strict: bool) -> np.ndarray | None:
    """Return the numbers of the items that may be listed, ascending; None for all items.

    strict: raise for unknown items of candidates and exclude, else ignore them.
    """
    allowed = np.ones(len(items.vocabulary), bool)
    for option, ids, value in (("candidates", candidates, True), ("exclude", exclude, False)):
        if ids is not None:
            numbers = option_items(option, ids_of(ids), items, strict)
            if value:
                allowed[:] = False
            allowed[numbers[numbers >= 0]] = value
    return None if allowed.all() else np.flatnonzero(allowed)


def hidden_places(seen: Rows, history: Rows | None, chosen: np.ndarray | None, items: int) -> Rows:
    """Return per query the seen items and those of the history, as places in `chosen`.

    items: the number of all items.
    """
    if history is not None:
        seen = join_rows([seen, history])
    if chosen is None:
        return seen
    place = np.full(items, -1, np.int32)
    place[chosen] = np.arange(len(chosen))
    return renumbered(seen, place)


def list_frame(
    shown: pl.DataFrame, name: str, items: Vocabulary, chosen: np.ndarray | None, best: Best
) -> pl.DataFrame:
    """Return ranked lists as a frame (the columns of `shown`, item, score, rank).

    shown: one row for each query; name: of the item column.
    """
    places, score, filled = best
    taken = np.arange(places.shape[1]) < filled[:, None]
    owner, place = np.nonzero(taken)
    numbers = places[taken]
    if chosen is not None:
        numbers = chosen[numbers] if len(chosen) else np.zeros(0, np.int64)
    lists = pl.DataFrame(
        {
            name: items.take(numbers),
            "score": score[taken],
            "rank": (place + 1).astype(np.int64),
        }
    )
    if not set(lists.columns).isdisjoint(shown.columns):  # a context may have one of our names
        shown = shown.drop(lists.columns, strict=False)
    return shown[owner].hstack(lists) if shown.width else lists


def cosines(vectors: np.ndarray, number: int, norms: np.ndarray | None = None) -> np.ndarray:
    """Return the cosines of a row with every row, itself included: [rows].

    norms: [rows], the lengths of the vectors, if known.
    """
    norms = np.linalg.norm(vectors, axis=1) if norms is None else norms
    return vectors @ vectors[number] / np.maximum(norms * norms[number], 1e-12)


def strongest(similarity: np.ndarray, number: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers and similarities of the n most similar rows, without the row asked about.

    Ties go to the lower number; NaN comes last.
    """
    whole("n", n, 1)
    distance = -similarity
    near = np.arange(len(distance))
    if n + 1 < len(distance):  # most need not be sorted
        near = np.flatnonzero(~(distance > np.partition(distance, n)[n]))
    order = near[np.argsort(distance[near], kind="stable")]
    order = order[order != number][:n]
    return order, similarity[order]


def similar_frame(
    name: str, vocabulary: Vocabulary, similarity: np.ndarray, number: int, n: int
) -> pl.DataFrame:
    """Return the n ids most similar to one as a frame (name, similarity, rank)."""
    numbers, values = strongest(similarity, number, n)
    return pl.DataFrame(
        {
            name: vocabulary.take(numbers),
            "similarity": values,
            "rank": np.arange(1, len(values) + 1),
        }
    )
