"""Models of similar items and users: ItemKNN, UserKNN and EASE, ContentProfile and ContentKNN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

from fmpair import checks
from fmpair.arrays import Rows, add_repeats, group_rows, join_rows, tally
from fmpair.checks import check_item_pairs
from fmpair.data import Dataset, as_dataset
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import DataError, named
from fmpair.features import FeatureSpace
from fmpair.features.encoder import Encoder
from fmpair.features.space import Side
from fmpair.fitted.file_checks import (
    Numbers,
    arrays_of,
    check,
    largest,
    longest,
    refuse_overflow,
    rows_from,
    sparse,
)
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recipe import Recipe
from fmpair.fitted.scorers import ItemNeighbours, UserNeighbours
from fmpair.training.options import WEIGHTS, log_weights

SCHEMES = ("plain", "tf-idf", "bm25")
SATURATION, LENGTH = 1.2, 0.75  # k1 and b of BM25


def interactions(data: Dataset, weights: str) -> Rows:
    """Return the items of each user; values depend on w, the sum of the event weights of a pair.

    weights: none (1 for every pair), log (1 + ln w if w >= 1, else w), linear (w).
    """
    if not len(data):
        raise DataError("there are no events to learn from")
    if weights == "none":
        return data.seen._replace(value=np.ones(len(data.seen.column), np.float32))
    rows = add_repeats(group_rows(data.user, data.item, len(data.users), data.weight))
    if weights == "linear":
        return rows
    return rows._replace(value=log_weights(rows.value).astype(np.float32))


def weighted(rows: Rows, columns: int, scheme: str) -> Rows:
    """Return the rows with larger values for rare columns.

    idf(column) = ln(1 + rows / rows with the column); tf-idf: sqrt(value) * idf;
    bm25: idf * value * (k1 + 1) / (value + k1 * (1 - b + b * length / mean length)).
    """
    if scheme == "plain":
        return rows
    idf = _idf(rows, columns)
    if scheme == "tf-idf":
        return rows._replace(value=(np.sqrt(rows.value) * idf).astype(np.float32))
    lengths = np.diff(rows.start)
    relative = lengths / max(lengths[lengths > 0].mean(), 1)
    spread = SATURATION * (1 - LENGTH + LENGTH * relative[rows.owner])
    value = idf * rows.value * (SATURATION + 1) / (rows.value + spread)
    return rows._replace(value=value.astype(np.float32))


def _idf(rows: Rows, columns: int) -> np.ndarray:
    """Return ln(1 + rows / rows with the column) of each entry: float64 [entries]."""
    return np.log1p(rows.size / np.maximum(tally(rows.column, columns), 1))[rows.column]


@dataclass(frozen=True)
class ItemKNN(Recipe):
    """ItemKNN: sums of the cosines between an item and the user's items among its neighbours.

    k: neighbours per item.
    shrinkage: added to the denominator of the cosine, against chance on few users.
    scheme: weight of users in the cosine: plain, or less for users of many items: tf-idf, bm25.
    weights: how the events of a pair count: none (1), log (1 + ln w), linear (w).
    threads: None uses all cores; the model does not depend on it.
    """

    k: int = 100
    shrinkage: float = 10.0
    scheme: str = "tf-idf"
    weights: str = "none"
    threads: int | None = None

    def __post_init__(self) -> None:
        _check(self)

    def fit(self, data: Any) -> Ranker:
        from fmpair.solvers.linear_algebra import nearest, turned

        events = as_dataset(data)
        rows, items = interactions(events, self.weights), len(events.items)
        compared = weighted(turned(rows, items), len(events.users), self.scheme)
        near = nearest(compared, len(events.users), self.k, self.shrinkage, self.threads)
        return Ranker.of(self, events, ItemNeighbours(rows, near, events.items))

    def restore(
        self, arrays: Mapping[str, np.ndarray], space: FeatureSpace, seen: Rows
    ) -> ItemNeighbours:
        return ItemNeighbours.restored(arrays, space)


@dataclass(frozen=True)
class UserKNN(Recipe):
    """UserKNN: sums of the cosines between a user and the neighbours who have an item.

    k: neighbours per user.
    shrinkage: added to the denominator of the cosine, against chance on few items.
    scheme: weight of items in the cosine: plain, or less for popular items: tf-idf, bm25.
    weights: how the events of a pair count: none (1), log (1 + ln w), linear (w).
    threads: None uses all cores; the model does not depend on it.
    """

    k: int = 100
    shrinkage: float = 10.0
    scheme: str = "tf-idf"
    weights: str = "none"
    threads: int | None = None

    def __post_init__(self) -> None:
        _check(self)

    def fit(self, data: Any) -> Ranker:
        from fmpair.solvers.linear_algebra import nearest

        events = as_dataset(data)
        rows, items = interactions(events, self.weights), len(events.items)
        compared = weighted(rows, items, self.scheme)
        near = nearest(compared, items, self.k, self.shrinkage, self.threads)
        return Ranker.of(self, events, UserNeighbours(rows, near, events.users, items))

    def restore(
        self, arrays: Mapping[str, np.ndarray], space: FeatureSpace, seen: Rows
    ) -> UserNeighbours:
        return UserNeighbours.restored(arrays, space)


def _check(recipe: ItemKNN | UserKNN) -> None:
    checks.whole("k", recipe.k, 1)
    checks.not_negative("shrinkage", recipe.shrinkage)
    checks.one_of("scheme", recipe.scheme, SCHEMES)
    checks.one_of("weights", recipe.weights, WEIGHTS)
    checks.threads(recipe.threads)


@dataclass(frozen=True)
class EASE(Recipe):
    """EASE: predicts every item from the user's other items by ridge regression, in closed form.

    regularization: lambda, added to the diagonal of the items' inner products.
    weights: how the events of a pair count: none (1), log (1 + ln w), linear (w).
    max_gb: memory limit; it needs 24 bytes for every pair of items.
    threads: None uses all cores.
    """

    regularization: float = 500.0
    weights: str = "none"
    max_gb: float = 8.0
    threads: int | None = None

    def __post_init__(self) -> None:
        checks.positive("regularization", self.regularization)
        checks.positive("max_gb", self.max_gb)
        checks.one_of("weights", self.weights, WEIGHTS)
        checks.threads(self.threads)

    def fit(self, data: Any) -> Ranker:
        from fmpair.solvers.linear_algebra import gram

        events = as_dataset(data)
        items = len(events.items)
        check_item_pairs("EASE", items, 24, self.max_gb)
        rows = interactions(events, self.weights)
        square = gram(rows, items, self.threads).astype(np.float64)
        square[np.diag_indices(items)] += self.regularization
        with threadpool_limits(self.threads, user_api="blas"):
            inverse = np.linalg.inv(square)
        inverse /= -np.diag(inverse)  # by column: B = -P / diag(P)
        inverse[np.diag_indices(items)] = 0
        return Ranker.of(self, events, ItemWeights(rows, inverse.astype(np.float32), events.items))

    def restore(
        self, arrays: Mapping[str, np.ndarray], space: FeatureSpace, seen: Rows
    ) -> ItemWeights:
        items = len(space.items)
        table = {"weights": Numbers((items, items)), **sparse("own", len(space.users), items)}
        checked = check(arrays, table)
        scorer = ItemWeights(rows_from(checked, "own"), checked["weights"], space.items)
        refuse_overflow(longest(scorer.histories) * largest(scorer.weights))
        return scorer


@dataclass(frozen=True, eq=False)
class ItemWeights:
    """score(user, item) = sum over the user's items j of histories[user, j] * weights[j, item]."""

    histories: Rows
    weights: np.ndarray
    items: Vocabulary
    scores_unknown_users: ClassVar[bool] = False

    def scores(self, users: np.ndarray, context: pl.DataFrame) -> np.ndarray:
        return self.history_scores(self.histories.take(users))

    def history_scores(self, history: Rows) -> np.ndarray:
        """Return the scores of visitors with these items: float32 [n, items]."""
        dense = np.zeros((history.size, len(self.items)), np.float32)
        dense[history.owner, history.column] = history.value
        return dense @ self.weights

    def terms(self, user: int, item: int) -> tuple[list[str], np.ndarray]:
        """Return the labels of the user's items and their terms of the score."""
        history = self.histories.take(np.array([user]))
        labels = [f"item={name}" for name in self.items.take(history.column)]
        return labels, history.value * self.weights[history.column, item]

    def item_similarity(self, item: int) -> np.ndarray:
        """Return the weights from this item to every item: float32 [items]."""
        return self.weights[item]

    def arrays(self) -> dict[str, np.ndarray]:
        return {**arrays_of({"own": self.histories}), "weights": self.weights}


# Content: the attributes of items, by which items without events are ranked too.


def content_of(space: FeatureSpace, data: Dataset, rarity: float) -> Rows:
    """Return the content of each item over the features of the item side, as unit vectors."""
    if not space.item.encoders:
        raise DataError(
            f"there are no attributes of items to compare them by: give a table with "
            f"{named('items')}, or columns of the events with {named('item_columns')}"
        )
    blocks = []
    for first, encoder in space.item.of_role("item"):
        rows = _block(encoder, data, rarity)
        blocks.append(rows._replace(column=(rows.column + first).astype(np.int32)))
    return _unit(join_rows(blocks))


def _block(encoder: Encoder, data: Dataset, rarity: float) -> Rows:
    """Return the features of one field; rows have length one at most, so that fields count equally.

    A standardised number z is z / sqrt(1 + z^2). Values of a vocabulary are weighted by
    idf^rarity, idf = ln(1 + items / items with the value); bins, flags and vectors are not.
    """
    values = encoder.values(data.item_table)
    assert values is not None  # the encoder was fitted to this table
    rows = replace(encoder, owners=()).encode(values)[0]  # plain lists, weighted below
    if encoder.field.kind == "numeric":
        return rows._replace(value=rows.value / np.sqrt(1 + rows.value**2))
    if encoder.vocabulary is not None:
        rows = rows._replace(value=rows.value * _idf(rows, encoder.size) ** rarity)
    return _unit(rows)


def _unit(rows: Rows) -> Rows:
    """Return rows of length one; rows of zeros stay."""
    value = rows.value.astype(np.float64)
    length = np.sqrt(np.bincount(rows.owner, value**2, minlength=rows.size))
    length[length == 0] = 1
    return rows._replace(value=(value / length[rows.owner]).astype(np.float32))


@dataclass(frozen=True)
class ContentProfile(Recipe):
    """Content profile: the cosine of an item's attributes and the sum of those of the user's items.

    It ranks items without events too. Attributes of all kinds are used, each with equal weight.
    rarity: power of the inverse document frequency of a value: 0 weights all values equally, 1 is
        TF-IDF.
    weights: how the events of a pair count: none (1), log (1 + ln w), linear (w).
    """

    rarity: float = 1.5
    weights: str = "none"

    def __post_init__(self) -> None:
        checks.not_negative("rarity", self.rarity)
        checks.one_of("weights", self.weights, WEIGHTS)

    def fit(self, data: Any) -> Ranker:
        events = as_dataset(data)
        histories, space = interactions(events, self.weights), FeatureSpace.fit(events)
        scorer = ProfileScorer(histories, content_of(space, events, self.rarity), space.item)
        return Ranker(space, scorer, events.seen, self, events.frame_kind)

    def restore(
        self, arrays: Mapping[str, np.ndarray], space: FeatureSpace, seen: Rows
    ) -> ProfileScorer:
        items = len(space.items)
        table = {
            **sparse("own", len(space.users), items),
            **sparse("content", items, space.item.size),
        }
        checked = check(arrays, table)
        histories, content = rows_from(checked, "own"), rows_from(checked, "content")
        refuse_overflow(longest(histories) * largest(content.value), longest(content))
        return ProfileScorer(histories, content, space.item)


@dataclass(frozen=True)
class ContentKNN(Recipe):
    """ItemKNN by content: sums of the cosines of an item's and its neighbours' attributes.

    It ranks items without events too. Attributes of all kinds are used, each with equal weight.
    k: neighbours per item.
    rarity: power of the inverse document frequency of a value: 0 weights all values equally, 1 is
        TF-IDF.
    weights: how the events of a pair count: none (1), log (1 + ln w), linear (w).
    threads: None uses all cores; the model does not depend on it.
    """

    k: int = 200
    rarity: float = 1.5
    weights: str = "none"
    threads: int | None = None

    def __post_init__(self) -> None:
        checks.whole("k", self.k, 1)
        checks.not_negative("rarity", self.rarity)
        checks.one_of("weights", self.weights, WEIGHTS)
        checks.threads(self.threads)

    def fit(self, data: Any) -> Ranker:
        from fmpair.solvers.linear_algebra import nearest

        events = as_dataset(data)
        histories, space = interactions(events, self.weights), FeatureSpace.fit(events)
        content = content_of(space, events, self.rarity)
        near = nearest(content, space.item.size, self.k, 0.0, self.threads)
        scorer = ItemNeighbours(histories, near, events.items)
        return Ranker(space, scorer, events.seen, self, events.frame_kind)

    def restore(
        self, arrays: Mapping[str, np.ndarray], space: FeatureSpace, seen: Rows
    ) -> ItemNeighbours:
        return ItemNeighbours.restored(arrays, space)


@dataclass(frozen=True, eq=False)
class ProfileScorer:
    """score(user, item) = profile . content[item].

    profile: the sum over items j of histories[user, j] * content[j], scaled to length one, so that
    scores are cosines.
    histories: per user their items; content: per item its features; side: their names.
    """

    histories: Rows
    content: Rows
    side: Side
    scores_unknown_users: ClassVar[bool] = False

    @cached_property
    def _items_by_feature(self) -> Rows:
        from fmpair.solvers.linear_algebra import turned

        return turned(self.content, self.side.size)

    def _compared(self, rows: Rows) -> np.ndarray:
        """Return the inner products of rows of features with all items: float32 [rows, items]."""
        from fmpair.solvers.linear_algebra import product

        return product(rows, self._items_by_feature, self.content.size)

    def _profiles(self, history: Rows) -> Rows:
        across = self.content.take(history.column)
        value = history.value[across.owner] * across.value
        owner = history.owner[across.owner]
        return _unit(add_repeats(group_rows(owner, across.column, history.size, value)))

    def scores(self, users: np.ndarray, context: pl.DataFrame) -> np.ndarray:
        return self.history_scores(self.histories.take(users))

    def history_scores(self, history: Rows) -> np.ndarray:
        """Return float32 [n, items] for visitors with these items."""
        return self._compared(self._profiles(history))

    def terms(self, user: int, item: int) -> tuple[list[str], np.ndarray]:
        """Return what each attribute that the item shares with the user's items adds."""
        profile = self._profiles(self.histories.take(np.array([user])))
        item_content = self.content.take(np.array([item]))
        shared, a, b = np.intersect1d(profile.column, item_content.column, return_indices=True)
        return [self.side.label(int(f)) for f in shared], profile.value[a] * item_content.value[b]

    def item_similarity(self, item: int) -> np.ndarray:
        """Return the cosines with an item's content: float32 [items]."""
        return self._compared(self.content.take(np.array([item])))[0]

    def arrays(self) -> dict[str, np.ndarray]:
        return arrays_of({"own": self.histories, "content": self.content})
