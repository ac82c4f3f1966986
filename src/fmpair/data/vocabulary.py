"""Vocabularies: ids of any type and their numbers."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from fmpair.errors import DataError
from fmpair.threads import check_process

# This many values, or one value per this many ids, are faster to look up by hash than by a join.
FEW, IDS_EACH = 256, 16


class Vocabulary:
    """Distinct ids in a fixed order; the number of ids[n] is n. Immutable.

    index: the hash index of the ids, if it is known; else it is built when it is needed.
    """

    def __init__(self, ids: pl.Series, index: HashIndex | None = None):
        self.ids = ids.rename("id")
        self._known_index = index

    @classmethod
    def of(cls, values: pl.Series) -> Vocabulary:
        """Build a vocabulary of the distinct values, in order of first appearance, no nulls."""
        check_process()
        return cls(as_plain(values).drop_nulls().unique(maintain_order=True))

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} ids of type {self.ids.dtype})"

    def __reduce__(self) -> tuple[type[Vocabulary], tuple[pl.Series]]:
        """Pickle the ids only: the indexes are built again when needed."""
        return Vocabulary, (self.ids,)

    @property
    def _index(self) -> HashIndex:
        if self._known_index is None:
            self._known_index = HashIndex.of(self.ids)
        return self._known_index

    @cached_property
    def _table(self) -> pl.DataFrame:
        return pl.DataFrame({"id": self.ids, "number": np.arange(len(self), dtype=np.int32)})

    def numbers(self, values: pl.Series) -> np.ndarray:
        """int32 [values]: the number of each value, -1 if unknown or null."""
        check_process()
        wanted = comparable(as_plain(values), self.ids.dtype)
        if wanted is None:
            return np.full(len(values), -1, np.int32)
        if len(wanted) <= max(len(self) // IDS_EACH, FEW) and can_index(self.ids.dtype):
            return self._index.numbers(self.ids, wanted)
        frame = wanted.rename("id").to_frame()
        joined = frame.join(self._table, on="id", how="left", maintain_order="left")
        return joined["number"].fill_null(-1).to_numpy().astype(np.int32)

    def number(self, value: object) -> int:
        """Return the number of one value, -1 if unknown."""
        try:
            return int(self.numbers(pl.Series([value]))[0])
        except (TypeError, pl.exceptions.PolarsError):
            return -1

    def extend(self, values: pl.Series, numbers: np.ndarray | None = None) -> Vocabulary:
        """Return the vocabulary with new values appended; known values keep their numbers.

        numbers: those of the values here, if they were looked up before.
        """
        check_process()
        plain = comparable(as_plain(values), self.ids.dtype)
        if plain is None:
            raise DataError(
                f"ids of type {values.dtype} do not fit those of type {self.ids.dtype}: "
                "give both the same type"
            )
        numbers = self.numbers(plain) if numbers is None else numbers
        new = plain.filter(pl.Series(numbers < 0)).drop_nulls()
        if not len(new):
            return self
        new = new.unique(maintain_order=True).rename("id")
        known = self._known_index  # to extend it is faster than to hash all ids again
        return Vocabulary(
            pl.concat([self.ids, new]), None if known is None else known.extended(new)
        )

    def take(self, numbers: np.ndarray) -> pl.Series:
        """Return the ids of these numbers."""
        check_process()
        return self.ids[numbers]


class HashIndex(NamedTuple):
    """An index of ids by hash, 12 bytes an id; a lookup costs the same for any number of ids.

    hashes: uint64 [ids], ascending; number: int32 [ids], the number of the id with that hash.
    """

    hashes: np.ndarray
    number: np.ndarray

    @classmethod
    def of(cls, ids: pl.Series) -> HashIndex:
        """Build the index of ids."""
        hashes = hashes_of(ids)
        order = np.argsort(hashes).astype(np.int32)
        return cls(hashes[order], order)

    def extended(self, ids: pl.Series) -> HashIndex:
        """Return the index with further ids appended."""
        more = HashIndex.of(ids)
        at = np.searchsorted(self.hashes, more.hashes)
        number = np.int32(len(self.number)) + more.number
        return HashIndex(
            np.insert(self.hashes, at, more.hashes), np.insert(self.number, at, number)
        )

    def numbers(self, ids: pl.Series, wanted: pl.Series) -> np.ndarray:
        """int32 [wanted]: the number of each value among the indexed ids, -1 if unknown or null.

        Both series have the same type.
        """
        numbers = np.full(len(wanted), -1, np.int32)
        hashes = hashes_of(wanted)
        at = np.searchsorted(self.hashes, hashes)
        end = np.searchsorted(self.hashes, hashes, side="right")
        left = np.flatnonzero(at < end)
        while len(left):  # once, unless different ids have one hash
            number = self.number[at[left]]
            equal = ids[number] == (wanted if len(left) == len(wanted) else wanted[left])
            same = equal.to_numpy().astype(bool)  # null, which equals nothing, is False
            numbers[left[same]] = number[same]
            at[left] += 1
            left = left[~same & (at[left] < end[left])]
        return numbers


def can_index(dtype: pl.DataType) -> bool:
    """Return whether equal values of a type always have equal hashes."""
    without = (pl.Categorical, pl.Enum, pl.Object, pl.Null, pl.Unknown)
    return not (dtype.is_nested() or isinstance(dtype, without))


def hashes_of(values: pl.Series) -> np.ndarray:
    """uint64 [values]: equal for equal values of one type."""
    return values.to_frame().hash_rows().to_numpy()


def as_plain(values: pl.Series) -> pl.Series:
    """Return categories as text and NaN as null; everything else unchanged."""
    if isinstance(values.dtype, pl.Categorical | pl.Enum):
        return values.cast(pl.String)
    return values.fill_nan(None) if values.dtype.is_float() else values


def plain_form(ids: pl.Series) -> pl.Series:
    """Return ids as lower-case text, without blanks around them, leading zeros, a trailing .0."""
    texts = ids.cast(pl.String).str.strip_chars().str.to_lowercase().str.replace(r"\.0+$", "")
    return texts.str.replace(r"^0+(.)", "$1")


def comparable(values: pl.Series, dtype: pl.DataType) -> pl.Series | None:
    """Return values in the type of the known ids, None if the two types can never be equal.

    Text is parsed as the known type, so that a command line can name numeric ids.
    """
    if values.dtype == dtype:
        return values
    if values.dtype == pl.Null:
        return values.cast(dtype)
    safe = (values.dtype.is_integer() and dtype.is_numeric()) or values.dtype == pl.String
    safe = safe or (values.dtype.is_float() and dtype.is_float())
    whole = values.dtype.is_float() and dtype.is_integer() and (values == values.floor()).all()
    if safe or whole or (values.dtype.is_temporal() and dtype.is_temporal()):
        with suppress(pl.exceptions.PolarsError):  # such as text as a Boolean
            if values.dtype == pl.String and dtype == pl.Date:
                return values.str.to_date("%Y-%m-%d", strict=False)
            if values.dtype == pl.String and isinstance(dtype, pl.Datetime):
                return _datetimes(values, dtype)
            return values.cast(dtype, strict=False)
    return None


def _datetimes(values: pl.Series, dtype: pl.Datetime) -> pl.Series:
    """Parse text such as 2024-01-31T18:30:00, with a zone if the ids have one."""
    form = "%Y-%m-%dT%H:%M:%S%.f" + ("%#z" if dtype.time_zone else "")
    read = values.str.replace(" ", "T", literal=True).str.to_datetime(
        form, time_unit=dtype.time_unit, strict=False
    )
    return read.cast(dtype)
