"""The base of all fitted models: questions, answers, learning from new events, files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

import numpy as np
import polars as pl

from fmpair.arrays import Rows, empty_rows
from fmpair.checks import known_options_only, no_attribute, whole
from fmpair.data.frame import from_polars, given_back, kind_of, to_polars
from fmpair.errors import OptionError, named, notice
from fmpair.features import FeatureSpace
from fmpair.fitted import file
from fmpair.fitted.answers import answers, bound, with_boosts
from fmpair.fitted.catalogue import Catalogue
from fmpair.fitted.history import (
    LiveState,
    check_weights,
    most_recent,
    new_events,
    of_known_items,
)
from fmpair.fitted.id_lookup import IdLookup, number_of
from fmpair.fitted.notebook import model_html
from fmpair.fitted.query_encoder import QueryEncoder, known_rows
from fmpair.fitted.question import (
    Answer,
    AnyFrame,
    ListOptions,
    Queries,
    Question,
    Term,
    item_column,
    name_of,
    one_query,
    query_frame,
    shown_pairs,
    shown_rows,
)
from fmpair.fitted.recipe import name_of as recipe_name
from fmpair.fitted.recipe import plain, require_updatable
from fmpair.fitted.rules import Rules, rules_of
from fmpair.fitted.top_items import (
    Best,
    Ruled,
    ScoreRows,
    chosen_items,
    hidden_places,
    list_frame,
    noted,
    ruled,
    similar_frame,
)

USERS_AT_ONCE = 20_000  # users whose lists are in memory at a time, if all lists are written


class FittedModel(ABC):
    """A fitted model: it can recommend, explain, learn from new events, and be saved.

    space: the ids, and the context columns that questions may have; seen: per user the items of
    the training events and how often each occurs; recipe: the options it was fitted with;
    frame_kind: the kind of frame to return; damping: see `damped`; live: events received since it
    was put in service. Only `live` can change.
    """

    space: FeatureSpace
    seen: Rows
    recipe: Any
    frame_kind: str
    id_lookup: IdLookup
    live: LiveState | None
    damping: float = 0.0

    _repr_html_ = model_html

    # What each kind of model implements

    @property
    @abstractmethod
    def at_once(self) -> int:
        """How many queries to rank at a time."""

    @property
    @abstractmethod
    def encoder(self) -> QueryEncoder:
        """The encoder of questions as queries."""

    @property
    def ranks_apart(self) -> bool:
        """Whether `best` can give each of several queries the scores that it has alone."""
        return False

    @abstractmethod
    def best(
        self,
        queries: Queries,
        chosen: np.ndarray | None,
        hidden: Rows,
        n: int,
        interactive: bool = False,
        apart: bool = False,
    ) -> Best:
        """Rank the chosen items (None: all); hidden: per query the positions to leave out.

        interactive: whether a user waits for the answers to these few queries. apart: score each
        query by itself, for models with `ranks_apart`.
        """

    @abstractmethod
    def score_rows(self, queries: Queries) -> ScoreRows:
        """Return a function that scores all items for a slice of the queries."""

    def best_ruled(self, question: Ruled, n: int, threads: int | None) -> Best | None:
        """Return lists under rules without scoring all items, None if the model cannot."""
        return None

    @abstractmethod
    def nearness(self, item: int, items: np.ndarray) -> np.ndarray:
        """Return the similarity of an item to others, at most 1: float32 [items]."""

    @abstractmethod
    def pair_scores(self, queries: Queries, items: np.ndarray) -> np.ndarray:
        """Return the score of one item for each query: float32 [queries]."""

    @abstractmethod
    def terms(self, queries: Queries, row: int, items: Sequence[int]) -> list[list[Term]]:
        """Return for each item the terms of its score for one query, largest first."""

    @abstractmethod
    def item_similarity(self, item: int) -> np.ndarray:
        """Return the similarity of an item to every item: float32 [items]."""

    @abstractmethod
    def user_similarity(self, user: int) -> np.ndarray:
        """Return the similarity of a user to every user: float32 [users]."""

    @abstractmethod
    def damped(self, damping: float) -> Self:
        """Return the model with less popular lists, see `Recommender.damped`."""

    @abstractmethod
    def extended(self, events: Any) -> Self:
        """Return the model with new events added and nothing learned; the next answers use them.

        events: a frame or Dataset, later than what the model knows. Events of unknown users or
        items are ignored and counted.
        """

    @property
    @abstractmethod
    def uses_last_events(self) -> bool:
        """Whether the model can be extended: whether its scores depend on the last events."""

    @abstractmethod
    def in_service(self, user: np.ndarray, item: np.ndarray, moment: np.ndarray) -> Self:
        """Return a model that can `take_in` events, starting with these.

        user, item: int32 [events], numbers; moment: int64 [events], microseconds. Events that it
        learned from, or that are given twice, count once.
        """

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """Return all learned arrays by name, as `from_arrays` takes them."""

    # Rankings

    @overload
    def recommend(
        self, users: AnyFrame, n: int = 10, **options: Unpack[ListOptions]
    ) -> AnyFrame: ...
    @overload
    def recommend(
        self, users: Any = None, n: int = 10, **options: Unpack[ListOptions]
    ) -> pl.DataFrame: ...
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
        where: str | Sequence[str] | None = None,
        limit: Mapping[str, int] | None = None,
        boost: Mapping[str, Mapping[Any, float]] | None = None,
        diversity: float | None = None,
        exclude_shown: Any = None,
        rules: Rules | None = None,
    ) -> Any:
        """Return the n best items for one user, several, all (None), or a frame of users.

        history: the items of a visitor without an id, or the latest items of one user; for several
        visitors give a frame with a column `history` of lists.
        context: the situation, by column name; columns left out are open.
        time: of the query, for models that use the time: a date, a datetime, text or seconds
        since 1970; default now. A frame of users may have a column of times instead.
        candidates: only these items; exclude: none of these.
        user_features: attributes of a new user (a mapping), or a table keyed by user.
        unknown: what to do with ids and values that training did not see. ignore: skip and count
        unknown items of candidates, exclude and history, but refuse unknown users and values;
        error: refuse them all; features: recommend to an average user with the known features;
        popular: recommend to an average user without any.
        where: conditions on columns of the catalogue, which all must hold: 'category=shoes,bags',
        'price<=50', 'not brand=ACME'; an item whose value is missing fulfils none.
        limit: the most items per value of a column; boost: a number per value of a column, which
        is added to the score; diversity: from 0 to 1, a higher value makes the items of a list
        less similar and lowers their scores; exclude_shown: items that were shown before, or a
        frame of users and the items that each was shown.
        rules: Rules of a file, to which these are added.
        Returns a frame (user, context, item, score, rank) of the kind the model was fitted with,
        or of the kind of `users`, whose other columns are kept; columns are named as in the events.
        """
        frame = query_frame(self.space, users, context, history, time)
        whole("n", n, 1)
        chosen = chosen_items(self, candidates, exclude, unknown == "error")
        pairs, shown = shown_pairs(self.id_lookup.items, exclude_shown)
        ruling = bound(self, rules_of(where, limit, boost, diversity, shown, rules))
        lists = []
        for first in range(0, max(len(frame), 1), self.at_once):
            asked = frame[first : first + self.at_once]
            queries = self.queries(asked, unknown, user_features)
            parts = [empty_rows(len(asked)), shown_rows(asked, self.space, pairs)]
            parts += [self.seen_by(queries.user), queries.history] if exclude_seen else []
            listed = chosen if ruling is None else None  # under rules, item numbers are ranked
            hidden = hidden_places(parts, listed, len(self.space.items))
            if ruling is None:
                best = noted(self.best(queries, chosen, hidden, n), exclude_seen, chosen, pairs)
            else:
                best = ruled(self, Ruled(queries, chosen, hidden, ruling), n)
                ruling.issue_notices(best[2], chosen)
            lists.append(list_frame(queries.shown, self.space, listed, best))
        return given_back(pl.concat(lists), users, self.frame_kind)

    def recommend_in_parts(
        self,
        users: Any = None,
        n: int = 10,
        *,
        size: int = USERS_AT_ONCE,
        **options: Unpack[ListOptions],
    ) -> Iterator[pl.DataFrame]:
        """Yield what `recommend` returns with these options, for `size` users at a time."""
        whole("size", size, 1)
        frame = query_frame(self.space, users, None)
        for first in range(0, max(len(frame), 1), size):
            part = self.recommend(frame[first : first + size], n, **options)
            yield given_back(part, users, self.frame_kind)

    def queries(self, frame: pl.DataFrame, unknown: str, user_features: Any = None) -> Queries:
        """Encode a frame of questions; the options are those of `recommend`."""
        return self.encoder.of_frame(frame, unknown=unknown, user_features=user_features)

    def seen_by(self, users: np.ndarray) -> Rows:
        """Return the items that users have seen; none for number -1."""
        if self.live is not None:
            rows = self.live.seen_rows(self.seen, users)
            if rows is not None:
                return rows
        return known_rows(self.seen, users)

    # Answers to single requests

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
        where: str | Sequence[str] | None = None,
        limit: Mapping[str, int] | None = None,
        boost: Mapping[str, Mapping[Any, float]] | None = None,
        diversity: float | None = None,
        exclude_shown: Collection[Any] | None = None,
        rules: Rules | None = None,
        user_features: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Return the n best items of one user or visitor (None) as lists, faster than a frame.

        The options are those of `recommend`; user_features is a mapping. explain: add the terms of
        each item's score.
        """
        rules_given = rules_of(where, limit, boost, diversity, exclude_shown, rules)
        question = Question(
            user, n, context, history, candidates, exclude, explain, unknown, time, exclude_seen,
            rules_given, user_features,
        )  # fmt: skip
        answer = self.answers([question])[0]
        if answer.passed_over:
            notice(
                f"{answer.passed_over:,} items of the question are unknown and ignored; "
                f"{named('unknown', 'error')} refuses them"
            )
        return answer

    def answers(self, questions: Sequence[Question], apart: bool = False) -> list[Answer]:
        """Answer several questions, faster than one by one; apart: with the bits of one by one."""
        return answers(self, questions, apart)

    # Scores, their terms, similar ids

    @overload
    def score(self, pairs: Mapping[str, Sequence[Any]]) -> pl.DataFrame: ...
    @overload
    def score(self, pairs: AnyFrame) -> AnyFrame: ...
    def score(self, pairs: Any) -> Any:
        """Return the given frame of users, items and contexts with a column `score`."""
        frame = to_polars(pairs)
        numbers = item_column(frame, self.space, self.id_lookup.items)
        score = np.zeros(len(frame), np.float32)
        for first in range(0, len(frame), self.at_once):
            part = slice(first, first + self.at_once)
            queries = self.queries(frame[part], "features")
            score[part] = self.pair_scores(queries, numbers[part])
        return from_polars(frame.with_columns(pl.Series("score", score)), kind_of(pairs))

    @known_options_only
    def explain(
        self,
        user: Any,
        item: Any,
        context: Mapping[str, Any] | None = None,
        user_features: Any = None,
        time: Any = None,
        boost: Any = None,
        history: Any = None,
    ) -> pl.DataFrame:
        """Return the terms of a score, largest first: (query, item, value). See `recommend`."""
        frame = one_query(self.space, user, context, history, time)
        queries = self.queries(frame, "error", user_features)
        number, rules = self.item_number(item), rules_of(boost=boost)
        terms = with_boosts(self, rules, number, self.terms(queries, 0, [number])[0])
        schema = {"query": pl.String, "item": pl.String, "value": pl.Float64}
        return from_polars(pl.DataFrame(terms, schema=schema, orient="row"), self.frame_kind)

    @known_options_only
    def similar_items(self, item: Any, n: int = 10) -> pl.DataFrame:
        """Return the n most similar items: a frame (item, similarity, rank)."""
        number = self.item_number(item)
        frame = similar_frame(self.space, "item", self.item_similarity(number), number, n)
        return from_polars(frame, self.frame_kind)

    @known_options_only
    def similar_users(self, user: Any, n: int = 10) -> pl.DataFrame:
        """Return the n most similar users: a frame (user, similarity, rank)."""
        number = self.user_number(user)
        frame = similar_frame(self.space, "user", self.user_similarity(number), number, n)
        return from_polars(frame, self.frame_kind)

    # New events

    @known_options_only
    def fold_in(self, events: Any, *, epochs: int | None = None, unknown: str = "ignore") -> Self:
        """Return the model with new users learned from a few events; all else stays the same.

        unknown: events of unknown items are ignored and counted (ignore) or refused (error).
        """
        data = of_known_items(self.space, new_events(self.space, self.recipe, events), unknown)
        return require_updatable(self.recipe).fold_in(self, data, epochs)

    @known_options_only
    def update(self, data: Any, *, epochs: int | None = None, replay: Any = 0.0) -> Self:
        """Return the model trained further on new events; new users, items and values are added.

        epochs: passes over the new events, by default an eighth of the recipe's. replay: earlier
        events to train on again; or their number per new event, drawn from the pairs seen in
        training, which needs a model without context.
        """
        options: dict[str, Any] = {}  # a recipe may not have the parameter `replay`
        if not isinstance(replay, int | float):
            options["replay"] = new_events(self.space, self.recipe, replay)
        elif replay:
            options["replay"] = replay
        events = new_events(self.space, self.recipe, data)
        check_weights(self.space, events)
        return require_updatable(self.recipe).update(self, events, epochs, **options)

    def take_in(self, user: np.ndarray, item: np.ndarray, moment: np.ndarray) -> None:
        """Add a few events to a model in service; the arguments are those of `in_service`."""
        if self.live is None:
            raise OptionError("the model is not in service: call in_service first")
        self.live.add(self.seen, self.encoder.recent, (user, item, moment), most_recent(self.space))

    # Files, ids, copies

    def save(self, path: str | Path) -> None:
        """Write one file, completely or not at all, without pickle and with a checksum."""
        saved = file.Saved(type(self).__name__, recipe_name(type(self.recipe)), plain(self.recipe),
                           self.space, self.arrays(), self.frame_kind, self.damping)  # fmt: skip
        file.save(saved, path)

    @property
    def catalogue(self) -> Catalogue | None:
        """What is known of the items, for rules and display; None without item columns."""
        changed = None if self.live is None else self.live.catalogue
        return self._catalogue if changed is None else changed

    @cached_property
    def _catalogue(self) -> Catalogue | None:
        space, item = self.space, name_of(self.space, "item")
        return Catalogue(space.items, space.catalogue, item) if space.catalogue.width else None

    @property
    def user_ids(self) -> np.ndarray:
        """The ids of the users [users]."""
        return self.space.users.ids.to_numpy()

    @cached_property
    def item_ids(self) -> np.ndarray:
        """The ids of the items [items], in the order of the item arrays."""
        return self.space.items.ids.to_numpy()

    def user_number(self, user: Any) -> int:
        """Return the row of a user in the arrays of users."""
        return number_of("user", user, self.space.users)

    def item_number(self, item: Any) -> int:
        """Return the row of an item in the arrays of items."""
        return number_of("item", item, self.space.items)

    def replaced(self, **changes: Any) -> Self:
        """Return a copy with other fields."""
        return replace(self, **changes)  # type: ignore[type-var]  # every subclass is a dataclass

    if not TYPE_CHECKING:  # a type checker would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name)
