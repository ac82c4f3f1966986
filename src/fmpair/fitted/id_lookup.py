"""Lookup of ids, context values and user attributes, and the errors for unknown ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.arrays import Rows
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import DataError, UnknownError, listing
from fmpair.errors import unknown as unknown_message
from fmpair.features import FeatureSpace
from fmpair.features.vectors import owners_named

MAX_HELD = 250_000  # ids kept as Python objects: about 100 bytes each
VALUES_KEPT = 4096  # values whose features are cached
MAX_GUESSED = 50_000  # in larger catalogues the search for a similar id takes too long
EXAMPLE_IDS = 3  # in a message, if no similar id is searched for
WHOLE = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)
PLAIN: dict[Any, type] = {pl.String: str, **dict.fromkeys(WHOLE, int)}
CONTEXT, USER = "context", "user"  # roles of query columns
SPOKEN = {CONTEXT: "context", USER: "user feature"}  # what errors call a column of a role
OWNER = {CONTEXT: "the query", USER: "the user"}  # whose vector a value is


class Ids:
    """The ids of a vocabulary and their numbers.

    Uses a dictionary if the vocabulary is small and its ids are text or whole numbers.
    """

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary
        self._type = PLAIN.get(vocabulary.ids.dtype.base_type())
        self._ids: list[Any] | None = None
        self._number: dict[Any, int] = {}
        if len(vocabulary) <= MAX_HELD:
            self._ids = vocabulary.ids.to_list()
            if self._type is not None:
                self._number = {value: number for number, value in enumerate(self._ids)}

    def number(self, value: Any) -> int:
        """Return the number of an id, -1 if unknown."""
        if type(value) is self._type and self._number:
            return self._number.get(value, -1)
        return self.vocabulary.number(value)

    def numbers(self, values: Sequence[Any] | pl.Series) -> np.ndarray:
        """Return the numbers of ids of any types: int32 [values], -1 if unknown."""
        if isinstance(values, pl.Series):
            return self.vocabulary.numbers(values)
        types = {type(value) for value in values}
        if self._number and types == {self._type}:
            numbers = self._number
            return np.array([numbers.get(value, -1) for value in values], np.int32)
        out = np.full(len(values), -1, np.int32)
        for kind in types:  # one vectorized search per type
            positions = [i for i, value in enumerate(values) if type(value) is kind]
            if len(positions) == 1:
                out[positions] = self.number(values[positions[0]])
            else:
                series = pl.Series([values[i] for i in positions])
                out[positions] = self.vocabulary.numbers(series)
        return out

    def take(self, numbers: Sequence[int]) -> list[Any]:
        if self._ids is None:
            return self.vocabulary.take(np.array(numbers, np.int64)).to_list()
        return [self._ids[number] for number in numbers]


class Features(NamedTuple):
    """Query features of a value, in one row.

    unseen: the names of the fields in which the value was not seen in training.
    """

    rows: Rows
    unseen: tuple[str, ...] = ()


class IdLookup:
    """The ids of a feature space, and the features of its context values and user attributes.

    The features of the values used last are cached.

    users, items: their ids, if they are known from another space.
    """

    def __init__(self, space: FeatureSpace, users: Ids | None = None, items: Ids | None = None):
        self.space, self._users, self._items = space, users, items
        self.context = tuple(space.context)
        self.user_features = tuple(space.user_features)
        # bind the cache to the space only: a reference to self would keep self alive
        self._cached: Callable[..., Features] = lru_cache(VALUES_KEPT)(partial(_encoded, space))

    def __reduce__(self) -> tuple[type[IdLookup], tuple[FeatureSpace]]:
        """Pickle the space alone; the caches are rebuilt in the other process."""
        return IdLookup, (self.space,)

    @property
    def users(self) -> Ids:
        if self._users is None:
            self._users = Ids(self.space.users)
        return self._users

    @property
    def items(self) -> Ids:
        if self._items is None:
            self._items = Ids(self.space.items)
        return self._items

    def of_space(self, space: FeatureSpace) -> IdLookup:
        """Return the lookup of another space, which shares the ids that are the same."""
        users = self.users if space.users is self.space.users else None
        return IdLookup(space, users, self.items if space.items is self.space.items else None)

    def features(self, name: str, value: Any, role: str = CONTEXT) -> Features:
        """Return the features of a value of a context column, or of a user attribute."""
        kind = type(value)  # 1, 1.0 and True are equal but differ
        try:
            return self._cached(role, name, value, kind)
        except TypeError:  # an unhashable value, such as a list
            return _encoded(self.space, role, name, value, kind)


def _encoded(space: FeatureSpace, role: str, name: str, value: Any, _: type) -> Features:
    try:
        frame = pl.DataFrame({name: [value]}, strict=False)
        with owners_named(lambda _: OWNER[role]):
            rows, unseen = space.query.encode(role, frame, 1, False)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        raise DataError(f"{SPOKEN[role]} {name!r} cannot be {value!r}") from None
    return Features(rows, tuple(unseen))


def ids_of(ids: Any) -> pl.Series:
    """Return one id, or any collection of ids, as a Series."""
    if hasattr(ids, "__array__") and not isinstance(ids, pl.Series):
        ids = np.atleast_1d(np.asarray(ids))  # an array or series
    if isinstance(ids, np.ndarray) and ids.dtype == object:
        ids = ids.tolist()
    if isinstance(ids, str | bytes) or not hasattr(ids, "__iter__"):
        ids = [ids]
    try:
        return pl.Series(ids if isinstance(ids, np.ndarray | pl.Series) else list(ids))
    except TypeError:
        raise DataError("the ids are of several types: give all of one type") from None


def number_of(what: str, value: Any, vocabulary: Vocabulary) -> int:
    """Return the number of a user or item id; raise UnknownError if it is unknown."""
    number = vocabulary.number(value)
    if number >= 0:
        return number
    raise unknown_id(what, value, vocabulary.ids)


def unknown_id(what: str, value: Any, ids: pl.Series, most: int = MAX_GUESSED) -> UnknownError:
    """Return the error for an unknown id.

    It suggests the most similar id if ids are text and there are at most `most`.
    """
    if ids.dtype == pl.String and len(ids) <= most:
        return UnknownError(unknown_message(what, value, ids.to_list()))
    return UnknownError(
        f"unknown {what} {value!r}: the model knows {len(ids):,} {what}s of type {ids.dtype}, "
        f"such as {listing(ids.head(EXAMPLE_IDS))}"
    )


def item_numbers(
    values: Sequence[Any] | pl.Series, items: Ids, strict: bool, most: int = MAX_GUESSED
) -> np.ndarray:
    """Return the numbers of items: int32 [values], -1 if unknown; strict raises UnknownError.

    most: as in `unknown_id`.
    """
    numbers = items.numbers(values)
    if strict and (numbers < 0).any():
        first = values[int(np.argmax(numbers < 0))]
        raise unknown_id("item", first, items.vocabulary.ids, most)
    return numbers
