"""Content-based models: ContentProfile and ContentKNN, which also rank items without events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl

from fmpair import checks
from fmpair.arrays import Rows, add_repeats, group_rows, join_rows, tally
from fmpair.data import Dataset, as_dataset
from fmpair.errors import DataError, named
from fmpair.features import FeatureSpace
from fmpair.features.encoder import Encoder
from fmpair.features.space import Side
from fmpair.fitted.file_checks import (
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
from fmpair.fitted.scorers import ItemNeighbours
from fmpair.models.classic.neighbours import interactions
from fmpair.training.options import WEIGHTS


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
        idf = np.log1p(rows.size / np.maximum(tally(rows.column, encoder.size), 1))
        rows = rows._replace(value=rows.value * idf[rows.column] ** rarity)
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
