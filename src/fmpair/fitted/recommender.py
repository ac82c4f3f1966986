"""The fitted thing: one vector per query, one vector and one constant per item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fmpair import checks
from fmpair.arrays import Rows, tally
from fmpair.data.frame import from_polars, given_back, kind_of, to_polars
from fmpair.engine.contract import Parameters
from fmpair.engine.item_side import item_sides
from fmpair.features import FeatureSpace
from fmpair.fitted import file, listing, similarity, tables
from fmpair.fitted.cold_start import mean_user
from fmpair.fitted.damping import popular_part
from fmpair.fitted.explanation import explain_terms
from fmpair.fitted.extension import extended
from fmpair.fitted.further import further_events, of_known_items
from fmpair.fitted.lookup import number_of
from fmpair.fitted.named_rows import arrays_of
from fmpair.fitted.query import Queries, item_column, name_of, queries_of, query_frame
from fmpair.fitted.recent import NOTHING, Given, Recent, features_before
from fmpair.fitted.recipe import can_go_on
from fmpair.fitted.visitor import Visitors, moves, visitors
from fmpair.renamed import known_options_only, no_attribute

QUERIES_AT_ONCE = 100_000  # bounds the memory of a listing for everyone
ROWS = ("user_rows", "item_rows", "seen")


@dataclass(frozen=True)
class Recommender:
    """A fitted model: everything needed to recommend, explain, go on learning, and be saved.

    parameters: the learned tables; user_rows, item_rows: the attributes of known users and items;
    seen: per user the items of the training events. damping: see `damped`. recent: per user the
    latest events, where the model goes by what came before.
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

    def __repr__(self) -> str:
        context = f", context {', '.join(self.space.context)}" if self.space.context else ""
        context += f", last {self.space.history.last} items" if self.space.history else ""
        return (
            f"Recommender({type(self.recipe).__name__}, {len(self.space.users):,} users, "
            f"{len(self.space.items):,} items{context})"
        )

    # The folded arrays: score(query, item) = query_vector . item_vector + item_constant.

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
        p = self.parameters
        return item_sides(p.items, p.item_bias, self.item_rows, p.features, p.feature_bias)

    @property
    def item_vectors(self) -> np.ndarray:
        """float32 [items, factors]: the item's vector plus those of its attributes."""
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
        """float32 [users, factors]: the user's vector plus those of attributes and history."""
        own = self.parameters.users + self.user_rows.dot(self.parameters.query)
        before = self.before(np.arange(len(own)))
        return own if before is None else own + before.dot(self.parameters.query)

    def query_vectors(self, queries: Any, *, unknown: str = "features") -> np.ndarray:
        """float32 [queries, factors] of a frame with a user column and any context columns."""
        return self.vectors(queries_of(self, to_polars(queries), unknown=unknown))

    def vectors(self, queries: Queries) -> np.ndarray:
        """float32 [queries, factors]: the user's vector plus those of all query features."""
        own = self.parameters.users[np.maximum(queries.user, 0)]
        unknown = queries.user < 0
        if unknown.any():
            own[unknown] = self.mean_user
        vectors = queries.rows.dot(self.parameters.query) + own
        if queries.history is None or self.space.history is not None:
            return vectors
        return vectors + moves(self, queries)

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

    def extended(self, events: Any) -> Recommender:
        """With further events known, nothing learned: the next answers go by them.

        events: a frame or Dataset. Those of unknown users or items are passed over and counted.
        """
        return extended(self, further_events(self, events))

    @cached_property
    def visitors(self) -> Visitors:
        """What is expected of visitors before their history is known."""
        return visitors(self.item_vectors, self.learned_constants, self.user_vectors, self.seen)

    # Rankings

    @known_options_only
    def recommend(
        self,
        users: Any = None,
        n: int = 10,
        *,
        history: Any = None,
        context: Mapping[str, Any] | None = None,
        time: Any = None,
        exclude_seen: bool = True,
        candidates: Sequence[Any] | None = None,
        exclude: Sequence[Any] | None = None,
        user_features: Any = None,
        unknown: str = "ignore",
    ) -> Any:
        """The n best items for one user, several, all (None), or a frame of users and contexts.

        history: the items of a visitor without an id, or of one user lately; for several visitors
        a column `history` of lists in a frame.
        context: the situation, by column name; missing ones are left open.
        time: when it is asked, for models that go by the time: a date, a datetime, text or seconds
        since 1970; now unless given. A frame of users may have a column of times in its place.
        candidates: only these items; exclude: none of these.
        user_features: attributes of a new user (a mapping), or a table keyed by user.
        unknown: what to do with what training did not see. ignore: pass over items of candidates,
        exclude and history and count them, but refuse unknown users and values; error: refuse them
        all; features: go by what is known, for a usual user; popular: a usual user, whatever is
        known.
        Gives a frame (user, context, item, score, rank) of the kind the model was fitted with;
        columns are called as in the events, and further ones of a frame of users come back.
        """
        frame = query_frame(self.space, users, context, history, time)
        limits = listing.Limits(n, exclude_seen, candidates, exclude, unknown == "error")
        out = listing.recommended(self, frame, limits, unknown, user_features)
        return given_back(out, users, self.frame_kind)

    def recommend_in_parts(
        self, users: Any = None, n: int = 10, *, size: int = listing.USERS_AT_ONCE, **options: Any
    ) -> Iterator[Any]:
        """What `recommend` gives with these options, for `size` users at a time."""
        return listing.in_parts(self, users, n, size, options)

    @property
    def at_once(self) -> int:
        return QUERIES_AT_ONCE

    def best(self, queries: Queries, chosen: np.ndarray, hidden: Rows, n: int) -> listing.Best:
        """The n best of the chosen items for each query."""
        from fmpair.ranking.top import top

        items = self.item_matrix
        if len(chosen) < items.shape[1]:
            items = np.take(items, chosen, axis=1)
        return top(self.vectors(queries), items, hidden, n)

    @known_options_only
    def recommend_users(
        self,
        item: Any,
        n: int = 10,
        *,
        context: Mapping[str, Any] | None = None,
        time: Any = None,
        exclude_seen: bool = True,
    ) -> Any:
        """The n users for whom an item stands highest above the rest of the catalogue."""
        queries = queries_of(
            self, query_frame(self.space, None, context, time=time), unknown="error"
        )
        out = listing.recommended_users(self, queries, self.item_number(item), n, exclude_seen)
        return from_polars(out, self.frame_kind)

    def score(self, pairs: Any) -> Any:
        """The frame of users, items and contexts given, with a column `score`."""
        frame = to_polars(pairs)
        queries = queries_of(self, frame, unknown="features")
        numbers = item_column(frame, self.space)
        score = (self.vectors(queries) * self.item_vectors[numbers]).sum(axis=1)
        score = score + self.item_constants[numbers]
        return from_polars(frame.with_columns(pl.Series("score", score)), kind_of(pairs))

    @known_options_only
    def similar_items(self, item: Any, n: int = 10) -> Any:
        """The n items nearest by angle: a frame (item, similarity, rank)."""
        number = self.item_number(item)
        found = similarity.nearest(self.item_vectors, number, n, self.item_norms)
        return from_polars(
            similarity.as_frame(name_of(self.space, "item"), self.space.items, found),
            self.frame_kind,
        )

    @known_options_only
    def similar_users(self, user: Any, n: int = 10) -> Any:
        """The n users nearest by angle, attributes included: a frame (user, similarity, rank)."""
        number = self.user_number(user)
        found = similarity.nearest(self.user_vectors, number, n)
        return from_polars(
            similarity.as_frame(name_of(self.space, "user"), self.space.users, found),
            self.frame_kind,
        )

    @known_options_only
    def explain(
        self,
        user: Any,
        item: Any,
        context: Mapping[str, Any] | None = None,
        user_features: Any = None,
        time: Any = None,
    ) -> Any:
        """The score's terms, largest first: a frame (query, item, value) that adds up to it."""
        frame = query_frame(self.space, user, context, time=time)
        queries = queries_of(self, frame, unknown="error", user_features=user_features)
        terms = explain_terms(self, queries, self.item_number(item))
        return from_polars(terms, self.frame_kind)

    def damped(self, damping: float) -> Recommender:
        """With a share of what popularity adds to the scores taken off: less popular lists.

        damping: 0 leaves the scores as learned, 1 takes off all that popularity adds, below 0
        popular items rise. No vector changes, and so neither does what is similar.
        """
        checks.number("damping", damping)
        return self.replaced(damping=float(damping))

    # Going on

    @known_options_only
    def fold_in(
        self, events: Any, *, epochs: int | None = None, unknown: str = "ignore"
    ) -> Recommender:
        """With new users learned from a few events of theirs; everything else stays as it is.

        unknown: events of unknown items are passed over and counted (ignore) or refused (error).
        """
        data = of_known_items(self, further_events(self, events), unknown)
        return can_go_on(self.recipe).fold_in(self, data, epochs)

    @known_options_only
    def update(self, data: Any, *, epochs: int | None = None) -> Recommender:
        """With training continued on new events; new users, items and values are added."""
        return can_go_on(self.recipe).update(self, further_events(self, data), epochs)

    # Files

    def save(self, path: str | Path) -> None:
        """Write the model to one file: no pickle, a checksum inside, all or nothing."""
        file.save(self, path)

    def arrays(self) -> dict[str, np.ndarray]:
        """All that was learned, by name: what `from_arrays` takes."""
        vectors = dict(zip(Parameters._fields, self.parameters))
        out = vectors | arrays_of({name: getattr(self, name) for name in ROWS})
        if self.recent is not None:
            out |= {f"recent.{name}": part for name, part in self.recent._asdict().items()}
        return out

    @classmethod
    def from_arrays(
        cls,
        space: FeatureSpace,
        arrays: Mapping[str, np.ndarray],
        recipe: Any,
        frame_kind: str = "polars",
        damping: float = 0.0,
    ) -> Recommender:
        """The model whose arrays these are; refused where they are not what they must be."""
        parameters, *rows, recent = tables.learned(arrays, space, damping)
        users, items, seen = rows
        own = (parameters, users, items, seen, recipe, frame_kind, damping, recent)
        return cls(space, *own)

    # Ids

    def user_number(self, user: Any) -> int:
        return number_of("user", user, self.space.users)

    def item_number(self, item: Any) -> int:
        return number_of("item", item, self.space.items)

    if not TYPE_CHECKING:  # which would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name)

    def replaced(self, **changes: Any) -> Recommender:
        """A copy with other fields."""
        return replace(self, **changes)
