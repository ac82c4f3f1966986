"""Models of vectors: score(query, item) = query_vector . item_vector + item_constant."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fmpair.arrays import Rows, join_rows, tally
from fmpair.data.frame import to_polars
from fmpair.device import ranking_device
from fmpair.engine.contract import Parameters, Triples
from fmpair.engine.item_side import query_vectors
from fmpair.errors import OptionError
from fmpair.features import FeatureSpace
from fmpair.fitted.history import LiveState, Recent
from fmpair.fitted.id_lookup import IdLookup
from fmpair.fitted.item_arrays import ItemSide
from fmpair.fitted.large_catalogue import best_of_many, best_under_rules, is_large
from fmpair.fitted.model import FittedModel
from fmpair.fitted.query_encoder import QueryEncoder, known_rows
from fmpair.fitted.question import Queries
from fmpair.fitted.top_items import Best, Ruled, ScoreRows, cosines
from fmpair.fitted.visitor import UserSide, Visitors, history_moves, mean_user, visitors

if TYPE_CHECKING:
    from fmpair.ranking.compressed import Packed

QUERIES_AT_ONCE = 100_000  # bounds the memory of lists for all users


@dataclass(frozen=True)
class FactorModel(FittedModel):
    """The learned tables, and the vectors and constants that follow from them.

    parameters: the learned tables; user_rows, item_rows: the attributes of known users and items;
    recent: per user the latest events, if the model uses them. `FittedModel` describes the rest.
    id_lookup, item_side and user_side are made from the other fields. A copy shares them with its
    original if it has the same fields.
    """

    space: FeatureSpace
    parameters: Parameters
    user_rows: Rows
    item_rows: Rows
    seen: Rows
    recipe: Any
    frame_kind: str = "polars"
    damping: float = 0.0
    recent: Recent | None = None
    live: LiveState | None = None
    id_lookup: IdLookup = field(default=cast(IdLookup, None), repr=False, compare=False)
    item_side: ItemSide = field(default=cast(ItemSide, None), repr=False, compare=False)
    user_side: UserSide = field(default=cast(UserSide, None), repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.id_lookup is None or self.id_lookup.space is not self.space:
            object.__setattr__(self, "id_lookup", IdLookup(self.space))
        parts = self.space, self.parameters, self.item_rows
        if self.item_side is None or not self.item_side.fits(*parts):
            object.__setattr__(self, "item_side", ItemSide(*parts))
        side, users = self.user_side, self.parameters.users
        if side is None or side.users is not users or side.seen is not self.seen:
            object.__setattr__(self, "user_side", UserSide(users, self.seen))

    # Items

    @property
    def triples(self) -> Triples | None:
        """The terms of order three, None for a model of order two."""
        return self.item_side.triples

    @property
    def item_vectors(self) -> np.ndarray:
        """float32 [items, length]: the item's vector plus those of its attributes.

        With order three it is longer than `factors`, as the vectors of queries are.
        """
        return self.item_side.vectors

    @property
    def learned_constants(self) -> np.ndarray:
        """float32 [items]: bias, the attributes' biases, and the pairs within the item side."""
        return self.item_side.constants

    @property
    def item_constants(self) -> np.ndarray:
        """float32 [items]: the constants less the popularity penalty."""
        return self._damped_constants if self.damping else self.item_side.constants

    @cached_property
    def _damped_constants(self) -> np.ndarray:
        return self.learned_constants - self.popularity_penalty

    @cached_property
    def item_counts(self) -> np.ndarray:
        """float64 [items]: the number of events of each item."""
        return tally(self.seen.column, len(self.space.items), self.seen.value)

    @cached_property
    def popularity_penalty(self) -> np.ndarray:
        """float32 [items]: what damping subtracts from the constants."""
        if not self.damping:
            return np.zeros_like(self.learned_constants)
        products = self.item_vectors @ mean_user(self.user_vectors, self.seen)
        part = popularity_part(products + self.learned_constants, self.item_counts)
        return np.float32(self.damping) * part

    @property
    def item_matrix(self) -> np.ndarray:
        """float32 [factors + 1, items]: vectors and constants as ranking takes them."""
        return self._damped_matrix if self.damping else self.item_side.matrix

    @cached_property
    def _damped_matrix(self) -> np.ndarray:
        from fmpair.ranking.top import item_matrix

        return item_matrix(self.item_vectors, self.item_constants)

    @cached_property
    def packed(self) -> Packed:
        """Vectors and constants for lists of a large catalogue, see `large_catalogue`."""
        from fmpair.ranking.compressed import with_constants

        packed = self.item_side.packed
        return with_constants(packed, self.item_constants) if self.damping else packed

    # Queries

    @cached_property
    def encoder(self) -> QueryEncoder:
        """The encoder of questions as queries."""
        past = None if self.recent is None else self.item_side.past
        return QueryEncoder(
            self.space, self.id_lookup, self.user_rows, self.recent, past, self.live
        )

    @property
    def mean_user(self) -> np.ndarray:
        """float32 [factors]: the mean vector of users with events, used for unknown users."""
        return self.user_side.mean

    @property
    def user_vectors(self) -> np.ndarray:
        """float32 [users, length]: the user's vector plus those of attributes and history."""
        rows, past = self.user_rows, self.encoder.past_rows(np.arange(len(self.parameters.users)))
        rows = rows if past is None else join_rows([rows, past])
        return self._vectors_of(self.parameters.users, rows)

    def query_vectors(self, queries: Any, *, unknown: str = "features") -> np.ndarray:
        """Return float32 [queries, length] of a frame with user and context columns."""
        return self.vectors(self.queries(to_polars(queries), unknown))

    def vectors(self, queries: Queries) -> np.ndarray:
        """Return float32 [queries, length]: the user's vector plus those of all query features."""
        vectors = self._vectors_of(self._table_rows(queries.user), queries.rows)
        if queries.history is None or self.space.history is not None:
            return vectors
        offset, events = self._offsets(queries.user)
        return vectors + history_moves(
            self.visitors, self.item_vectors, queries.history, offset, events
        )

    def _table_rows(self, user: np.ndarray) -> np.ndarray:
        """Return the users' rows of the table, the mean user's for -1. Do not modify them."""
        table = self.parameters.users
        if len(user) == 1:  # without a copy, for single requests
            number = int(user[0])
            return self.mean_user[None] if number < 0 else table[number : number + 1]
        rows, unknown = table[np.maximum(user, 0)], user < 0
        if unknown.any():
            rows[unknown] = self.mean_user
        return rows

    def _vectors_of(self, users: np.ndarray, rows: Rows) -> np.ndarray:
        """Return float32 [n, length] of users' table rows [n, columns] and of query features."""
        return query_vectors(users, rows, self.parameters.query, self.triples)

    @cached_property
    def visitors(self) -> Visitors:
        """The arrays that the vectors of visitors are computed from."""
        return visitors(self.item_vectors, self.learned_constants, self.user_vectors, self.seen)

    def item_moves(self, user: int, items: np.ndarray) -> np.ndarray:
        """Return float32 [items, length]: what each item of one history adds to the query vector.

        user: -1 for a visitor. The items share a divisor, which counts all of them.
        """
        single = Rows(np.arange(len(items) + 1), items, np.ones(len(items), np.float32))
        offset, events = self._offsets(np.full(len(items), user, np.int32))
        events = np.zeros(len(items)) if events is None else events
        return history_moves(
            self.visitors, self.item_vectors, single, offset, events + len(items) - 1
        )

    def _offsets(self, user: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return the users' vectors minus the mean [queries, length] and their numbers of events.

        (None, None) if all are visitors.
        """
        if (user < 0).all():
            return None, None
        vectors = self._vectors_of(self.parameters.users[user], known_rows(self.user_rows, user))
        offset = vectors - self.visitors.mean
        offset[user < 0] = 0
        start, number = self.seen.start, np.maximum(user, 0)
        return offset, np.where(user < 0, 0, start[number + 1] - start[number])

    # Rankings

    @property
    def at_once(self) -> int:
        return QUERIES_AT_ONCE

    @property
    def ranks_apart(self) -> bool:
        # the vectors of order three and large catalogues are computed for all queries at once
        return self.triples is None and not is_large(self.item_vectors, 1)

    def best(
        self,
        queries: Queries,
        chosen: np.ndarray | None,
        hidden: Rows,
        n: int,
        interactive: bool = False,
        apart: bool = False,
    ) -> Best:
        from fmpair.ranking.top import MIN_ROWS, top

        device = ranking_device(self.recipe, len(queries.user))
        if device is None and is_large(self.item_vectors, len(queries.user)):
            threads = self.item_side.threads if interactive else None
            return best_of_many(self, self.vectors(queries), chosen, hidden, n, threads)
        items = self.item_matrix
        if chosen is not None:
            items = np.take(items, chosen, axis=1)
        # one thread for few queries: their product uses the threads of the BLAS
        threads = 1 if apart or (interactive and len(queries.user) <= MIN_ROWS) else None
        return top(self.vectors(queries), items, hidden, n, threads, device, apart)

    def best_ruled(self, question: Ruled, n: int, threads: int | None) -> Best | None:
        if not is_large(self.item_vectors, len(question.queries.user)):
            return None
        threads = self.item_side.threads if threads == 1 else threads  # 1: for a single request
        return best_under_rules(self, self.vectors(question.queries), question, n, threads)

    def score_rows(self, queries: Queries) -> ScoreRows:
        vectors, items = self.vectors(queries), self.item_matrix

        def rows(part: slice) -> np.ndarray:
            full = np.ones((len(vectors[part]), vectors.shape[1] + 1), np.float32)
            full[:, :-1] = vectors[part]
            return full @ items

        return rows

    def nearness(self, item: int, items: np.ndarray) -> np.ndarray:
        """Return the cosines of an item's vector with others: float32 [items]."""
        _check_vectors(self.item_vectors)
        vectors, norms = self.item_vectors, self.item_side.norms
        return vectors[items] @ vectors[item] / np.maximum(norms[items] * norms[item], 1e-12)

    def pair_scores(self, queries: Queries, items: np.ndarray) -> np.ndarray:
        score = (self.vectors(queries) * self.item_vectors[items]).sum(axis=1)
        return score + self.item_constants[items]

    def item_similarity(self, item: int) -> np.ndarray:
        """Return the cosines of an item's vector with all: float32 [items]."""
        _check_vectors(self.item_vectors)
        return cosines(self.item_vectors, item, self.item_side.norms)

    def user_similarity(self, user: int) -> np.ndarray:
        """Return the cosines of a user's vector, attributes included, with all: float32 [users]."""
        vectors = self.user_vectors
        _check_vectors(vectors)
        return cosines(vectors, user)


def _check_vectors(vectors: np.ndarray) -> None:
    if not vectors.shape[1]:
        raise OptionError("a model without vectors, such as Popularity, has no similarities")


def popularity_part(mean_scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return what popularity adds to the scores: float32 [items], 0 for mean popularity.

    mean_scores: the items' scores for the mean user; counts: their numbers of events, both [items].
    It is the least-squares line of the mean scores over ln(counts), because popularity is in the
    vectors as much as in the biases. An item without events is not on the line: its part is its
    mean score less the average over items with events. Else new items would rank above all others.
    """
    warm = counts > 0
    if not warm.any() or counts[warm].min() == counts[warm].max():
        return np.zeros(len(counts), np.float32)  # all are equally popular
    popularity, score = np.log(counts[warm]), mean_scores[warm].astype(np.float64)
    apart = popularity - popularity.mean()
    slope = apart @ (score - score.mean()) / (apart @ apart)
    if slope <= 0:  # the model does not favour popular items
        return np.zeros(len(counts), np.float32)
    part = mean_scores - score.mean()
    part[warm] = slope * apart
    return part.astype(np.float32)
