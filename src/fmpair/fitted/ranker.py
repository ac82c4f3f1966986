"""`Ranker`, a fitted model around any scorer, and the protocols of scorers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NoReturn, Protocol, Self, cast, runtime_checkable

import numpy as np
import polars as pl

from fmpair.arrays import Rows, add_repeats, empty_rows, group_rows, join_rows, tally
from fmpair.data import Columns, Dataset, as_dataset
from fmpair.data.times import Timelines, moments, timelines
from fmpair.errors import OptionError, TrainingError, named
from fmpair.features import FeatureSpace
from fmpair.fitted.file_checks import arrays_of, check, seen_from, sparse
from fmpair.fitted.history import LiveState, known_events, new_events, no_history, with_pairs
from fmpair.fitted.id_lookup import IdLookup
from fmpair.fitted.model import FittedModel
from fmpair.fitted.query_encoder import QueryEncoder
from fmpair.fitted.question import COLUMN, Queries, Term, histories_of
from fmpair.fitted.top_items import Best, ScoreRows

SCORER = "scorer."  # prefix of the scorer's arrays in a file
SCORES_AT_ONCE = 1 << 23  # float32: 32 MB
MAX_AT_ONCE = 4096  # queries
MEMBERS = ("scores_unknown_users", "scores", "arrays")  # what every Scorer must have


class Scorer(Protocol):
    """Scores all items for a query.

    scores_unknown_users: whether it can score users without training events (number -1 if
    unknown). If not, such users get the most popular items.

    A scorer may also have the methods of `ComparesItems`, `ComparesUsers`, `ScoresHistories`,
    `Follows` or `Explains`.
    """

    scores_unknown_users: ClassVar[bool]

    def scores(self, users: np.ndarray, context: pl.DataFrame) -> np.ndarray:
        """Return float32 [n, items], a new array, for the users' numbers, int32 [n].

        context: n rows with the context columns of the queries, possibly none. A missing column
        or a null means an unknown value.
        """
        ...

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that `recipe.restore(arrays, space, seen)` needs to rebuild it."""
        ...


@runtime_checkable
class ComparesItems(Protocol):
    """A scorer with item similarities."""

    def item_similarity(self, item: int) -> np.ndarray:
        """Return the similarity of an item to every item: float32 [items]."""
        ...


@runtime_checkable
class ComparesUsers(Protocol):
    """A scorer with user similarities."""

    def user_similarity(self, user: int) -> np.ndarray:
        """Return the similarity of a user to every user: float32 [users]."""
        ...


@runtime_checkable
class ScoresHistories(Protocol):
    """A scorer that needs only the items of a user."""

    def history_scores(self, history: Rows) -> np.ndarray:
        """Return float32 [n, items], a new array, for the items of n visitors."""
        ...


@runtime_checkable
class Follows(Protocol):
    """A sequential scorer, which can use new events without training."""

    def following(self, history: Rows) -> np.ndarray:
        """Return float32 [n, items], a new array, for the items of n visitors, oldest first."""
        ...

    def extended(self, lines: Timelines) -> Self:
        """Return the scorer with new events of known users, later than their known events."""
        ...


@runtime_checkable
class Explains(Protocol):
    """A scorer whose scores are sums of terms."""

    def terms(self, user: int, item: int) -> tuple[list[str], np.ndarray]:
        """Return labels and values that add up to the score."""
        ...


@dataclass(frozen=True)
class Ranker(FittedModel):
    """A fitted model around any scorer, with the methods of a `Recommender`."""

    space: FeatureSpace
    scorer: Scorer
    seen: Rows
    recipe: Any
    frame_kind: str = "polars"
    live: LiveState | None = None
    id_lookup: IdLookup = field(default=cast(IdLookup, None), repr=False, compare=False)

    def __post_init__(self) -> None:
        missing = [name for name in MEMBERS if not hasattr(self.scorer, name)]
        if missing:
            name = type(self.scorer).__name__
            raise OptionError(f"{name} is not a scorer: it has no {', '.join(missing)}")
        if self.id_lookup is None or self.id_lookup.space is not self.space:
            object.__setattr__(self, "id_lookup", IdLookup(self.space))

    @classmethod
    def of(cls, recipe: Any, data: Dataset, scorer: Scorer) -> Ranker:
        """Return the fitted form of a recipe, with the ids and the context of its training data."""
        return cls(FeatureSpace.fit(data), scorer, data.seen, recipe, data.frame_kind)

    def __repr__(self) -> str:
        users, items = len(self.space.users), len(self.space.items)
        return f"Ranker({type(self.recipe).__name__}, {users:,} users, {items:,} items)"

    # Scores of all items

    def __call__(self, events: Any) -> np.ndarray:
        """Return float32 [events, items] for each event's user and context, items as in `item_ids`.

        A column `history` that is not context holds lists of the items before each event.
        All scores are computed in memory: pass at most a few thousand events.
        """
        data = as_dataset(events, Columns(self.space.context))
        user = self.space.users.numbers(data.users.ids)[data.user]
        history = None
        if COLUMN in data.columns.columns and COLUMN not in data.context:
            history = histories_of(data.columns[COLUMN], self.id_lookup.items, strict=False)
        return self._scores(user, self.space.context_of(data), history)

    @property
    def _scorer(self) -> Scorer:
        """The scorer, including new events if the model is being served."""
        return self.scorer if self.live is None else self.live.scorer or self.scorer

    def _scores(self, user: np.ndarray, context: pl.DataFrame, history: Rows | None) -> np.ndarray:
        """Return float32 [queries, items]; a history that is not empty decides the scores."""
        scores = self._user_scores(user, context)
        return scores if history is None else self._of_histories(user, history, scores)

    def _user_scores(self, user: np.ndarray, context: pl.DataFrame) -> np.ndarray:
        scorer = self._scorer
        if scorer.scores_unknown_users:
            return self._checked(scorer.scores(user, context))
        active = np.flatnonzero(self._active[user])
        out = np.broadcast_to(self._popular, (len(user), len(self._popular))).copy()
        if len(active):
            active_context = context[active] if context.width else context  # no columns, no rows
            out[active] = self._checked(scorer.scores(user[active], active_context))
        return out

    def _checked(self, scores: np.ndarray) -> np.ndarray:
        if np.isnan(scores).any():
            name = type(self.recipe).__name__
            raise TrainingError(f"{name} returned NaN scores: fit it again with other options")
        return np.asarray(scores, np.float32)

    @cached_property
    def _active(self) -> np.ndarray:
        """bool [users + 1]: whether each user has events; index -1 is for unknown users."""
        return np.append(np.diff(self.seen.start) > 0, False)

    @cached_property
    def _popular(self) -> np.ndarray:
        """float32 [items]: the number of events of each item."""
        return tally(self.seen.column, len(self.space.items), self.seen.value).astype(np.float32)

    def _of_histories(self, user: np.ndarray, given: Rows, scores: np.ndarray) -> np.ndarray:
        """Replace the scores of queries with a history by scores of that and the user's items."""
        scorer = self._scorer
        with_history = np.flatnonzero(np.diff(given.start))
        if isinstance(scorer, Follows):
            new = scorer.following(given.take(with_history))
        elif isinstance(scorer, ScoresHistories):
            both = join_rows([self.seen_by(user), given]).take(with_history)
            items = add_repeats(group_rows(both.owner, both.column, both.size, both.value))
            new = scorer.history_scores(items)
        else:
            raise OptionError(
                f"{type(self.recipe).__name__} cannot use {named('history')}: it only knows the "
                "users it was trained on; fit it with the visitors' events, or use another model"
            )
        scores[with_history] = self._checked(new)
        return scores

    # Methods of every fitted model

    @property
    def at_once(self) -> int:
        return int(np.clip(SCORES_AT_ONCE // max(len(self.space.items), 1), 1, MAX_AT_ONCE))

    @cached_property
    def encoder(self) -> QueryEncoder:
        """The encoder of queries, without user attributes, which scorers handle themselves."""
        rows = empty_rows(len(self.space.users))
        why = f"cannot use {named('user_features')}: it knows users by their events"
        return QueryEncoder(
            self.space,
            self.id_lookup,
            rows,
            keeps_context=True,
            takes_no_features=f"{type(self.recipe).__name__} {why}",
        )

    def best(
        self,
        queries: Queries,
        chosen: np.ndarray | None,
        hidden: Rows,
        n: int,
        interactive: bool = False,
        apart: bool = False,
    ) -> Best:
        from fmpair.ranking.top import empty_lists, select

        scores = self._scores(queries.user, queries.context, queries.history)
        scores = np.ascontiguousarray(scores if chosen is None else scores[:, chosen])
        n = min(n, scores.shape[1])
        best, score, filled = empty_lists(len(scores), n)
        select(scores, 0, hidden.start, hidden.column, n, best, score, filled)
        return best, score, filled

    def score_rows(self, queries: Queries) -> ScoreRows:
        scores = self._scores(queries.user, queries.context, queries.history)
        return lambda part: np.ascontiguousarray(scores[part])

    def nearness(self, item: int, items: np.ndarray) -> np.ndarray:
        """Return the similarities of an item, the largest to another at most 1: float32 [items]."""
        near = np.array(self.item_similarity(item), np.float32)
        near[item] = 1.0
        return near[items] / max(float(np.abs(near).max()), 1.0)

    def pair_scores(self, queries: Queries, items: np.ndarray) -> np.ndarray:
        scores = self._scores(queries.user, queries.context, queries.history)
        return scores[np.arange(len(scores)), items]

    def item_similarity(self, item: int) -> np.ndarray:
        scorer = self._scorer
        if not isinstance(scorer, ComparesItems):
            self._cannot("compare items")
        return scorer.item_similarity(item)

    def user_similarity(self, user: int) -> np.ndarray:
        scorer = self._scorer
        if not isinstance(scorer, ComparesUsers):
            self._cannot("compare users")
        return scorer.user_similarity(user)

    def terms(self, queries: Queries, row: int, items: Sequence[int]) -> list[list[Term]]:
        user = int(queries.user[row])
        if user < 0 or queries.history is not None:
            self._cannot("explain scores of visitors: only of users it knows, without history")
        if not isinstance(self._scorer, Explains):
            self._cannot("explain scores")
        return [self._item_terms(self._scorer, user, item) for item in items]

    def _item_terms(self, scorer: Explains, user: int, item: int) -> list[Term]:
        labels, values = scorer.terms(user, item)
        if not (self._active[user] or self.scorer.scores_unknown_users):
            labels, values = ["a usual user"], self._popular[[item]]
        order = np.argsort(-np.abs(values), kind="stable")
        name = f"item={self.space.items.ids[item]}"
        return [(labels[i], name, float(values[i])) for i in order]

    def _cannot(self, what: str) -> NoReturn:
        raise OptionError(f"{type(self.recipe).__name__} cannot {what}")

    def damped(self, damping: float) -> Ranker:
        """Raise OptionError: damping needs an item bias."""
        self._cannot("be damped: its scores are not products of vectors with a constant per item")

    # New events

    @property
    def uses_last_events(self) -> bool:
        return isinstance(self.scorer, Follows)

    def extended(self, events: Any) -> Ranker:
        """Return the model with new events in its histories, without training; sequential only.

        events: later than the known events, in order if they have no times. Events of unknown
        users or items are ignored and counted.
        """
        if not self.uses_last_events:
            raise no_history()
        data = new_events(self.space, self.recipe, events)
        user, item, known = known_events(self.space, data)
        moment = moments(data)
        moment = np.arange(len(data), dtype=np.int64) if moment is None else moment
        scorer = self._following(user, item, moment[known])
        assert scorer is not None
        return replace(self, scorer=scorer, seen=with_pairs(self.seen, user, item))

    def in_service(self, user: np.ndarray, item: np.ndarray, moment: np.ndarray) -> Ranker:
        seen = with_pairs(self.seen, user, item) if len(user) else self.seen
        scorer = self._following(user, item, moment) if len(user) else None
        return replace(self, seen=seen, scorer=scorer or self.scorer, live=LiveState())

    def take_in(self, user: np.ndarray, item: np.ndarray, moment: np.ndarray) -> None:
        super().take_in(user, item, moment)
        if len(user) and self.live is not None:
            self.live.scorer = self._following(user, item, moment)

    def _following(self, user: np.ndarray, item: np.ndarray, moment: np.ndarray) -> Scorer | None:
        """Return the scorer with new events, None if it is not sequential."""
        scorer = self._scorer
        if not isinstance(scorer, Follows):
            return None
        return scorer.extended(timelines(user, item, len(self.space.users), moment))

    # Files

    def arrays(self) -> dict[str, np.ndarray]:
        scorer = {SCORER + name: array for name, array in self._scorer.arrays().items()}
        return scorer | arrays_of({"seen": self.seen})

    @classmethod
    def from_arrays(
        cls,
        space: FeatureSpace,
        arrays: Mapping[str, np.ndarray],
        recipe: Any,
        frame_kind: str = "polars",
    ) -> Ranker:
        """Return the model of these arrays; the recipe checks and rebuilds the scorer."""
        scorer = {
            name.removeprefix(SCORER): array
            for name, array in arrays.items()
            if name.startswith(SCORER)
        }
        rest = {name: array for name, array in arrays.items() if not name.startswith(SCORER)}
        seen = seen_from(check(rest, sparse("seen", len(space.users), len(space.items))))
        return cls(space, recipe.restore(scorer, space, seen), seen, recipe, frame_kind)
