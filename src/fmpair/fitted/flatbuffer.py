"""Flatbuffers, read without trusting them: whatever points outside the bytes is refused."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    """A table of a flatbuffer: fields by number, each there or not.

    data: the bytes it stands in; at: where. ValueError where a field leads out of the bytes.
    """

    data: bytes
    at: int

    @classmethod
    def root(cls, data: bytes, at: int = 0) -> Table:
        """The table that the bytes from `at` on are."""
        return cls(data, at + read(data, "<I", at))

    def number(self, field: int, format: str, default: Any = 0) -> Any:
        """A number, or the default where the field is not there."""
        place = self._place(field)
        return default if place is None else read(self.data, format, place)

    def table(self, field: int) -> Table | None:
        place = self._place(field)
        return None if place is None else Table.root(self.data, place)

    def tables(self, field: int) -> list[Table]:
        """The tables of a vector."""
        first, count = self._vector(field, 4)
        return [Table.root(self.data, first + 4 * n) for n in range(count)]

    def rows(self, field: int, format: str) -> list[tuple[Any, ...]]:
        """The structs of a vector, each as a tuple."""
        size = struct.calcsize(format)
        first, count = self._vector(field, size)
        return list(struct.iter_unpack(format, self.data[first : first + size * count]))

    def text(self, field: int) -> str | None:
        if self._place(field) is None:
            return None
        first, count = self._vector(field, 1)
        return self.data[first : first + count].decode()

    def _vector(self, field: int, size: int) -> tuple[int, int]:
        """(where the first element of a vector stands, how many there are)."""
        place = self._place(field)
        if place is None:
            return 0, 0
        start = place + read(self.data, "<I", place)
        count = read(self.data, "<I", start)
        if start + 4 + count * size > len(self.data):
            raise ValueError("a vector is longer than the bytes it stands in")
        return start + 4, count

    def _place(self, field: int) -> int | None:
        """Where a field stands; None where it is not there."""
        fields = self.at - read(self.data, "<i", self.at)
        if 4 + 2 * field >= read(self.data, "<H", fields):
            return None
        offset = read(self.data, "<H", fields + 4 + 2 * field)
        return self.at + offset if offset else None


def read(data: bytes, format: str, at: int) -> Any:
    """One number at a place."""
    if not 0 <= at <= len(data) - struct.calcsize(format):
        raise ValueError("a place lies outside the bytes")
    return struct.unpack_from(format, data, at)[0]
