"""The fitted thing of models whose scores do not fold into one vector per query and per item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fmpair.arrays import Rows, add_repeats, empty_rows, group_rows, join_rows, tally
from fmpair.data import Columns, Dataset, as_dataset
from fmpair.data.frame import from_polars, given_back, kind_of, to_polars
from fmpair.errors import OptionError, TrainingError, named
from fmpair.features import FeatureSpace
from fmpair.fitted import explanation, file, ranked_lists
from fmpair.fitted.answer import Answer, Question, answers_by_frame, told
from fmpair.fitted.extension import following, further_events, of_known_items, updated
from fmpair.fitted.file_arrays import arrays_of, seen_rows
from fmpair.fitted.id_lookup import Known, number_of
from fmpair.fitted.notebook import model_html
from fmpair.fitted.question import (
    Queries,
    item_column,
    known_rows,
    name_of,
    queries_of,
    query_frame,
)
from fmpair.fitted.recent_events import Given
from fmpair.fitted.recipe import can_go_on
from fmpair.fitted.scorer import (
    ComparesItems,
    ComparesUsers,
    Explains,
    Follows,
    Scorer,
    ScoresHistories,
    check_scorer,
)
from fmpair.option_names import known_options_only

SCORER = "scorer."  # what the names of its arrays begin with
SCORES_AT_ONCE = 1 << 23  # float32: 32 MB
MOST_AT_ONCE = 4096  # queries


@dataclass(frozen=True)
class Ranker:
    """A fitted model that answers as a `Recommender` does, but scores by any means.

    space: the ids, and the context columns that may be asked for; seen: per user the items of the
    training events, and how often each.
    """

    space: FeatureSpace
    scorer: Scorer
    seen: Rows
    recipe: Any
    frame_kind: str = "polars"

    def __post_init__(self) -> None:
        check_scorer(self.scorer)

    @classmethod
    def of(cls, recipe: Any, data: Dataset, scorer: Scorer) -> Ranker:
        """The fitted form of a recipe, over the ids and the context of the data it learned from."""
        return cls(FeatureSpace.fit(data), scorer, data.seen, recipe, data.frame_kind)

    def __repr__(self) -> str:
        users, items = len(self.space.users), len(self.space.items)
        return f"Ranker({type(self.recipe).__name__}, {users:,} users, {items:,} items)"

    _repr_html_ = model_html

    @cached_property
    def known(self) -> Known:
        """What questions name, found by value."""
        return Known(self.space)

    # Scores of every item

    def __call__(self, events: Any) -> np.ndarray:
        """float32 [events, items]: the items as in `item_ids`, for each event's user and context.

        Everything is made at once: give some thousand events at most.
        """
        data = as_dataset(events, Columns(self.space.context))
        user = self.space.users.numbers(data.users.ids)[data.user]
        return self._scores(user, self.space.context_of(data))

    def _scores(self, user: np.ndarray, context: pl.DataFrame) -> np.ndarray:
        if self.scorer.scores_unknown_users:
            return self._checked(self.scorer.scores(user, context))
        met = np.flatnonzero(self._active[user])
        out = np.broadcast_to(self._popular, (len(user), len(self._popular))).copy()
        if len(met):
            asked = context[met] if context.width else context  # no columns, no rows
            out[met] = self._checked(self.scorer.scores(user[met], asked))
        return out

    def _checked(self, scores: np.ndarray) -> np.ndarray:
        if np.isnan(scores).any():
            name = type(self.recipe).__name__
            wrong = f"{name} gives scores that are not numbers: fit it again with other options"
            raise TrainingError(wrong)
        return np.asarray(scores, np.float32)

    @cached_property
    def _active(self) -> np.ndarray:
        """bool [users + 1]: who has events; the last, -1, stands for all who are unknown."""
        return np.append(np.diff(self.seen.start) > 0, False)

    @cached_property
    def _popular(self) -> np.ndarray:
        """float32 [items]: the number of each item's events."""
        return tally(self.seen.column, len(self.space.items), self.seen.value).astype(np.float32)

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

        Everything is as in `Recommender.recommend`, save that attributes of new users
        (user_features) are of no use here.
        """
        if user_features is not None:
            why = f"cannot go by {named('user_features')}: it knows users by their events"
            raise OptionError(f"{type(self.recipe).__name__} {why}")
        frame = query_frame(self.space, users, context, history, time)
        limits = ranked_lists.Limits(n, exclude_seen, candidates, exclude, unknown == "error")
        out = ranked_lists.recommended(self, frame, limits, unknown, None)
        return given_back(out, users, self.frame_kind)

    def answer(self, user: Any = None, n: int = 10, **options: Any) -> Answer:
        """The n best items of one user or visitor, as lists: see `Recommender.answer`."""
        return told(self.answers([Question(user, n, **options)])[0])

    def answers(self, questions: Sequence[Question]) -> list[Answer]:
        """The answer to each of several questions."""
        return answers_by_frame(self, questions)

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
        return int(np.clip(SCORES_AT_ONCE // max(len(self.space.items), 1), 1, MOST_AT_ONCE))

    @cached_property
    def user_rows(self) -> Rows:
        """No attributes: what a scorer makes of them it keeps to itself."""
        return empty_rows(len(self.space.users))

    @property
    def recent(self) -> None:
        """What it knows of the users' latest events a scorer keeps to itself."""
        return None

    def before(self, user: np.ndarray, given: Given) -> None:
        """No features of what came before."""

    def best(self, queries: Queries, chosen: np.ndarray, hidden: Rows, n: int) -> ranked_lists.Best:
        """The n best of the chosen items for each query."""
        from fmpair.ranking.top import select

        scores = self._scores(queries.user, queries.context)
        if queries.history is not None:
            scores = self._of_histories(queries, scores)
        scores = np.ascontiguousarray(scores[:, chosen])
        n = min(n, len(chosen))
        best = np.full((len(scores), n), -1, np.int32)
        score = np.full((len(scores), n), -np.inf, np.float32)
        filled = np.zeros(len(scores), np.int64)
        select(scores, 0, hidden.start, hidden.column, n, best, score, filled)
        return best, score, filled

    def _of_histories(self, queries: Queries, scores: np.ndarray) -> np.ndarray:
        """The scores, those of queries with a history by that history and the user's own items."""
        own, given = known_rows(self.seen, queries.user), queries.history or empty_rows(0)
        told = np.flatnonzero(np.diff(given.start))
        if isinstance(self.scorer, Follows):
            found = self.scorer.following(given.take(told))
        elif isinstance(self.scorer, ScoresHistories):
            both = join_rows([own, given]).take(told)
            items = add_repeats(group_rows(both.owner, both.column, both.size, both.value))
            found = self.scorer.history_scores(items)
        else:
            raise OptionError(
                f"{type(self.recipe).__name__} cannot go by {named('history')}: it knows users by "
                "what it learned of them; fit it again with the visitors' events, or another model"
            )
        scores[told] = self._checked(found)
        return scores

    def score(self, pairs: Any) -> Any:
        """The frame of users, items and contexts given, with a column `score`."""
        frame = to_polars(pairs)
        numbers = item_column(frame, self.space)
        score = np.zeros(len(frame), np.float32)
        for first in range(0, len(frame), self.at_once):
            part = slice(first, first + self.at_once)
            queries = queries_of(self, frame[part], unknown="features")
            own = self._scores(queries.user, queries.context)
            score[part] = own[np.arange(len(own)), numbers[part]]
        return from_polars(frame.with_columns(pl.Series("score", score)), kind_of(pairs))

    # What only some scorers can tell

    @known_options_only
    def similar_items(self, item: Any, n: int = 10) -> Any:
        """The n most similar items: a frame (item, similarity, rank)."""
        if not isinstance(self.scorer, ComparesItems):
            raise self._cannot("tell which items are similar")
        number = self.item_number(item)
        found = ranked_lists.strongest(self.scorer.item_similarity(number), number, n)
        frame = ranked_lists.as_frame(name_of(self.space, "item"), self.space.items, found)
        return from_polars(frame, self.frame_kind)

    @known_options_only
    def similar_users(self, user: Any, n: int = 10) -> Any:
        """The n most similar users: a frame (user, similarity, rank)."""
        if not isinstance(self.scorer, ComparesUsers):
            raise self._cannot("tell which users are similar")
        number = self.user_number(user)
        found = ranked_lists.strongest(self.scorer.user_similarity(number), number, n)
        frame = ranked_lists.as_frame(name_of(self.space, "user"), self.space.users, found)
        return from_polars(frame, self.frame_kind)

    @known_options_only
    def explain(
        self, user: Any, item: Any, context: Mapping[str, Any] | None = None, time: Any = None
    ) -> Any:
        """The score's terms, largest first: a frame (query, item, value) that adds up to it."""
        if not isinstance(self.scorer, Explains):
            raise self._cannot("tell what a score is made of")
        query_frame(self.space, user, context, time=time)  # of no use, but it must exist
        asks, number = self.user_number(user), self.item_number(item)
        labels, values = self.scorer.terms(asks, number)
        if not (self._active[asks] or self.scorer.scores_unknown_users):
            labels, values = ["a usual user"], self._popular[[number]]
        order = np.argsort(-np.abs(values), kind="stable")
        name = f"item={self.space.items.ids[number]}"
        terms = [(labels[place], name, float(values[place])) for place in order]
        return from_polars(explanation.as_frame(terms), self.frame_kind)

    def _cannot(self, what: str) -> OptionError:
        return OptionError(f"{type(self.recipe).__name__} cannot {what}")

    @property
    def damping(self) -> float:
        """None."""
        return 0.0

    def damped(self, damping: float) -> Ranker:
        """Refused: there is no constant per item that popularity could be taken from."""
        raise OptionError(
            f"{type(self.recipe).__name__} cannot be damped: its scores are no product of vectors "
            "with a constant per item"
        )

    # As every fitted model

    @property
    def user_ids(self) -> np.ndarray:
        """The users' own ids [users]."""
        return self.space.users.ids.to_numpy()

    @property
    def item_ids(self) -> np.ndarray:
        """The items' own ids [items], in the order of all scores."""
        return self.space.items.ids.to_numpy()

    def user_number(self, user: Any) -> int:
        """The place of a user in the arrays of users."""
        return number_of("user", user, self.space.users)

    def item_number(self, item: Any) -> int:
        """The place of an item in the arrays of items."""
        return number_of("item", item, self.space.items)

    def extended(self, events: Any) -> Ranker:
        """With further events known, nothing learned, where the model goes by what came last.

        events: later than what it knows. Those of unknown users or items are passed over.
        """
        return following(self, further_events(self, events))

    @known_options_only
    def fold_in(self, events: Any, *, epochs: int | None = None, unknown: str = "ignore") -> Ranker:
        """With new users learned from a few events of theirs, where the recipe can do that.

        unknown: events of unknown items are passed over and counted (ignore) or refused (error).
        """
        data = of_known_items(self, further_events(self, events), unknown)
        return can_go_on(self.recipe).fold_in(self, data, epochs)

    @known_options_only
    def update(self, data: Any, *, epochs: int | None = None, replay: Any = 0.0) -> Ranker:
        """With new events learned from, where the recipe can do that; replay: earlier ones too."""
        return updated(self, data, epochs, replay)

    def save(self, path: str | Path) -> None:
        """Write the model to one file: no pickle, a checksum inside, all or nothing."""
        file.save(self, path)

    def arrays(self) -> dict[str, np.ndarray]:
        """All that was learned, by name: what `from_arrays` takes."""
        own = {SCORER + name: array for name, array in self.scorer.arrays().items()}
        return own | arrays_of({"seen": self.seen})

    @classmethod
    def from_arrays(
        cls,
        space: FeatureSpace,
        arrays: Mapping[str, np.ndarray],
        recipe: Any,
        frame_kind: str = "polars",
    ) -> Ranker:
        """The model whose arrays these are; the recipe checks the scorer's own and makes it."""
        own = {
            name.removeprefix(SCORER): array
            for name, array in arrays.items()
            if name.startswith(SCORER)
        }
        rest = {name: array for name, array in arrays.items() if not name.startswith(SCORER)}
        seen = seen_rows(rest, space)
        return cls(space, recipe.restore(own, space, seen), seen, recipe, frame_kind)

    def replaced(self, **changes: Any) -> Ranker:
        """A copy with other fields."""
        return replace(self, **changes)
