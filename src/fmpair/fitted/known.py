"""What questions name, found by value and without frames: ids, and values of the context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import DataError
from fmpair.features import FeatureSpace

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
