"""The members of a column's cells: one for a category, several for lists and weighted sets."""

from __future__ import annotations

import numpy as np
import polars as pl

from fmpair.data.vocabulary import as_plain
from fmpair.errors import DataError
from fmpair.features.field import Field

Entries = tuple[np.ndarray, pl.Series, np.ndarray]


def entries_of(values: pl.Series, field: Field) -> Entries:
    """(row of each member int64 [n], members, weights float32 [n]); nulls have no members."""
    if field.kind == "multi":
        return _members(values, field)
    if field.kind == "weighted":
        return _weighted(values, field)
    plain = as_plain(values)
    owner = np.flatnonzero(plain.is_not_null().to_numpy())
    return owner, plain.drop_nulls(), np.ones(len(owner), np.float32)


def _members(values: pl.Series, field: Field) -> Entries:
    lists = as_plain(values)
    if lists.dtype == pl.String:
        lists = lists.str.split(field.separator)
    if isinstance(lists.dtype, pl.Array):
        lists = lists.cast(pl.List(lists.dtype.inner))
    if not isinstance(lists.dtype, pl.List):
        lists = lists.reshape((-1, 1)).arr.to_list()
    lists = lists.list.drop_nulls().list.unique(maintain_order=True)
    owner, members = _exploded(lists)
    if members.dtype == pl.String:
        members = members.str.strip_chars()
        filled = (members != "").to_numpy()
        owner, members = owner[filled], members.filter(pl.Series(filled))
    return owner, members, np.ones(len(owner), np.float32)


def _weighted(values: pl.Series, field: Field) -> Entries:
    dtype = values.dtype
    if isinstance(dtype, pl.Struct):
        return _from_struct(values)
    if isinstance(dtype, pl.List) and isinstance(dtype.inner, pl.Struct):
        owner, pairs = _exploded(values)
        name, weight = (pairs.struct.field(f.name) for f in dtype.inner.fields[:2])
        return owner, name, weight.cast(pl.Float32).fill_null(0.0).to_numpy()
    if dtype != pl.String:
        raise DataError(f"column {values.name!r} holds {dtype}: weighted cells are structs, lists "
                        "of (name, weight), or text such as 'rock:0.7|pop:0.3'")  # fmt: skip
    owner, parts = _exploded(values.str.split(field.separator))
    name = parts.str.replace(r":[^:]*$", "").str.strip_chars()
    weight = parts.str.extract(r":([^:]*)$").cast(pl.Float32, strict=False)
    if weight.null_count():
        wrong = parts.filter(weight.is_null())[0]
        raise DataError(f"column {values.name!r}: {wrong!r} has no weight; write 'name:0.5'")
    return owner, name, weight.to_numpy()


def _from_struct(values: pl.Series) -> Entries:
    """A struct column {rock: 0.7, pop: 0.3}: its field names are the members."""
    table = values.struct.unnest().with_columns(pl.all().cast(pl.Float32))
    numbers = table.to_numpy().astype(np.float32)
    owner, column = np.nonzero(np.isfinite(numbers) & (numbers != 0))
    return owner, pl.Series(table.columns, dtype=pl.String).gather(column), numbers[owner, column]


def _exploded(lists: pl.Series) -> tuple[np.ndarray, pl.Series]:
    lengths = lists.list.len().fill_null(0).to_numpy()
    members = lists.filter(pl.Series(lengths > 0)).explode()
    return np.repeat(np.arange(len(lists)), lengths), members
