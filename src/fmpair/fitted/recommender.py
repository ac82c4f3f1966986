"""The fitted thing: one vector per query, one vector and one constant per item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fmpair import checks
from fmpair.arrays import Rows, empty_rows
from fmpair.data import Dataset
from fmpair.data.frame import from_polars, given_back, kind_of, to_polars
from fmpair.data.vocabulary import Vocabulary
from fmpair.device import ranking_device
from fmpair.engine.contract import Parameters
from fmpair.features import FeatureSpace
from fmpair.fitted import file, file_arrays, ranked_lists
from fmpair.fitted.answer import Answer, Question, answers, told
from fmpair.fitted.explanation import explain_terms
from fmpair.fitted.extension import extended, further_events, of_known_items, updated
from fmpair.fitted.factor_model import FoldedModel
from fmpair.fitted.file_arrays import arrays_of
from fmpair.fitted.id_lookup import number_of
from fmpair.fitted.notebook import model_html
from fmpair.fitted.question import Queries, item_column, name_of, queries_of, query_frame
from fmpair.fitted.recipe import can_go_on
from fmpair.fitted.visitor import settle_cold
from fmpair.option_names import known_options_only, no_attribute

QUERIES_AT_ONCE = 100_000  # bounds the memory of a listing for everyone
ROWS = ("user_rows", "item_rows", "seen")


@dataclass(frozen=True)
class Recommender(FoldedModel):
    """A fitted model: everything needed to recommend, explain, go on learning, and be saved."""

    def __repr__(self) -> str:
        context = f", context {', '.join(self.space.context)}" if self.space.context else ""
        context += f", last {self.space.history.last} items" if self.space.history else ""
        return (
            f"Recommender({type(self.recipe).__name__}, {len(self.space.users):,} users, "
            f"{len(self.space.items):,} items{context})"
        )

    _repr_html_ = model_html

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
        time: when it is asked, for models that go by it: a date, a datetime, text or seconds
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
        limits = ranked_lists.Limits(n, exclude_seen, candidates, exclude, unknown == "error")
        out = ranked_lists.recommended(self, frame, limits, unknown, user_features)
        return given_back(out, users, self.frame_kind)

    @known_options_only
    def answer(
        self,
        user: Any = None,
        n: int = 10,
        *,
        context: Mapping[str, Any] | None = None,
        history: Sequence[Any] | None = None,
        candidates: Sequence[Any] | None = None,
        exclude: Sequence[Any] = (),
        explain: bool = False,
        unknown: str = "error",
        time: Any = None,
        exclude_seen: bool = True,
    ) -> Answer:
        """The n best items of one user or visitor (None), as lists: much sooner than a frame.

        What the options mean is said at `recommend`. explain: with the terms of each item's score.
        """
        question = Question(
            user, n, context, history, candidates, exclude, explain, unknown, time, exclude_seen
        )
        return told(self.answers([question])[0])

    def answers(self, questions: Sequence[Question]) -> list[Answer]:
        """The answer to each of several questions, sooner than one by one."""
        return answers(self, questions)

    def recommend_in_parts(
        self,
        users: Any = None,
        n: int = 10,
        *,
        size: int = ranked_lists.USERS_AT_ONCE,
        **options: Any,
    ) -> Iterator[Any]:
        """What `recommend` gives with these options, for `size` users at a time."""
        return ranked_lists.in_parts(self, users, n, size, options)

    @property
    def at_once(self) -> int:
        """How many queries are ranked together."""
        return QUERIES_AT_ONCE

    def best(self, queries: Queries, chosen: np.ndarray, hidden: Rows, n: int) -> ranked_lists.Best:
        """The n best of the chosen items for each query."""
        from fmpair.ranking.top import top

        items = self.item_matrix
        if len(chosen) < items.shape[1]:
            items = np.take(items, chosen, axis=1)
        device = ranking_device(self.recipe, len(queries.user))
        return top(self.vectors(queries), items, hidden, n, device=device)

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
        out = ranked_lists.recommended_users(self, queries, self.item_number(item), n, exclude_seen)
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
        found = ranked_lists.nearest(self.item_vectors, number, n, self.item_norms)
        return self._similar("item", self.space.items, found)

    @known_options_only
    def similar_users(self, user: Any, n: int = 10) -> Any:
        """The n users nearest by angle, attributes included: a frame (user, similarity, rank)."""
        number = self.user_number(user)
        found = ranked_lists.nearest(self.user_vectors, number, n)
        return self._similar("user", self.space.users, found)

    def _similar(self, role: str, known: Vocabulary, found: tuple[Any, Any]) -> Any:
        frame = ranked_lists.as_frame(name_of(self.space, role), known, found)
        return from_polars(frame, self.frame_kind)

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

    def extended(self, events: Any) -> Recommender:
        """With further events known, nothing learned: the next answers go by them.

        events: a frame or Dataset. Those of unknown users or items are passed over and counted.
        """
        return extended(self, further_events(self, events))

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
    def update(self, data: Any, *, epochs: int | None = None, replay: Any = 0.0) -> Recommender:
        """With training continued on new events; new users, items and values are added.

        epochs: passes over the new events, by default an eighth of the recipe's. replay: earlier
        events to be learned again beside them; or how many for each new one, drawn from those
        the model has seen, which is for models without context: they keep none of it.
        """
        return updated(self, data, epochs, replay)

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
        parameters, *rows, recent = file_arrays.learned(arrays, space, damping)
        users, items, seen = rows
        own = (parameters, users, items, seen, recipe, frame_kind, damping, recent)
        return cls(space, *own)

    # Ids

    def user_number(self, user: Any) -> int:
        """The place of a user in the arrays of users."""
        return number_of("user", user, self.space.users)

    def item_number(self, item: Any) -> int:
        """The place of an item in the arrays of items."""
        return number_of("item", item, self.space.items)

    if not TYPE_CHECKING:  # which would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name)

    def replaced(self, **changes: Any) -> Recommender:
        """A copy with other fields."""
        return replace(self, **changes)


# Vectors of users and items as an ordinary fitted model.


def folded(
    recipe: Any,
    data: Dataset,
    users: np.ndarray,
    items: np.ndarray,
    item_bias: np.ndarray | None = None,
    space: FeatureSpace | None = None,
) -> Recommender:
    """A recommender of vectors [users, k] and [items, k] whose products (plus bias) are the scores.

    space: by default that of the data, so that contexts may be asked for, and change nothing.
    """
    space = space or FeatureSpace.fit(data)
    factors = users.shape[1]
    parameters = Parameters(
        users=users.astype(np.float32),
        items=items.astype(np.float32),
        item_bias=np.zeros(len(items), np.float32) if item_bias is None else item_bias,
        query=np.zeros((space.query.size, factors), np.float32),
        features=np.zeros((space.item.size, factors), np.float32),
        feature_bias=np.zeros(space.item.size, np.float32),
    )
    return Recommender(
        space,
        settle_cold(parameters, data.seen),
        empty_rows(len(users)),
        empty_rows(len(items)),
        data.seen,
        recipe,
        data.frame_kind,
    )
