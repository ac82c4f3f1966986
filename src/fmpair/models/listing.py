"""Ranked lists as frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fmpair.arrays import Rows, empty_rows, starts
from fmpair.errors import UnknownError
from fmpair.models.option import whole
from fmpair.models.query import ids_of, known_rows

if TYPE_CHECKING:
    from fmpair.models.query import Queries
    from fmpair.models.recommender import Recommender


def recommended(
    model: Recommender,
    queries: Queries,
    n: int,
    exclude_seen: bool,
    candidates: Sequence[Any] | None,
    exclude: Sequence[Any] | None,
) -> pl.DataFrame:
    """(user, context..., item, score, rank): up to n rows a query, best first."""
    from fmpair.engine.ranking import top

    whole("n", n, 1)
    chosen = _chosen(model, candidates, exclude)
    hidden = _hidden(model, queries.user, chosen) if exclude_seen else empty_rows(len(queries.user))
    best, score, filled = top(
        queries.vectors, model.item_vectors[chosen], model.item_constants[chosen], hidden, n
    )
    return _frame(model, queries, chosen, best, score, filled)


def _chosen(
    model: Recommender, candidates: Sequence[Any] | None, exclude: Sequence[Any] | None
) -> np.ndarray:
    """The item numbers that may be listed, ascending."""
    allowed = np.ones(len(model.space.items), bool)
    if candidates is not None:
        allowed[:] = False
        allowed[_item_numbers(model, candidates)] = True
    if exclude is not None:
        allowed[_item_numbers(model, exclude)] = False
    return np.flatnonzero(allowed)


def _item_numbers(model: Recommender, items: Sequence[Any]) -> np.ndarray:
    ids = ids_of(items)
    numbers = model.space.items.numbers(ids)
    if (numbers < 0).any():
        model.item_number(ids[int(np.argmax(numbers < 0))])
    return numbers


def _hidden(model: Recommender, user: np.ndarray, chosen: np.ndarray) -> Rows:
    """Per query the user's seen items, as places in `chosen`."""
    seen = known_rows(model.seen, user)
    if len(chosen) == len(model.space.items):
        return seen
    place = np.full(len(model.space.items), -1, np.int32)
    place[chosen] = np.arange(len(chosen))
    at = place[seen.column]
    kept = at >= 0
    lengths = np.bincount(seen.owner[kept], minlength=len(user))
    return Rows(starts(lengths), at[kept], seen.value[kept])


def _frame(
    model: Recommender, queries: Queries, chosen: np.ndarray, best: np.ndarray,
    score: np.ndarray, filled: np.ndarray,
) -> pl.DataFrame:  # fmt: skip
    filled_places = np.arange(best.shape[1]) < filled[:, None]
    owner, place = np.nonzero(filled_places)
    items = chosen[best[filled_places]] if len(chosen) else np.zeros(0, np.int64)
    lists = pl.DataFrame(
        {"item": model.space.items.take(items), "score": score[filled_places],
         "rank": (place + 1).astype(np.int64)}
    )  # fmt: skip
    # a context may have the name of a column of ours
    return queries.shown.drop(lists.columns, strict=False)[owner].hstack(lists)


def recommended_users(
    model: Recommender, queries: Queries, item: int, n: int, exclude_seen: bool
) -> pl.DataFrame:
    """(user, context..., score, rank): users by how far the item stands above their average item.

    A query's own terms cancel in every ranking of items and are not learned, so raw scores of
    different users cannot be compared; the distance from a user's mean score can.
    """
    whole("n", n, 1)
    if not len(queries.user):
        raise UnknownError("the model knows no users")
    apart = model.item_vectors[item] - model.item_vectors.mean(axis=0)
    score = queries.vectors @ apart
    score = score + (model.item_constants[item] - model.item_constants.mean())
    allowed = np.ones(len(score), bool)
    if exclude_seen:
        owner = np.repeat(np.arange(model.seen.size), np.diff(model.seen.start))
        allowed[owner[model.seen.column == item]] = False
    order = np.flatnonzero(allowed)[np.argsort(-score[allowed], kind="stable")][:n]
    ranked = pl.DataFrame({"score": score[order], "rank": np.arange(1, len(order) + 1)})
    return queries.shown.drop(ranked.columns, strict=False)[order].hstack(ranked)
