"""Fields of kind `vector`: real-valued vectors, such as embeddings of texts or images."""

from __future__ import annotations

import numpy as np
import polars as pl

from fmpair.arrays import Rows, starts
from fmpair.errors import DataError, named
from fmpair.features.field import FAR, MAX_DIMENSIONS, Field

SHORTEST = 1e-6  # shorter vectors, relative to the usual length, have no direction


def matrix_of(values: pl.Series, field: Field, width: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return (rows that have a vector int64 [n], their vectors float32 [n, width]).

    width: of the training column; 0 for that of the first vector. An empty list and a vector of
    zeros, as encoders give for empty texts, are missing.
    """
    lists = _lists(values, field)
    lengths = lists.list.len().fill_null(0).to_numpy()
    row = np.flatnonzero(lengths)
    if len(row):
        width = width or int(lengths[row[0]])
        _check_lengths(values.name, lengths, row, width)
    numbers = lists.filter(pl.Series(lengths > 0)).explode().cast(pl.Float32, strict=False)
    matrix = numbers.fill_null(float("nan")).to_numpy().reshape(len(row), width)
    wrong = ~np.isfinite(matrix).all(axis=1)
    if wrong.any():
        raise DataError(
            f"column {values.name!r}: the vector of row {row[np.argmax(wrong)]} has NaN, missing "
            "or infinite numbers; leave the whole vector out (null) if it is unknown"
        )
    nonzero = matrix.any(axis=1)
    return row[nonzero], matrix[nonzero]


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


def _check_lengths(name: str, lengths: np.ndarray, row: np.ndarray, width: int) -> None:
    other = row[lengths[row] != width]
    if len(other):
        raise DataError(
            f"column {name!r} holds vectors of {width} numbers, but row {other[0]} has "
            f"{lengths[other[0]]}: give all the same length, or {named('kind', 'multi')} if they "
            "are lists of values"
        )
    if width > MAX_DIMENSIONS:
        raise DataError(
            f"column {name!r} holds vectors of {width:,} numbers, at most {MAX_DIMENSIONS:,} are "
            "allowed: shorten them, for example by an SVD"
        )


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
    matrix = (matrix - mean) / spread
    length, usual = _lengths(matrix), float(_lengths((mean / spread)[None])[0])
    has_direction = length > SHORTEST * max(usual, SHORTEST)
    row, matrix, length = row[has_direction], matrix[has_direction], length[has_direction]
    if field.normalize is False:
        length = np.maximum(length / np.float32(FAR), 1)  # shorten outliers only
    matrix = matrix / length[:, None]
    width, lengths = matrix.shape[1], np.zeros(count, np.int64)
    lengths[row] = width
    column = np.tile(np.arange(width, dtype=np.int32), len(row))
    value = matrix.reshape(-1) * np.float32(field.scale)
    return Rows(starts(lengths), column, value.astype(np.float32, copy=False))


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
