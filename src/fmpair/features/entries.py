"""The members of a column's cells: one for a category, several for lists and weighted sets."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import polars as pl

from fmpair.data.vocabulary import as_plain
from fmpair.errors import DataError
from fmpair.features.field import Field

Entries = tuple[np.ndarray, pl.Series, np.ndarray]


def entries_of(values: pl.Series, field: Field) -> Entries:
    """(row of each member int64 [n], members, weights float32 [n]), row by row.

    What is missing, and what weighs nothing, is no member.
    """
    plain = as_plain(values)
    if field.kind == "weighted":
        owner, members, weight = _weighted(plain, field)
    else:
        owner, members = _members(plain, field) if field.kind == "multi" else _each(plain)
        weight = np.ones(len(owner), np.float32)
    members = as_plain(members)
    if members.dtype == pl.Boolean:
        members = members.cast(pl.String)  # so that a command line's "true" finds it
    kept = members.is_not_null().to_numpy() & np.isfinite(weight) & (weight != 0)
    if kept.all():
        return owner, members, weight
    return owner[kept], members.filter(pl.Series(kept)), weight[kept]


def _each(values: pl.Series) -> tuple[np.ndarray, pl.Series]:
    """Every cell its own member."""
    return np.arange(len(values)), values


def _members(values: pl.Series, field: Field) -> tuple[np.ndarray, pl.Series]:
    """The distinct members of lists, or of text split at the field's separator."""
    if values.dtype == pl.String:
        return _exploded(_parts(values, field.separator).list.unique(maintain_order=True))
    if not values.dtype.is_nested():
        return _each(values)
    return _exploded(_as_lists(values).list.unique(maintain_order=True))


def _weighted(values: pl.Series, field: Field) -> Entries:
    """Names and weights of structs, lists of pairs, or text."""
    dtype = values.dtype
    with suppress(pl.exceptions.PolarsError):  # where a weight is no number
        if dtype in (pl.String, pl.Null):
            return _from_text(values.cast(pl.String), field.separator)
        if isinstance(dtype, pl.Struct):
            return _from_struct(values)
        inner = getattr(dtype, "inner", None)
        if isinstance(inner, pl.Struct) and len(inner.fields) == 2:
            owner, pairs = _exploded(_as_lists(values))
            name, weight = (pairs.struct.field(part.name) for part in inner.fields)
            return owner, name, _weights(weight)
    raise DataError(
        f"column {values.name!r} holds {dtype}: weighted cells are structs of numbers, "
        "lists of (name, weight), or text such as 'rock:0.7|pop:0.3'"
    )


def _from_text(values: pl.Series, separator: str) -> Entries:
    """Text such as rock:0.7|pop:0.3; a name may hold colons itself."""
    owner, parts = _exploded(_parts(values, separator))
    name = parts.str.replace(r":[^:]*$", "").str.strip_chars()
    weight = parts.str.extract(r":([^:]*)$").str.strip_chars().cast(pl.Float32, strict=False)
    wrong = parts.filter(weight.is_null() | (name == ""))
    if len(wrong):
        raise DataError(
            f"column {values.name!r}: {wrong[0]!r} is no name with a weight; write 'name:0.5'"
        )
    return owner, name, weight.to_numpy()


def _from_struct(values: pl.Series) -> Entries:
    """A struct column {rock: 0.7, pop: 0.3}: its field names are the members."""
    table = values.struct.unnest()
    numbers = np.column_stack([_weights(column) for column in table])
    owner, column = np.nonzero(numbers)
    return owner, pl.Series(table.columns, dtype=pl.String).gather(column), numbers[owner, column]


def _weights(values: pl.Series) -> np.ndarray:
    """float32 [n]; 0 where missing."""
    return values.cast(pl.Float32).fill_null(0.0).to_numpy()


def _parts(values: pl.Series, separator: str) -> pl.Series:
    """Text as lists of its parts, without the blanks around them and without empty ones."""
    trimmed = pl.element().str.strip_chars().replace("", None)
    return values.str.split(separator).list.eval(trimmed).list.drop_nulls()


def _as_lists(values: pl.Series) -> pl.Series:
    """Lists, and arrays of fixed length as lists."""
    return values.arr.to_list() if isinstance(values.dtype, pl.Array) else values


def _exploded(lists: pl.Series) -> tuple[np.ndarray, pl.Series]:
    """The row of each member, and the members one after the other."""
    lengths = lists.list.len().fill_null(0).to_numpy()
    members = lists.filter(pl.Series(lengths > 0)).explode()
    return np.repeat(np.arange(len(lists)), lengths), members
