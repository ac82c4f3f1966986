"""Fields of kind `vector`: real-valued vectors, such as embeddings of texts or images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import polars as pl

from fmpair.arrays import Rows, starts
from fmpair.errors import DataError, named
from fmpair.features.field import FAR, MAX_DIMENSIONS, Field

SHORTEST = 1e-6  # shorter vectors, relative to the usual length, have no direction


class VectorError(DataError):
    """A vector that cannot be used, in a row of a column."""

    def __init__(self, column: str, row: int, fault: str, owner: str = "") -> None:
        super().__init__(f"column {column!r}: the vector of {owner or f'row {row}'} {fault}")
        self.column, self.row, self.fault, self.owner = column, row, fault, owner

    def __reduce__(self) -> tuple[type, tuple[str, int, str, str]]:  # to cross processes
        return VectorError, (self.column, self.row, self.fault, self.owner)


@contextmanager
def owners_named(owner: Callable[[int], str]) -> Iterator[None]:
    """Name the owner of a wrong vector, such as an item, instead of its row."""
    try:
        yield
    except VectorError as error:
        raise VectorError(error.column, error.row, error.fault, owner(error.row)) from None


def matrix_of(values: pl.Series, field: Field, width: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return (rows that have a vector int64 [n], their vectors float32 [n, width]).

    width: of the training column; 0 for the most common one. An empty list and a vector of zeros,
    as encoders give for empty texts, are missing.
    """
    lists = _lists(values, field)
    lengths = lists.list.len().fill_null(0).to_numpy()
    row = np.flatnonzero(lengths)
    if len(row):
        width = _common_length(values.name, lengths, row, width)
    numbers = lists.filter(pl.Series(lengths > 0)).explode().cast(pl.Float32, strict=False)
    matrix = numbers.fill_null(float("nan")).to_numpy().reshape(len(row), width)
    wrong = ~np.isfinite(matrix).all(axis=1)
    if wrong.any():
        raise VectorError(
            values.name,
            int(row[np.argmax(wrong)]),
            "has NaN, missing, infinite or too large numbers: leave the whole vector out (null) "
            "if it is unknown",
        )
    nonzero = matrix.any(axis=1)
    return (row, matrix) if nonzero.all() else (row[nonzero], matrix[nonzero])


def _lists(values: pl.Series, field: Field) -> pl.Series:
    """Return a column of any type as lists of numbers."""
    dtype = values.dtype
    if dtype == pl.Null:
        return values.cast(pl.List(pl.Float32))
    if isinstance(dtype, pl.Array):
        return values.arr.to_list()
    if dtype == pl.String:
        parts = values.str.strip_chars(" []()").str.split(field.separator)
        number = pl.element().str.strip_chars().cast(pl.Float32, strict=False)
        return parts.list.eval(number)
    if isinstance(dtype, pl.List) and (dtype.inner.is_numeric() or dtype.inner == pl.Null):
        return values
    raise DataError(
        f"column {values.name!r} holds {dtype}: a vector must be a list of numbers, or text such "
        f"as '0.1{field.separator}0.7'"
    )


def _common_length(name: str, lengths: np.ndarray, row: np.ndarray, width: int) -> int:
    """Return the length of all vectors; width: of the training column, 0 in training."""
    found, first, count = np.unique(lengths[row], return_index=True, return_counts=True)
    usual = width or int(found[np.lexsort((first, -count))[0]])
    other = first[found != usual]
    if len(other):
        wrong = int(row[other.min()])
        end = (
            f"those of the model have {width}"
            if width
            else f"most have {usual}: give all the same length, or {named('kind', 'multi')} if "
            "they are lists of values"
        )
        raise VectorError(name, wrong, f"has {_numbers(lengths[wrong])}, but {end}")
    if usual > MAX_DIMENSIONS:
        raise DataError(
            f"column {name!r} holds vectors of {usual:,} numbers, at most {MAX_DIMENSIONS:,} are "
            "allowed: shorten them, for example by an SVD"
        )
    return usual


def _numbers(count: int) -> str:
    return "1 number" if count == 1 else f"{count:,} numbers"


def moments_of(matrix: np.ndarray, field: Field) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return what to subtract from and to divide by in each dimension, see `Field.standardize`."""
    mean, spread = np.zeros(matrix.shape[1]), np.ones(matrix.shape[1])
    if field.standardize is not False and len(matrix):
        mean = matrix.mean(axis=0, dtype=np.float64)
    if field.standardize and len(matrix):
        spread = matrix.std(axis=0, dtype=np.float64)
        spread[spread <= SHORTEST * max(spread.max(), SHORTEST)] = 1.0
    if field.normalize is False and len(matrix):  # the usual length is 1: training is stable
        scaled = (matrix - mean) / spread
        spread *= np.sqrt(np.einsum("rd,rd->", scaled, scaled) / len(matrix)) or 1.0
    return tuple(mean.tolist()), tuple(spread.tolist())


def rows_of(
    row: np.ndarray,
    matrix: np.ndarray,
    count: int,
    field: Field,
    moments: tuple[tuple[float, ...], tuple[float, ...]],
) -> Rows:
    """Return the features of `count` rows: every dimension of a vector, or none if it is missing.

    row, matrix: see `matrix_of`; moments: see `moments_of`.
    """
    mean, spread = (np.array(numbers, np.float32) for numbers in moments)
    matrix = matrix - mean
    matrix /= spread
    length, usual = _lengths(matrix), float(_lengths((mean / spread)[None])[0])
    has_direction = length > SHORTEST * max(usual, SHORTEST)
    if not has_direction.all():
        row, matrix, length = row[has_direction], matrix[has_direction], length[has_direction]
    if field.normalize is False:
        length = np.maximum(length / np.float32(FAR), 1)  # shorten outliers only
    matrix /= length[:, None]
    matrix *= np.float32(field.scale)
    width, lengths = matrix.shape[1], np.zeros(count, np.int64)
    lengths[row] = width
    column = np.tile(np.arange(width, dtype=np.int32), len(row))
    return Rows(starts(lengths), column, matrix.reshape(-1))


def _lengths(matrix: np.ndarray) -> np.ndarray:
    """Return the length of each row; not by BLAS, whose sums depend on the number of threads."""
    return np.sqrt(np.einsum("rd,rd->r", matrix, matrix))


def keys_of(values: pl.Series, field: Field, width: int) -> pl.Series:
    """Return bytes that are equal where vectors are, null where one is missing: [rows]."""
    row, matrix = matrix_of(values, field, width)
    keys: list[bytes | None] = [None] * len(values)
    for number, vector in zip(row.tolist(), matrix):
        keys[number] = vector.tobytes()
    return pl.Series(keys, dtype=pl.Binary)
