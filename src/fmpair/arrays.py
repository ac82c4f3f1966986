"""Sparse rows as plain arrays: what kernels, encoders and files have in common."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Rows(NamedTuple):
    """Sparse rows: row r holds column[start[r]:start[r+1]] with the same slice of value.

    start: int64 [rows + 1], column: int32 [entries], value: float32 [entries].
    """

    start: np.ndarray
    column: np.ndarray
    value: np.ndarray

    @property
    def size(self) -> int:
        return len(self.start) - 1

    def take(self, rows: np.ndarray) -> Rows:
        """The given rows, in the given order."""
        lengths = np.diff(self.start)[rows]
        start = starts(lengths)
        entries = np.repeat(self.start[:-1][rows] - start[:-1], lengths) + np.arange(start[-1])
        return Rows(start, self.column[entries], self.value[entries])

    def dot(self, table: np.ndarray) -> np.ndarray:
        """Sum of value * table[index] per row: [rows, columns]."""
        out = np.zeros((self.size, table.shape[1]), table.dtype)
        owner = np.repeat(np.arange(self.size), np.diff(self.start))
        if len(owner):
            np.add.at(out, owner, self.value[:, None] * table[self.column])
        return out


def starts(lengths: np.ndarray) -> np.ndarray:
    """Offsets of consecutive pieces of the given lengths: int64 [n + 1]."""
    out = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=out[1:])
    return out


def empty_rows(count: int) -> Rows:
    """`count` rows without entries."""
    return Rows(np.zeros(count + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))


def group_rows(
    owner: np.ndarray, index: np.ndarray, count: int, value: np.ndarray | None = None
) -> Rows:
    """Entries (owner, index, value) as `count` rows, each sorted by index."""
    order = np.lexsort((index, owner))
    if value is None:
        value = np.ones(len(index), np.float32)
    lengths = np.bincount(owner, minlength=count)
    return Rows(starts(lengths), index[order].astype(np.int32), value[order].astype(np.float32))


def distinct_pairs(owner: np.ndarray, index: np.ndarray, count: int) -> Rows:
    """The distinct (owner, index) pairs as `count` sorted rows, each with its number of times."""
    rows = group_rows(owner, index, count)
    if not len(rows.column):
        return rows
    owners = np.repeat(np.arange(count), np.diff(rows.start))
    new = np.ones(len(owners), bool)
    new[1:] = (owners[1:] != owners[:-1]) | (rows.column[1:] != rows.column[:-1])
    first = np.flatnonzero(new)
    times = np.diff(np.append(first, len(owners))).astype(np.float32)
    return Rows(starts(np.bincount(owners[first], minlength=count)), rows.column[first], times)


def join_rows(parts: list[Rows]) -> Rows:
    """Rows side by side: row r of the result holds row r of every part, in order."""
    count = parts[0].size
    owner = np.concatenate([np.repeat(np.arange(count), np.diff(p.start)) for p in parts])
    order = np.argsort(owner, kind="stable")
    lengths = np.sum([np.diff(p.start) for p in parts], axis=0)
    index = np.concatenate([p.column for p in parts])[order]
    value = np.concatenate([p.value for p in parts])[order]
    return Rows(starts(lengths), index, value)
