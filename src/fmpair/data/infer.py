"""Columns of text as numbers and booleans, only where nothing gets lost."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import polars as pl

from fmpair.data.roles import find_column

# Digits a float cannot be trusted with: a leading zero ('007'), or more than 15 of them.
INEXACT = r"^[+-]?(0\d|\d{16})"
# Numbers as many countries write them: 3,50 and 1.234,5, among them perhaps 3.
WITH_COMMA = r"^[+-]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?$"
NEARLY_ALL, SAMPLE = 0.9, 10_000


def with_types(frame: pl.DataFrame, ids: Collection[str] = ()) -> pl.DataFrame:
    """Text columns in the narrowest type that holds every value: Int64, Float64, Boolean.

    ids: columns that must come out as they went in: whole numbers or else text.
    """
    text = [column for column in frame.iter_columns() if column.dtype == pl.String]
    return frame.with_columns(_typed(column, column.name in ids) for column in text)


def decimal_commas(values: pl.Series) -> str | None:
    """One of the values of a text column that are numbers with a decimal comma; None for others."""
    if values.dtype != pl.String:
        return None
    known = values.drop_nulls().head(SAMPLE)
    commas = known.filter(known.str.contains(",", literal=True))
    numbers = int(known.str.contains(WITH_COMMA).sum())
    nearly_all = numbers >= NEARLY_ALL * len(known) and 2 * len(commas) >= len(known)
    return commas[0] if len(commas) and nearly_all else None


def id_columns(columns: Sequence[str], given: Sequence[str] = ()) -> list[str]:
    """The columns named by the caller and those named like a user or an item."""
    usual = [find_column(role, columns, None) for role in ("user", "item")]
    return [*given, *(name for name in usual if name)]


def _typed(values: pl.Series, exact: bool) -> pl.Series:
    known = values.drop_nulls()
    if not len(known):
        return values
    numbers = known.cast(pl.Int64, strict=False)
    if not numbers.null_count() and (numbers.cast(pl.String) == known).all():
        return values.cast(pl.Int64)
    if exact:
        return values
    lower = known.str.to_lowercase()
    if lower.is_in(["true", "false"]).all():
        return (values.str.to_lowercase() == "true").rename(values.name)
    lossy = known.str.contains(INEXACT).any()
    if lossy or known.cast(pl.Float64, strict=False).null_count():
        return values
    return values.cast(pl.Float64)
