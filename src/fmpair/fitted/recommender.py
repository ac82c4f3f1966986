"""`Recommender`, the fitted model of vectors, and its arrays in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from fmpair import checks
from fmpair.arrays import Rows, empty_rows
from fmpair.checks import known_options_only
from fmpair.data import Dataset
from fmpair.data.frame import from_polars
from fmpair.engine.contract import Parameters
from fmpair.errors import ModelFileError, UnknownError
from fmpair.features import FeatureSpace
from fmpair.features.history_fields import history_weights
from fmpair.fitted.explanation import terms_of
from fmpair.fitted.factor_model import FactorModel
from fmpair.fitted.file_checks import (
    Moments,
    Numbers,
    Places,
    Starts,
    Table,
    arrays_of,
    check,
    largest,
    longest,
    reach,
    refuse_overflow,
    rows_from,
    seen_from,
    sparse,
)
from fmpair.fitted.history import (
    LiveState,
    Recent,
    known_events,
    moments_after,
    most_recent,
    new_events,
    new_to,
    no_history,
    remembers,
    with_events,
    with_pairs,
)
from fmpair.fitted.question import Queries, Term, query_frame
from fmpair.fitted.visitor import settle_cold

ROWS = ("user_rows", "item_rows", "seen")
RARE = 64  # fewer new events than one in 64 are stored apart, so that processes share the tables


@dataclass(frozen=True)
class Recommender(FactorModel):
    """A fitted model that scores by one vector per query and one per item."""

    def __repr__(self) -> str:
        context = f", context {', '.join(self.space.context)}" if self.space.context else ""
        context += f", last {self.space.history.last} items" if self.space.history else ""
        return (
            f"Recommender({type(self.recipe).__name__}, {len(self.space.users):,} users, "
            f"{len(self.space.items):,} items{context})"
        )

    @known_options_only
    def recommend_users(
        self,
        item: Any,
        n: int = 10,
        *,
        context: Mapping[str, Any] | None = None,
        time: Any = None,
        exclude_seen: bool = True,
    ) -> pl.DataFrame:
        """Return the n users whose score of an item exceeds their mean score most.

        Raw scores of different users are not comparable: user biases cancel in rankings, so they
        are not learned. Differences from a user's mean score are comparable.
        """
        checks.whole("n", n, 1)
        queries = self.queries(query_frame(self.space, None, context, time=time), "error")
        number = self.item_number(item)
        if not len(queries.user):
            raise UnknownError("the model knows no users")
        direction = self.item_vectors[number] - self.item_vectors.mean(axis=0)
        score = self.vectors(queries) @ direction
        score = score + (self.item_constants[number] - self.item_constants.mean())
        allowed = np.ones(len(score), bool)
        if exclude_seen:
            allowed[self.seen.owner[self.seen.column == number]] = False
        order = np.flatnonzero(allowed)[np.argsort(-score[allowed], kind="stable")][:n]
        ranked = pl.DataFrame({"score": score[order], "rank": np.arange(1, len(order) + 1)})
        users = queries.shown.drop(ranked.columns, strict=False)[order]
        return from_polars(users.hstack(ranked), self.frame_kind)

    def terms(self, queries: Queries, row: int, items: Sequence[int]) -> list[list[Term]]:
        return terms_of(self, queries, row, items)

    def damped(self, damping: float) -> Recommender:
        """Return the model with scores penalized by popularity, for less popular lists.

        damping: 0 keeps the scores, 1 removes the effect of popularity, negative values promote
        popular items. Vectors and similarities do not change.
        """
        checks.number("damping", damping)
        return replace(self, damping=float(damping))

    # New events

    @property
    def uses_last_events(self) -> bool:
        return self.recent is not None

    def extended(self, events: Any) -> Recommender:
        """Return the model with new events in its histories, without training.

        events: a frame or Dataset. Events of unknown users or items are ignored and counted.
        """
        data = new_events(self.space, self.recipe, events)
        if self.recent is None:
            raise no_history()
        user, item, known = known_events(self.space, data)
        moment = moments_after(self.recent, data)[known]
        recent = with_events(self.recent, user, item, moment, most_recent(self.space))
        return replace(self, seen=with_pairs(self.seen, user, item), recent=recent)

    def in_service(self, user: np.ndarray, item: np.ndarray, moment: np.ndarray) -> Recommender:
        if len(user) * RARE <= len(self.seen.column):
            latest = 0 if self.recent is None else self.recent.latest
            served = replace(self, live=LiveState(latest=latest))
            served.take_in(user, item, moment)
            return served
        seen, recent, live = with_pairs(self.seen, user, item), self.recent, LiveState()
        if recent is not None:
            new = new_to(recent, user, item, moment)
            events = user[new], item[new], moment[new].astype(np.int64)
            recent = with_events(recent, *events, most_recent(self.space))
            live.latest = recent.latest
        return replace(self, seen=seen, recent=recent, live=live)

    # Files

    def arrays(self) -> dict[str, np.ndarray]:
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
        """Return the model of these arrays; raise ModelFileError if they are not valid."""
        checked = check(arrays, _table(space))
        parameters = Parameters(*(checked[name] for name in Parameters._fields))
        if space.pairing is not None and parameters.users.shape[1] <= space.pairing.factors:
            raise ModelFileError("its vectors are too short for pairs and triples")
        users, items = rows_from(checked, "user_rows"), rows_from(checked, "item_rows")
        refuse_overflow(*_extremes(space, parameters, users, items, damping))
        recent = None
        if remembers(space):
            recent = Recent(*(checked[f"recent.{part}"] for part in Recent._fields))
        seen = seen_from(checked)
        return cls(space, parameters, users, items, seen, recipe, frame_kind, damping, recent)


def _table(space: FeatureSpace) -> Table:
    """Return the expected shapes and types of the arrays of a Recommender."""
    users, items = len(space.users), len(space.items)
    query, features = space.query.size, space.item.size
    table: Table = {
        "users": Numbers((users, "factors")),
        "items": Numbers((items, "factors")),
        "item_bias": Numbers((items,)),
        "query": Numbers((query, "factors")),
        "features": Numbers((features, "factors")),
        "feature_bias": Numbers((features,)),
        **sparse("user_rows", users, query),
        **sparse("item_rows", items, features),
        **sparse("seen", users, items),
    }
    if not remembers(space):
        return table
    return {
        **table,
        "recent.start": Starts((users + 1,), "recent events"),
        "recent.item": Places(("recent events",), items),
        "recent.moment": Moments(("recent events",)),
    }


def _extremes(
    space: FeatureSpace, p: Parameters, user_rows: Rows, item_rows: Rows, damping: float
) -> tuple[float, ...]:
    """Return upper bounds of the values that any query can produce."""
    context = sum(encoder.reach for encoder in space.query.encoders) * largest(p.query)
    query = largest(p.users) + reach(user_rows, p.query) + context
    if space.history is not None:
        past = longest(space.earlier_items(item_rows)) * largest(p.query)
        query += float(history_weights(space.history).sum()) * past
    item = largest(p.items) + largest(p.features) + reach(item_rows, p.features)
    bias = largest(p.item_bias) + reach(item_rows, p.feature_bias[:, None])
    scores = p.users.shape[1] * (query + item) * (query + item) + bias
    if space.pairing is not None:
        scores += space.pairing.factors * query * item * (query + item)
    return scores * (1 + abs(damping)), largest(item_rows.value) * largest(item_rows.value)


def from_factors(
    recipe: Any,
    data: Dataset,
    users: np.ndarray,
    items: np.ndarray,
    item_bias: np.ndarray | None = None,
    space: FeatureSpace | None = None,
) -> Recommender:
    """Return a model whose scores are inner products of [users, k] and [items, k] plus a bias.

    space: by default that of the data, so that queries may have contexts, which have no effect.
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
