"""The numbers of ids by their hashes: a lookup takes as long among millions as among a few."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl


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
