"""What the arrays of a model file must be, checked before a model is made of them.

A table says of each array what it holds; `check` holds the arrays against the table. A kernel is
never given a place that does not exist, however the file came about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fmpair.arrays import Rows
from fmpair.errors import ModelFileError

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
FLOATS = (FLOAT32, FLOAT64)
INTEGERS = (np.dtype(np.int32), np.dtype(np.int64))
LARGEST = float(np.finfo(np.float32).max)
FAR_OFF = 1 << 61  # microseconds, which can be added and subtracted
MOST = LARGEST / 10  # of scores, which are float32; what is rounded must fit too

Shape = tuple[int | str, ...]  # a name stands for a size left open, the same wherever it occurs


@dataclass(frozen=True)
class Numbers:
    """Finite numbers. stored: the type that kernels take; None leaves float32 or float64 alone."""

    shape: Shape
    stored: np.dtype | None = None


@dataclass(frozen=True)
class Places:
    """Whole numbers from 0 on, below a limit."""

    shape: Shape
    below: int
    stored: ClassVar[np.dtype] = np.dtype(np.int32)


@dataclass(frozen=True)
class Starts:
    """Where each of several pieces of another array begins, and where the last one ends.

    length: the size of that array; column: its name, where nothing may occur twice in a piece.
    """

    shape: Shape
    length: str
    column: str | None = None
    stored: ClassVar[np.dtype] = np.dtype(np.int64)


@dataclass(frozen=True)
class Moments:
    """Microseconds since 1970, or numbers that stand for an order: whole, and far from 64 bits."""

    shape: Shape
    stored: ClassVar[np.dtype] = np.dtype(np.int64)


Part = Numbers | Places | Starts | Moments
Table = Mapping[str, Part]


def sparse(name: str, rows: int, columns: int) -> dict[str, Part]:
    """The three arrays of sparse rows, see `named_rows`."""
    entries = f"entries of {name}"
    return {
        f"{name}.start": Starts((rows + 1,), entries, f"{name}.column"),
        f"{name}.column": Places((entries,), columns),
        f"{name}.value": Numbers((entries,), FLOAT32),
    }


def check(arrays: Mapping[str, np.ndarray], table: Table) -> dict[str, np.ndarray]:
    """The arrays as kernels take them; ModelFileError where one is not as the table says."""
    for name in table:
        if name not in arrays:
            raise ModelFileError(f"the array {name!r} is missing")
    for name in arrays:
        if name not in table:
            raise ModelFileError(f"there is an array {name!r}, which such a model does not have")
    sizes = _sizes(arrays, table)
    found = {}
    for name, wanted in table.items():
        wrong = _wrong(arrays[name], wanted, sizes)
        if wrong:
            raise ModelFileError(f"the array {name!r} {wrong}")
        found[name] = arrays[name].astype(wanted.stored or arrays[name].dtype, copy=False)
    for name, wanted in table.items():
        column = wanted.column if isinstance(wanted, Starts) else None
        if column is not None and _has_repeats(found[name], found[column]):
            raise ModelFileError(f"the array {column!r} has a number twice in one row")
    return found


def _sizes(arrays: Mapping[str, np.ndarray], table: Table) -> dict[str, int]:
    """What the sizes left open are; refused where shapes do not fit the table or each other."""
    sizes: dict[str, int] = {}
    for name, wanted in table.items():
        shape = arrays[name].shape
        if len(shape) == len(wanted.shape):
            for size, there in zip(wanted.shape, shape):
                if isinstance(size, str):
                    sizes.setdefault(size, there)
        full = [sizes.get(size, -1) if isinstance(size, str) else size for size in wanted.shape]
        if list(shape) != full:
            right = [size if size >= 0 else "any" for size in full]
            raise ModelFileError(f"the array {name!r} has shape {list(shape)}, not {right}")
    return sizes


def _wrong(array: np.ndarray, wanted: Part, sizes: Mapping[str, int]) -> str | None:
    """What is wrong with the values of an array, None where nothing is."""
    kinds = FLOATS if isinstance(wanted, Numbers) else INTEGERS
    if array.dtype not in kinds:
        return f"holds {array.dtype}, not {' or '.join(map(str, kinds))}"
    if isinstance(wanted, Numbers):
        fits = wanted.stored != FLOAT32 or largest(array) <= LARGEST
        return None if fits and np.isfinite(array).all() else "has numbers that are not finite"
    if isinstance(wanted, Starts):
        length = sizes[wanted.length]
        rising = array[0] == 0 and array[-1] == length and (array[1:] >= array[:-1]).all()
        return None if rising else f"does not rise from 0 to {length}"
    if isinstance(wanted, Moments):
        return None if largest(array) <= FAR_OFF else "has moments beyond all calendars"
    if array.size and not 0 <= array.min() <= array.max() < wanted.below:
        return f"has numbers outside 0 to {wanted.below - 1}"
    return None


def _has_repeats(start: np.ndarray, column: np.ndarray) -> bool:
    """Whether a column occurs twice in a row; quick where rows are sorted, as most are."""
    rising = column[1:] > column[:-1]
    inner = start[(start > 0) & (start < len(column))]
    rising[inner - 1] = True
    if rising.all():
        return False
    owner = np.repeat(np.arange(len(start) - 1), np.diff(start))
    keys = np.sort((owner << 32) | column)
    return bool((keys[1:] == keys[:-1]).any())


def largest(array: np.ndarray) -> float:
    """The largest of all absolute values, 0 of none."""
    return max(float(array.max(initial=0)), -float(array.min(initial=0)))


def reach(rows: Rows, table: np.ndarray) -> float:
    """More than which no number of `rows.dot(table)` can be; table: [columns, ...]."""
    if not (len(rows.column) and table.size):
        return 0.0
    most = np.maximum(table.max(axis=1), -table.min(axis=1)).astype(np.float64)
    entries = np.abs(rows.value) * most[rows.column]
    return float(np.diff(rows.start).max()) * float(entries.max())


def longest(rows: Rows) -> float:
    """The sum of its absolute values is at most this for every row."""
    return float(np.diff(rows.start).max(initial=0)) * largest(rows.value)


def refuse_overflow(*most: float) -> None:
    """Refuse a model whose scores, as large as they could be, would be no finite numbers."""
    if not sum(most) < MOST:
        raise ModelFileError("its numbers are so large that scores would not be finite")
