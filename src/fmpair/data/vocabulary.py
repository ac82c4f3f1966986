"""Ids of any type and their numbers."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from fmpair.errors import DataError
from fmpair.threads import check_process

# The numbers of ids by their hashes: a lookup takes as long among millions as among a few.


class HashIndex(NamedTuple):
    """12 bytes an id. hashes: uint64 [ids], ascending; number: int32 [ids], whose hash each is."""

    hashes: np.ndarray
    number: np.ndarray

    @classmethod
    def of(cls, ids: pl.Series) -> HashIndex:
        hashes = hashes_of(ids)
        order = np.argsort(hashes).astype(np.int32)
        return cls(hashes[order], order)

    def extended(self, ids: pl.Series) -> HashIndex:
        """With the hashes of ids that come after those it was made of."""
        more = HashIndex.of(ids)
        place = np.searchsorted(self.hashes, more.hashes)
        number = np.int32(len(self.number)) + more.number
        return HashIndex(
            np.insert(self.hashes, place, more.hashes), np.insert(self.number, place, number)
        )

    def numbers(self, ids: pl.Series, wanted: pl.Series) -> np.ndarray:
        """int32 [wanted]: the number of each among the ids the index was made of, -1 where it is
        none of them or null. Both are of the same type.
        """
        found = np.full(len(wanted), -1, np.int32)
        hashes = hashes_of(wanted)
        place = np.searchsorted(self.hashes, hashes)
        end = np.searchsorted(self.hashes, hashes, side="right")
        asked = np.flatnonzero(place < end)
        while len(asked):  # once, but for different ids of one hash
            number = self.number[place[asked]]
            equal = ids[number] == (wanted if len(asked) == len(wanted) else wanted[asked])
            same = equal.to_numpy().astype(bool)  # null, which equals nothing, is False
            found[asked[same]] = number[same]
            place[asked] += 1
            asked = asked[~same & (place[asked] < end[asked])]
        return found


def can_index(dtype: pl.DataType) -> bool:
    """Whether equal values of a type have equal hashes, wherever they come from."""
    apart = (pl.Categorical, pl.Enum, pl.Object, pl.Null, pl.Unknown)
    return not (dtype.is_nested() or isinstance(dtype, apart))


def hashes_of(values: pl.Series) -> np.ndarray:
    """uint64 [values]: equal for equal values of one type."""
    return values.to_frame().hash_rows().to_numpy()


# Up to so many values, or one for so many ids, are found sooner one by one than by a join.
FEW, IDS_EACH = 256, 16


class Vocabulary:
    """Distinct ids in a fixed order; number n stands for ids[n]. Immutable."""

    def __init__(self, ids: pl.Series):
        self.ids = ids.rename("id")

    @classmethod
    def of(cls, values: pl.Series) -> Vocabulary:
        """The distinct values, in order of first appearance, nulls left out."""
        check_process()
        return cls(as_plain(values).drop_nulls().unique(maintain_order=True))

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} ids of type {self.ids.dtype})"

    def __reduce__(self) -> tuple[type[Vocabulary], tuple[pl.Series]]:
        """Only the ids travel to another process: what is derived from them is made again there."""
        return Vocabulary, (self.ids,)

    @cached_property
    def _index(self) -> HashIndex:
        return HashIndex.of(self.ids)

    @cached_property
    def _table(self) -> pl.DataFrame:
        return pl.DataFrame(
            {"id": self.ids, "number": np.arange(len(self), dtype=np.int32)},
        )

    def numbers(self, values: pl.Series) -> np.ndarray:
        """int32 [len(values)]: the number of each value, -1 where unknown or null."""
        check_process()
        wanted = comparable(as_plain(values), self.ids.dtype)
        if wanted is None:
            return np.full(len(values), -1, np.int32)
        if len(wanted) <= max(len(self) // IDS_EACH, FEW) and can_index(self.ids.dtype):
            return self._index.numbers(self.ids, wanted)
        found = (
            wanted.rename("id")
            .to_frame()
            .join(self._table, on="id", how="left", maintain_order="left")
        )
        return found["number"].fill_null(-1).to_numpy().astype(np.int32)

    def number(self, value: object) -> int:
        """The number of one value, -1 where unknown."""
        try:
            return int(self.numbers(pl.Series([value]))[0])
        except (TypeError, pl.exceptions.PolarsError):
            return -1

    def extend(self, values: pl.Series) -> Vocabulary:
        """With the values not yet known appended; the known keep their numbers."""
        check_process()
        plain = comparable(as_plain(values), self.ids.dtype)
        if plain is None:
            raise DataError(
                f"ids of type {values.dtype} do not fit those of type {self.ids.dtype}: "
                "give both the same type"
            )
        new = plain.filter(pl.Series(self.numbers(plain) < 0)).drop_nulls()
        if not len(new):
            return self
        new = new.unique(maintain_order=True).rename("id")
        grown = Vocabulary(pl.concat([self.ids, new]))
        if "_index" in self.__dict__:
            grown._index = self._index.extended(new)  # sooner than to hash all of them again
        return grown

    def take(self, numbers: np.ndarray) -> pl.Series:
        """The ids of the given numbers."""
        check_process()
        return self.ids[numbers]


def as_plain(values: pl.Series) -> pl.Series:
    """Categories as their text, floats that are NaN as null; everything else unchanged."""
    if isinstance(values.dtype, pl.Categorical | pl.Enum):
        return values.cast(pl.String)
    return values.fill_nan(None) if values.dtype.is_float() else values


def comparable(values: pl.Series, dtype: pl.DataType) -> pl.Series | None:
    """Values in the type of the known ids, None where the two can never be equal.

    Text is read as the known type, so that a command line can name numeric ids.
    """
    if values.dtype == dtype:
        return values
    if values.dtype == pl.Null:
        return values.cast(dtype)
    safe = (values.dtype.is_integer() and dtype.is_numeric()) or values.dtype == pl.String
    safe = safe or (values.dtype.is_float() and dtype.is_float())  # Python has one length only
    whole = values.dtype.is_float() and dtype.is_integer() and (values == values.floor()).all()
    if safe or whole or (values.dtype.is_temporal() and dtype.is_temporal()):
        with suppress(pl.exceptions.PolarsError):  # such as text as a truth value
            if values.dtype == pl.String and dtype == pl.Date:
                return values.str.to_date("%Y-%m-%d", strict=False)
            if values.dtype == pl.String and isinstance(dtype, pl.Datetime):
                return _datetimes(values, dtype)
            return values.cast(dtype, strict=False)
    return None


def _datetimes(values: pl.Series, dtype: pl.Datetime) -> pl.Series:
    """Text such as 2024-01-31T18:30:00, with a zone where the ids have one."""
    form = "%Y-%m-%dT%H:%M:%S%.f" + ("%#z" if dtype.time_zone else "")
    read = values.str.replace(" ", "T", literal=True).str.to_datetime(
        form, time_unit=dtype.time_unit, strict=False
    )
    return read.cast(dtype)
