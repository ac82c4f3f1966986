"""Sparse rows as plain arrays, used by kernels, encoders and files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np

PIECE = 1 << 20  # numbers counted at a time
PRODUCTS = 1 << 24  # numbers held at a time: 64 MB of float32
MANY = 1 << 22  # products that are worth a compiled kernel
FEW = 1024  # entries of a single row that are multiplied at once
LONG = 1 << 18  # entries of a column that are worth sending to a device
_FIRST = np.zeros(1, np.int64)
_STARTS = [np.array([0, length]) for length in range(256)]  # of single rows, made once


class Rows(NamedTuple):
    """Sparse rows: row r holds column[start[r]:start[r+1]] with the same slice of value.

    start: int64 [rows + 1]; column: int32 [entries]; value: float32 [entries].
    """

    start: np.ndarray
    column: np.ndarray
    value: np.ndarray

    @property
    def size(self) -> int:
        return len(self.start) - 1

    @property
    def owner(self) -> np.ndarray:
        """The row of each entry: int64 [entries]."""
        return np.repeat(np.arange(self.size), np.diff(self.start))

    def row(self, number: int) -> np.ndarray:
        """Return the columns of one row: int32."""
        return self.column[self.start[number] : self.start[number + 1]]

    def take(self, rows: np.ndarray) -> Rows:
        """Return the given rows, in the given order."""
        if len(rows) == 1 and rows[0] >= 0:  # fast path of a single answer
            part = slice(self.start[rows[0]], self.start[rows[0] + 1])
            column = self.column[part].copy()
            return Rows(np.array([0, len(column)]), column, self.value[part].copy())
        first = self.start[:-1][rows]
        start, entries = pieces(first, self.start[1:][rows] - first)
        return Rows(start, self.column[entries], self.value[entries])

    def dot(self, table: np.ndarray) -> np.ndarray:
        """Return the sum of value * table[column] per row: [rows, columns of the table]."""
        if len(self.column) * table.shape[1] > MANY and table.dtype == self.value.dtype:
            out = np.zeros((self.size, table.shape[1]), table.dtype)
            row_adder()(*self, np.ascontiguousarray(table), out)
            return out
        return self.plain_dot(table)

    def plain_dot(self, table: np.ndarray) -> np.ndarray:
        """Return the same without a compiler.

        Some rows at a time: all products at once may need many times the memory of the result.
        """
        if 0 < len(self.column) <= FEW:  # fast paths of a single answer, and of a few
            if self.size == 1:
                return np.add.reduceat(self.value[:, None] * table[self.column], _FIRST)
            begins = self.start[:-1]
            if (begins < self.start[1:]).all():
                return np.add.reduceat(self.value[:, None] * table[self.column], begins)
        out = np.zeros((self.size, table.shape[1]), table.dtype)
        first, most = 0, PRODUCTS // max(table.shape[1], 1)
        while first < self.size:
            begin = self.start[first]
            last = max(int(np.searchsorted(self.start, begin + most, "right")) - 1, first + 1)
            filled = first + np.flatnonzero(np.diff(self.start[first : last + 1]))
            part = slice(begin, self.start[last])
            if len(filled):
                products = self.value[part, None] * table[self.column[part]]
                out[filled] = np.add.reduceat(products, self.start[filled] - begin)
            first = last
        return out


@cache
def row_adder() -> Any:
    """Return the kernel that adds value * table[column] to out[r], over the entries of row r.

    It is made on first use, because importing Numba takes half a second.
    """
    from fmpair.jit import kernel

    return kernel(plain=_add_plain)(_add_rows)


def _add_rows(
    start: np.ndarray, column: np.ndarray, value: np.ndarray, table: np.ndarray, out: np.ndarray
) -> None:  # pragma: no cover  # runs compiled
    for r in range(len(out)):
        for e in range(start[r], start[r + 1]):
            own, weight = column[e], value[e]
            for k in range(out.shape[1]):
                out[r, k] += weight * table[own, k]


def _add_plain(
    start: np.ndarray, column: np.ndarray, value: np.ndarray, table: np.ndarray, out: np.ndarray
) -> None:
    out += Rows(start - start[0], column[start[0] :], value[start[0] :]).plain_dot(table)


def one_row(column: np.ndarray, value: np.ndarray) -> Rows:
    """Return a single row."""
    return Rows(one_start(len(column)), column, value)


def one_start(size: int) -> np.ndarray:
    """Return the start of a single row of some size; not to be changed."""
    return _STARTS[size] if size < len(_STARTS) else np.array([0, size])


class DeviceColumns(Protocol):
    """Counts and sorts long columns on the device of a fit, to the results of this module.

    It also multiplies large matrices, see `matrices`.
    """

    def tally(
        self, numbers: np.ndarray, size: int, weights: np.ndarray | None = None
    ) -> np.ndarray | None: ...

    def distinct_pairs(self, owner: np.ndarray, index: np.ndarray, count: int) -> Rows: ...

    def multiples(self, numbers: np.ndarray, step: int) -> np.ndarray: ...

    def order(self, major: np.ndarray, minor: np.ndarray) -> np.ndarray: ...

    def latest_true(self, flags: np.ndarray) -> np.ndarray: ...

    def product(
        self, left: np.ndarray, right: np.ndarray, transposed: bool, keep: bool
    ) -> np.ndarray: ...

    def product_of_squares(self, left: np.ndarray, right: np.ndarray) -> np.ndarray: ...

    def solved(self, square: np.ndarray, rows: np.ndarray) -> np.ndarray: ...


_DEVICE: ContextVar[DeviceColumns | None] = ContextVar("device", default=None)


@contextmanager
def long_columns_on(device: DeviceColumns | None) -> Iterator[None]:
    """Count and sort long columns on a device inside the block; None for this module."""
    token = _DEVICE.set(device)
    try:
        yield
    finally:
        _DEVICE.reset(token)


def columns_device() -> DeviceColumns | None:
    """Return the device of long columns, or None."""
    return _DEVICE.get()


def device_for(column: np.ndarray) -> DeviceColumns | None:
    """Return the device that handles the column, or None."""
    return _DEVICE.get() if len(column) >= LONG else None


def starts(lengths: np.ndarray) -> np.ndarray:
    """Return the offsets of consecutive pieces of the given lengths: int64 [n + 1]."""
    out = np.zeros(len(lengths) + 1, np.int64)
    lengths.cumsum(out=out[1:])
    return out


def pieces(first: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the starts of pieces laid one after the other, and the place of each of their entries.

    first: the place of the first entry of each piece; lengths: their numbers of entries.
    """
    start = starts(lengths)
    return start, np.repeat(first - start[:-1], lengths) + np.arange(start[-1])


def tally(numbers: np.ndarray, size: int, weights: np.ndarray | None = None) -> np.ndarray:
    """Count each number below `size` (int64), or sum its weights (float64), in pieces to save
    memory."""
    if weights is None and len(numbers) and numbers.strides == (0,):  # one number, broadcast
        return np.bincount(numbers[:1], minlength=size) * len(numbers)
    if (device := device_for(numbers)) and (
        found := device.tally(numbers, size, weights)
    ) is not None:
        return found
    out = np.zeros(size, np.int64 if weights is None else np.float64)
    for first in range(0, len(numbers), PIECE):
        piece = slice(first, first + PIECE)
        part = None if weights is None else weights[piece]
        out += np.bincount(numbers[piece], part, minlength=size)
    return out


def all_are(values: np.ndarray, one: float) -> bool:
    """Return whether every value equals `one`; broadcast arrays are checked by one element."""
    return bool((values[: 1 if values.strides == (0,) else None] == one).all())


def empty_rows(count: int) -> Rows:
    """Return `count` rows without entries."""
    return Rows(np.zeros(count + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))


def group_rows(
    owner: np.ndarray, index: np.ndarray, count: int, value: np.ndarray | None = None
) -> Rows:
    """Return entries (owner, index, value) as `count` rows, sorted by index; value 1 by default."""
    key = _keys(owner, index)
    if value is None:
        key.sort()  # the key holds everything: no argsort needed
        value = np.ones(len(key), np.float32)
    else:
        order = np.argsort(key, kind="stable")
        key, value = key[order], value[order].astype(np.float32)
    start = starts(np.bincount(owner, minlength=count))
    return Rows(start, (key & 0xFFFFFFFF).astype(np.int32), value)


def ordered_rows(owner: np.ndarray, column: np.ndarray, value: np.ndarray, count: int) -> Rows:
    """Return entries that are in the order of their owners as `count` rows."""
    return Rows(starts(np.bincount(owner, minlength=count)), column, value)


def renumbered(rows: Rows, place: np.ndarray) -> Rows:
    """Return rows over other columns: place gives the new number of a column, -1 drops it."""
    column = place[rows.column]
    kept = column >= 0
    return group_rows(rows.owner[kept], column[kept], rows.size, rows.value[kept])


def add_repeats(rows: Rows) -> Rows:
    """Return sorted rows with each column once per row; the values of repeats are added."""
    key = _keys(rows.owner, rows.column)
    first = np.flatnonzero(np.diff(key, prepend=-1))
    if len(first) == len(key):
        return rows
    value = np.add.reduceat(rows.value, first)
    return ordered_rows(key[first] >> 32, rows.column[first], value, rows.size)


def distinct_pairs(owner: np.ndarray, index: np.ndarray, count: int) -> Rows:
    """Return the distinct (owner, index) pairs as `count` sorted rows, with their counts."""
    if device := device_for(owner):
        return device.distinct_pairs(owner, index, count)
    return add_repeats(group_rows(owner, index, count))


def multiples(numbers: np.ndarray, step: int) -> np.ndarray:
    """Return the places of the numbers that `step` divides: int64, ascending."""
    if device := device_for(numbers):
        return device.multiples(numbers, step)
    return np.flatnonzero(numbers % step == 0)


def order_by(major: np.ndarray, minor: np.ndarray) -> np.ndarray:
    """Return the stable order of entries by two columns: int32 [entries]."""
    if device := device_for(major):
        return device.order(major, minor)
    return np.lexsort((minor, major)).astype(np.int32)


def latest_true(flags: np.ndarray) -> np.ndarray:
    """Return the place of the last true flag up to each place, 0 before the first: int32."""
    if device := device_for(flags):
        return device.latest_true(flags)
    places = np.where(flags, np.arange(len(flags), dtype=np.int32), np.int32(0))
    return np.maximum.accumulate(places)


def join_rows(parts: list[Rows]) -> Rows:
    """Join rows side by side: row r of the result holds row r of every part, in order."""
    if len(parts) == 1:
        return parts[0]
    start = np.sum([part.start for part in parts], axis=0)
    column, value = np.empty(start[-1], np.int32), np.empty(start[-1], np.float32)
    place = start[:-1].copy()  # where the next part's entries of each row go
    for part in parts:
        lengths = np.diff(part.start)
        to = np.repeat(place - part.start[:-1], lengths) + np.arange(len(part.column))
        column[to], value[to] = part.column, part.value
        place += lengths
    return Rows(start, column, value)


def stack_rows(*parts: Rows) -> Rows:
    """Stack the rows of each part, one part below the other."""
    if all(len(part.start) == 2 for part in parts):  # faster, for a few answers
        lengths = np.array([len(part.column) for part in parts])
    else:
        lengths = np.concatenate([np.diff(part.start) for part in parts])
    column = np.concatenate([part.column for part in parts])
    return Rows(starts(lengths), column, np.concatenate([part.value for part in parts]))


def _keys(owner: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return one number per pair, in the order of owner, then index: int64 [entries]."""
    return (owner.astype(np.int64) << 32) | index
