"""What is folded: one vector per query, one vector and one constant per item.

score(query, item) = query_vector . item_vector + item_constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fmpair.arrays import Rows, join_rows, tally
from fmpair.data.frame import to_polars
from fmpair.engine.contract import Meeting, Parameters, Triples
from fmpair.engine.item_side import item_sides, query_vectors
from fmpair.features import FeatureSpace, Pairing, Side
from fmpair.features.history_fields import history_weights
from fmpair.features.space import ITEM, USER, meeting_fields
from fmpair.fitted.id_lookup import Known
from fmpair.fitted.question import Queries, queries_of
from fmpair.fitted.recent_events import NOTHING, Given, Recent, features_before, one_before
from fmpair.fitted.visitor import Visitors, mean_user, moves, visitors

# Damping: how much of what popularity adds to the scores is taken off when items are ranked.


def popular_part(usual: np.ndarray, times: np.ndarray) -> np.ndarray:
    """float32 [items]: what popularity adds to the scores, 0 for an item of mean popularity.

    usual: the items' mean scores over all users; times: how many events each has, both [items].
    It is the straight line through the usual scores over ln(times), by least squares: popularity
    sits in vectors as much as in biases, and where cosines are scored in vectors alone. An item
    without events is on no line: of its score all that users have in common is taken for it,
    or it would rise above everything that anyone ever chose.
    """
    warm = times > 0
    if not warm.any() or times[warm].min() == times[warm].max():
        return np.zeros(len(times), np.float32)  # all are equally popular
    popularity, score = np.log(times[warm]), usual[warm].astype(np.float64)
    apart = popularity - popularity.mean()
    slope = apart @ (score - score.mean()) / (apart @ apart)
    if slope <= 0:  # learned against popular items, which nothing favours then
        return np.zeros(len(times), np.float32)
    part = usual - score.mean()
    part[warm] = slope * apart
    return part.astype(np.float32)


# The terms of order three that a feature space has, as arrays.


def triples_of(space: FeatureSpace) -> Triples | None:
    """Which features meet in threes; None for a machine of order two."""
    if space.pairing is None:
        return None
    query = _meeting(USER, space.query, space.pairing)
    return Triples(space.pairing.factors, query, _meeting(ITEM, space.item, space.pairing))


def _meeting(own: str, side: Side, pairing: Pairing) -> Meeting:
    group, meets = meeting_fields(own, side.encoders, pairing)
    return Meeting(int(group[0]), group[1:][side.field_numbers()], meets)


@dataclass(frozen=True)
class FoldedModel:
    """The tables that were learned, and the arrays that follow from them.

    parameters: the learned tables; user_rows, item_rows: the attributes of known users and items;
    seen: per user the items of the training events. damping: see `Recommender.damped`. recent: per
    user the latest events, where the model goes by what came before.
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

    @cached_property
    def known(self) -> Known:
        """The ids and the context values, found without frames."""
        return Known(self.space)

    @cached_property
    def triples(self) -> Triples | None:
        """The terms of order three, where the model has any."""
        return triples_of(self.space)

    @property
    def user_ids(self) -> np.ndarray:
        """The users' own ids [users]."""
        return self.space.users.ids.to_numpy()

    @cached_property
    def mean_user(self) -> np.ndarray:
        """float32 [factors]: the vector that stands in for a user not known."""
        return mean_user(self.parameters.users, self.seen)

    @cached_property
    def item_ids(self) -> np.ndarray:
        """The items' own ids [items], in the order of the item arrays."""
        return self.space.items.ids.to_numpy()

    @cached_property
    def _item_side(self) -> tuple[np.ndarray, np.ndarray]:
        p, rows = self.parameters, self.item_rows
        return item_sides(p.items, p.item_bias, rows, p.features, p.feature_bias, self.triples)

    @property
    def item_vectors(self) -> np.ndarray:
        """float32 [items, length]: the item's vector plus those of its attributes.

        With order three longer than `factors`, as the vectors of queries are.
        """
        return self._item_side[0]

    @cached_property
    def item_norms(self) -> np.ndarray:
        """float32 [items]: the lengths of the items' vectors."""
        return np.linalg.norm(self.item_vectors, axis=1)

    @cached_property
    def item_constants(self) -> np.ndarray:
        """float32 [items]: what is learned of the item alone, less the damping."""
        return self.learned_constants - self.taken_off

    @property
    def learned_constants(self) -> np.ndarray:
        """float32 [items]: bias, the attributes' biases, and the item side's inner pairs."""
        return self._item_side[1]

    @cached_property
    def item_counts(self) -> np.ndarray:
        """float64 [items]: how many events each has."""
        return tally(self.seen.column, len(self.space.items), self.seen.value)

    @cached_property
    def taken_off(self) -> np.ndarray:
        """float32 [items]: what damping takes off the constants."""
        if not self.damping:
            return np.zeros_like(self.learned_constants)
        usual = self.item_vectors @ mean_user(self.user_vectors, self.seen)
        part = popular_part(usual + self.learned_constants, self.item_counts)
        return np.float32(self.damping) * part

    @cached_property
    def item_matrix(self) -> np.ndarray:
        """float32 [factors + 1, items]: vectors and constants as ranking takes them."""
        from fmpair.ranking.top import item_matrix

        return item_matrix(self.item_vectors, self.item_constants)

    @property
    def user_vectors(self) -> np.ndarray:
        """float32 [users, length]: the user's vector plus those of attributes and history."""
        rows, before = self.user_rows, self.before(np.arange(len(self.parameters.users)))
        rows = rows if before is None else join_rows([rows, before])
        return self.folded(self.parameters.users, rows)

    def query_vectors(self, queries: Any, *, unknown: str = "features") -> np.ndarray:
        """float32 [queries, length] of a frame with a user column and any context columns."""
        return self.vectors(queries_of(self, to_polars(queries), unknown=unknown))

    def vectors(self, queries: Queries) -> np.ndarray:
        """float32 [queries, length]: the user's vector plus those of all query features."""
        own = self.parameters.users[np.maximum(queries.user, 0)]
        unknown = queries.user < 0
        if unknown.any():
            own[unknown] = self.mean_user
        vectors = self.folded(own, queries.rows)
        if queries.history is None or self.space.history is not None:
            return vectors
        return vectors + moves(self, queries.user, queries.history)

    def folded(self, own: np.ndarray, rows: Rows) -> np.ndarray:
        """float32 [n, length] of users' rows [n, columns] and of query features."""
        return query_vectors(own, rows, self.parameters.query, self.triples)

    @cached_property
    def _earlier_items(self) -> Rows:
        """Per item its features as one that came before."""
        return self.space.earlier_items(self.item_rows)

    def before(self, user: np.ndarray, given: Given = NOTHING) -> Rows | None:
        """Per query the features of what came before, None where the model does not go by that.

        user: int32 [queries], -1 where unknown; given: what the question says of it.
        """
        if self.space.history is None or self.recent is None:
            return None
        return features_before(self.space.history, self.recent, self._earlier_items, user, given)

    @cached_property
    def _history_weights(self) -> np.ndarray:
        """float32 [last]: what the latest item counts, the one before it, and so on."""
        assert self.space.history is not None
        return history_weights(self.space.history)

    def before_one(
        self, user: int, told: np.ndarray | None, now: int | None
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """(column, value) of the same features of one query.

        told: the items the question names, oldest first, None where it names none; now: its moment.
        """
        field = self.space.history
        if field is None or self.recent is None:
            return None
        items = told if told is not None else self.recent.one(user, field.within, now)
        return one_before(self._history_weights, items, self._earlier_items)

    @cached_property
    def visitors(self) -> Visitors:
        """What is expected of visitors before their history is known."""
        return visitors(self.item_vectors, self.learned_constants, self.user_vectors, self.seen)
