"""Attribute tables, keyed by id and aligned with a vocabulary."""

from __future__ import annotations

import polars as pl

from fmpair.data.check import check_types
from fmpair.data.roles import find_column
from fmpair.data.vocabulary import Vocabulary, as_plain, comparable
from fmpair.errors import DataError, listing


def align_table(
    vocabulary: Vocabulary, table: pl.DataFrame, role: str, key: str | None = None
) -> tuple[Vocabulary, pl.DataFrame]:
    """The vocabulary with the table's new ids, and the attributes in its order: [ids, columns]."""
    check_types(table)
    ids = ids_of(table, vocabulary.ids.dtype, role, key)
    column = ids.name
    if ids.null_count():
        count = ids.null_count()
        how_many = f"{count:,} rows" if count > 1 else "a row"
        raise DataError(f"the {role} table has {how_many} without an id in {column!r}")
    if ids.n_unique() < len(ids):
        twice = ids.filter(ids.is_duplicated())[0]
        raise DataError(
            f"the {role} table has more than one row for {column} {twice!r}: give "
            "one, with a list where there are several values"
        )
    grown = vocabulary.extend(ids)
    rows = Vocabulary(ids).numbers(grown.ids)
    attributes = table.drop(column)
    if not attributes.width:
        return grown, pl.DataFrame()
    picked = pl.Series("row", rows).cast(pl.Int64).replace({-1: None})
    return grown, attributes.select(pl.all().gather(picked))


def ids_of(table: pl.DataFrame, dtype: pl.DataType, role: str, key: str | None = None) -> pl.Series:
    """The ids of a table in the type of those of the events; its name is that of the column."""
    column = key if key in table.columns else find_column(role, table.columns, None)
    if column is None:
        raise DataError(
            f"the {role} table has no id column: none of {listing(table.columns)} is named "
            f"like {role}; rename it to {role!r}"
        )
    ids = comparable(as_plain(table[column]), dtype)
    if ids is None:
        raise DataError(
            f"{column!r} of the {role} table holds {table[column].dtype}, but the {role} ids "
            f"of the events are {dtype}: give both the same type"
        )
    return ids
