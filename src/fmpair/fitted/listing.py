"""Ranked lists as frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import polars as pl

from fmpair.arrays import Rows, empty_rows, join_rows, renumbered
from fmpair.checks import whole
from fmpair.data.frame import given_back
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import UnknownError
from fmpair.fitted.lookup import ids_of, known_only
from fmpair.fitted.query import Fitted, Queries, known_rows, name_of, queries_of, query_frame

USERS_AT_ONCE = 20_000  # whose lists are held in memory where all are written

Best = tuple[np.ndarray, np.ndarray, np.ndarray]


class Ranking(Fitted, Protocol):
    """A fitted model that can list. at_once: how many queries it answers in one piece."""

    @property
    def seen(self) -> Rows: ...
    @property
    def at_once(self) -> int: ...

    def best(self, queries: Queries, chosen: np.ndarray, hidden: Rows, n: int) -> Best:
        """(place among the chosen items [q, n], score [q, n], how many [q]), best first.

        hidden: per query the places left out.
        """
        ...


class Folded(Ranking, Protocol):
    """One whose scores are products: of vectors(queries) [q, k] and item_vectors [items, k], plus
    item_constants [items].
    """

    @property
    def item_vectors(self) -> np.ndarray: ...
    @property
    def item_constants(self) -> np.ndarray: ...

    def vectors(self, queries: Queries) -> np.ndarray: ...


@dataclass(frozen=True)
class Limits:
    """What may be listed: n items, without those seen, of the candidates, none of exclude.

    strict: candidates and items to exclude that are unknown are refused, else passed over.
    """

    n: int
    exclude_seen: bool = True
    candidates: Sequence[Any] | None = None
    exclude: Sequence[Any] | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        whole("n", self.n, 1)

    def chosen(self, items: Vocabulary) -> np.ndarray:
        """The item numbers that may be listed, ascending."""
        allowed = np.ones(len(items), bool)
        if self.candidates is not None:
            allowed[:] = False
            allowed[self._known("candidates", items)] = True
        if self.exclude is not None:
            allowed[self._known("exclude", items)] = False
        return np.flatnonzero(allowed)

    def _known(self, option: str, items: Vocabulary) -> np.ndarray:
        numbers = known_only(option, ids_of(getattr(self, option)), items, self.strict)
        return numbers[numbers >= 0]


def recommended(
    model: Ranking, frame: pl.DataFrame, limits: Limits, unknown: str, user_features: Any
) -> pl.DataFrame:
    """(the frame's columns, item, score, rank): up to n rows a query, best first."""
    return pl.concat(recommended_parts(model, frame, limits, unknown, user_features))


def recommended_parts(
    model: Ranking, frame: pl.DataFrame, limits: Limits, unknown: str, user_features: Any
) -> Iterator[pl.DataFrame]:
    """The same, as many queries at a time as the model answers at once."""
    chosen = limits.chosen(model.space.items)
    for first in range(0, max(len(frame), 1), model.at_once):
        part = frame[first : first + model.at_once]
        queries = queries_of(model, part, unknown=unknown, user_features=user_features)
        none = empty_rows(len(part))
        hidden = _hidden(model, queries, chosen) if limits.exclude_seen else none
        found = model.best(queries, chosen, hidden, limits.n)
        yield _frame(model, queries, chosen, *found)


def in_parts(
    model: Any, users: Any, n: int, size: int, options: Mapping[str, Any]
) -> Iterator[Any]:
    """What model.recommend gives, for `size` queries at a time."""
    whole("size", size, 1)
    frame = query_frame(model.space, users, None)
    for first in range(0, max(len(frame), 1), size):
        part = model.recommend(frame[first : first + size], n, **options)
        yield given_back(part, users, model.frame_kind)


def _hidden(model: Ranking, queries: Queries, chosen: np.ndarray) -> Rows:
    """Per query the user's seen items and those of the history, as places in `chosen`."""
    seen = known_rows(model.seen, queries.user)
    if queries.history is not None:
        seen = join_rows([seen, queries.history])
    if len(chosen) == len(model.space.items):
        return seen
    place = np.full(len(model.space.items), -1, np.int32)
    place[chosen] = np.arange(len(chosen))
    return renumbered(seen, place)


def _frame(
    model: Ranking,
    queries: Queries,
    chosen: np.ndarray,
    best: np.ndarray,
    score: np.ndarray,
    filled: np.ndarray,
) -> pl.DataFrame:
    filled_places = np.arange(best.shape[1]) < filled[:, None]
    owner, place = np.nonzero(filled_places)
    items = chosen[best[filled_places]] if len(chosen) else np.zeros(0, np.int64)
    lists = pl.DataFrame(
        {
            name_of(model.space, "item"): model.space.items.take(items),
            "score": score[filled_places],
            "rank": (place + 1).astype(np.int64),
        }
    )
    asked = queries.shown
    if not set(lists.columns).isdisjoint(asked.columns):  # a context may have the name of ours
        asked = asked.drop(lists.columns, strict=False)
    return asked[owner].hstack(lists) if asked.width else lists


def recommended_users(
    model: Folded, queries: Queries, item: int, n: int, exclude_seen: bool
) -> pl.DataFrame:
    """(user, context..., score, rank): users by how far the item stands above their average item.

    A query's own terms cancel in every ranking of items and are not learned, so raw scores of
    different users cannot be compared; the distance from a user's mean score can.
    """
    whole("n", n, 1)
    if not len(queries.user):
        raise UnknownError("the model knows no users")
    apart = model.item_vectors[item] - model.item_vectors.mean(axis=0)
    score = model.vectors(queries) @ apart
    score = score + (model.item_constants[item] - model.item_constants.mean())
    allowed = np.ones(len(score), bool)
    if exclude_seen:
        owner = np.repeat(np.arange(model.seen.size), np.diff(model.seen.start))
        allowed[owner[model.seen.column == item]] = False
    order = np.flatnonzero(allowed)[np.argsort(-score[allowed], kind="stable")][:n]
    ranked = pl.DataFrame({"score": score[order], "rank": np.arange(1, len(order) + 1)})
    return queries.shown.drop(ranked.columns, strict=False)[order].hstack(ranked)
