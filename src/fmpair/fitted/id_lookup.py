"""Ids that somebody asks about, and what is said of those a model does not know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import DataError, UnknownError, listing, named, notice
from fmpair.errors import unknown as unknown_message
from fmpair.features import FeatureSpace

# What questions name, found by value and without frames: ids, and values of the context.


MOST_HELD = 250_000  # ids that are held as Python objects: about 100 bytes each
VALUES_KEPT = 4096  # of the context, whose features are kept
WHOLE = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)
PLAIN: dict[Any, type] = {pl.String: str, **dict.fromkeys(WHOLE, int)}


class Ids:
    """The ids of a vocabulary and their numbers; those of a large one are looked up there."""

    def __init__(self, known: Vocabulary):
        self.known = known
        self._type = PLAIN.get(known.ids.dtype.base_type())
        self._ids: list[Any] | None = None
        self._number: dict[Any, int] = {}
        if len(known) <= MOST_HELD:
            self._ids = known.ids.to_list()
            if self._type is not None:
                self._number = {value: number for number, value in enumerate(self._ids)}

    def number(self, value: Any) -> int:
        """The number of an id, -1 where unknown."""
        if type(value) is self._type and self._number:
            return self._number.get(value, -1)
        return self.known.number(value)

    def numbers(self, values: Sequence[Any]) -> np.ndarray:
        """int32 [values]: their numbers, -1 where unknown; values may be of several types."""
        kinds = {type(value) for value in values}
        if self._number and kinds == {self._type}:
            numbers = self._number
            return np.array([numbers.get(value, -1) for value in values], np.int32)
        out = np.full(len(values), -1, np.int32)
        for kind in kinds:  # by one search each, where there are many
            places = [place for place, value in enumerate(values) if type(value) is kind]
            if len(places) == 1:
                out[places] = self.number(values[places[0]])
            else:
                out[places] = self.known.numbers(pl.Series([values[place] for place in places]))
        return out

    def take(self, numbers: np.ndarray) -> list[Any]:
        """The ids of the given numbers."""
        if self._ids is None:
            return self.known.take(numbers).to_list()
        return [self._ids[number] for number in numbers.tolist()]


class Features(NamedTuple):
    """Features of the query: column int32 [n], value float32 [n]; unseen: the fields, by name,
    that do not know the value.
    """

    column: np.ndarray
    value: np.ndarray
    unseen: tuple[str, ...] = ()


class Known:
    """The ids of a model, and the features of context values, each worked out once."""

    def __init__(self, space: FeatureSpace):
        self.space = space
        self.context = tuple(space.context)
        self.users, self.items = Ids(space.users), Ids(space.items)
        # of the space alone: a cache that knew its owner would outlive the model
        self._kept: Callable[..., Features] = lru_cache(VALUES_KEPT)(partial(_worked_out, space))

    def __reduce__(self) -> tuple[type[Known], tuple[FeatureSpace]]:
        """Only the space travels to another process: what is kept is worked out again there."""
        return Known, (self.space,)

    def features(self, name: str, value: Any) -> Features:
        """Of a value of one column of the context."""
        try:
            return self._kept(name, value, type(value))  # 1, 1.0 and True are equal, and differ
        except TypeError:  # a list or a mapping, which cannot be kept by its value
            return _worked_out(self.space, name, value, type(value))


def _worked_out(space: FeatureSpace, name: str, value: Any, _: type) -> Features:
    try:
        frame = pl.DataFrame({name: [value]}, strict=False)
        rows, unseen = space.query.encode("context", frame, 1, False)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        raise DataError(f"context {name!r} cannot be {value!r}") from None
    return Features(rows.column, rows.value, tuple(unseen))


MOST_GUESSED = 50_000  # in larger catalogues the search for a similar id takes too long
SHOWN = 3  # ids of numbers or times, for an idea of what they look like


def ids_of(ids: Any) -> pl.Series:
    """One id, or any collection of ids, as a Series."""
    if hasattr(ids, "__array__") and not isinstance(ids, pl.Series):
        ids = np.atleast_1d(np.asarray(ids))  # of numpy, pandas or pyarrow
    if isinstance(ids, np.ndarray) and ids.dtype == object:
        ids = ids.tolist()
    if isinstance(ids, str | bytes) or not hasattr(ids, "__iter__"):
        ids = [ids]
    try:
        return pl.Series(ids if isinstance(ids, np.ndarray | pl.Series) else list(ids))
    except TypeError:
        raise DataError("the ids are of several types: give all of one type") from None


def number_of(what: str, value: Any, known: Vocabulary) -> int:
    """The number of a user or item id; an unknown one is refused with the nearest known."""
    number = known.number(value)
    if number >= 0:
        return number
    raise unknown_id(what, value, known.ids)


def unknown_id(what: str, value: Any, ids: pl.Series, most: int = MOST_GUESSED) -> UnknownError:
    """The error of an unknown id, with the nearest known; most: ids to be searched for that."""
    if ids.dtype == pl.String and len(ids) <= most:
        return UnknownError(unknown_message(what, value, ids.to_list()))
    return UnknownError(
        f"unknown {what} {value!r}: the model knows {len(ids):,} {what}s of type {ids.dtype}, "
        f"such as {listing(ids.head(SHOWN))}"
    )


def numbers_of(what: str, values: pl.Series, known: Vocabulary) -> np.ndarray:
    """int32 [values]: the numbers of ids, all of which must be known."""
    numbers = known.numbers(values)
    if (numbers < 0).any():
        number_of(what, values[int(np.argmax(numbers < 0))], known)
    return numbers


def known_only(option: str, items: pl.Series, known: Vocabulary, strict: bool) -> np.ndarray:
    """int32 [items]: the numbers of items an option names, -1 for those passed over and counted.

    strict: an unknown item is refused.
    """
    if strict:
        return numbers_of("item", items, known)
    numbers = known.numbers(items)
    missing = int((numbers < 0).sum())
    if missing:
        first = items[int(np.argmax(numbers < 0))]
        notice(
            f"{named(option)}: {missing:,} of {len(items):,} items are unknown and passed over, "
            f"the first is {first!r}; {named('unknown', 'error')} refuses them"
        )
    return numbers
