"""Lookup of ids, context values and user attributes, and the errors for unknown ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.arrays import Rows
from fmpair.data.vocabulary import Vocabulary, plain_form
from fmpair.errors import DataError, UnknownError, listing, nearest
from fmpair.features import FeatureSpace
from fmpair.features.vectors import owners_named

MAX_HELD = 250_000  # ids kept as Python objects: about 100 bytes each
VALUES_KEPT = 4096  # values whose features are cached
MAX_GUESSED = 50_000  # in larger catalogues the search for a similar id takes too long
MAX_RESPELLED = 150_000  # in larger ones also the search for the same id in another form
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
    """Return the error for an unknown id, which suggests the same id in another form.

    Without one it suggests the most similar id, if ids are text and there are at most `most`.
    """
    guess, few = _respelled(value, ids), ids.dtype == pl.String and len(ids) <= most
    if guess is None and few:
        guess = nearest(value, ids)
    hint = "" if guess is None else f" Did you mean {_quoted(guess)}?"
    if few:
        known = listing(map(_quoted, ids)) or "none"
        return UnknownError(f"unknown {what} {str(value)!r}.{hint} Known: {known}")
    examples = listing(map(_quoted, ids.head(EXAMPLE_IDS)))
    return UnknownError(
        f"unknown {what} {value!r}{'.' if hint else ':'}{hint} "
        f"{'The' if hint else 'the'} model knows {len(ids):,} {what}s of type {ids.dtype}, "
        f"such as {examples}"
    )


def shown_first(value: Any, ids: pl.Series) -> str:
    """Return the first unknown id of several for a message, with the known one it may stand for."""
    guess = _respelled(value, ids)
    return repr(value) if guess is None else f"{value!r} (did you mean {_quoted(guess)}?)"


def _quoted(known: Any) -> str:
    """Return an id as a message shows it: numbers as they are, all others in quotes."""
    return repr(known if isinstance(known, int | float) else str(known))


def _respelled(value: Any, ids: pl.Series) -> Any:
    """Return the known id that differs from a value only in form, None if there is none."""
    wanted = plain_form(pl.Series([str(value)]))[0]
    if not wanted or len(ids) > MAX_RESPELLED:
        return None
    texts = ids.cast(pl.String)
    # few ids hold the text, and only theirs are worth the further steps
    some = ids.filter(texts.str.to_lowercase().str.contains(wanted, literal=True))
    alike = some.filter(plain_form(some.cast(pl.String)) == wanted).to_list()
    plain = str(value).strip()
    return min(alike, key=lambda known: abs(len(str(known)) - len(plain)), default=None)


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
