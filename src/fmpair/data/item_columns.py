"""Tables of attributes: ids compared with the events, aligned, merged, changed row by row."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from fmpair.data.columns.inference import ATTRIBUTE, CONTEXT, DISPLAY, Decisions
from fmpair.data.columns.roles import check_no_leak, check_types, find_column
from fmpair.data.vector_files import with_vectors
from fmpair.data.vocabulary import Vocabulary, as_plain, comparable, plain_form
from fmpair.errors import DataError, listing, named

LOG = logging.getLogger("fmpair")

MATCHED = 0.5  # with a smaller share of events in a table, its ids may be written differently


def id_column(
    table: pl.DataFrame, dtype: pl.DataType, role: str, key: str | None, distinct: bool = True
) -> pl.Series:
    """Return the id column of a table, in the type of the known ids.

    distinct: raise DataError if an id has several rows.
    """
    column = key if key in table.columns else find_column(role, table.columns, None)
    if column is None:
        raise DataError(
            f"the {role} table has no id column among {listing(table.columns)}: rename it to "
            f"{role!r}"
        )
    given = as_plain(table[column])
    ids = comparable(given, dtype)
    if ids is None or ids.null_count() > given.null_count():
        odd = given if ids is None else given.filter(ids.is_null() & given.is_not_null())
        example = f", such as {odd[0]!r}," if len(odd) else ""
        raise DataError(
            f"{column!r} of the {role} table holds {table[column].dtype}{example} but the {role} "
            f"ids of the events are {dtype}: give both the same type"
        )
    if ids.null_count():
        count = ids.null_count()
        raise DataError(
            f"the {role} table has {count:,} row{'s' * (count > 1)} without an id in {column!r}: "
            "leave out such rows"
        )
    if distinct and ids.n_unique() < len(ids):
        twice = ids.filter(ids.is_duplicated())[0]
        raise DataError(
            f"the {role} table has more than one row for {column} {twice!r}: give one row per id, "
            "with lists for several values"
        )
    return ids


def aligned(
    vocabulary: Vocabulary, table: pl.DataFrame, role: str, key: str | None
) -> tuple[Vocabulary, pl.DataFrame]:
    """Return the vocabulary with the table's new ids, and the attributes in its order."""
    check_types(table)
    ids = id_column(table, vocabulary.ids.dtype, role, key)
    grown = vocabulary.extend(ids)
    attributes = table.drop(ids.name)
    return grown, in_order(attributes, Vocabulary(ids).numbers(grown.ids))


def check_known(table: pl.DataFrame, of_events: pl.Series, role: str, key: str | None) -> None:
    """Log it if under half of the events have an id of the table.

    Raise DataError if no event has one and ids are written differently in the two.
    of_events: the user or item id of each event.
    """
    if not len(table) or not len(of_events):
        return
    of_events = as_plain(of_events)
    check_types(table)
    ids = id_column(table, of_events.dtype, role, key, distinct=False)
    known = of_events.is_in(ids.implode())
    share = known.sum() / len(known)
    if share >= MATCHED:
        return
    absent = of_events[known.arg_min() or 0]
    alike = plain_form(ids) == plain_form(pl.Series([absent]))
    if not known.any() and alike.any():
        raise DataError(
            f"no {role} of the events is in the {role} table: the events have {absent!r}, the "
            f"table {ids.filter(alike)[0]!r}; write the ids alike, or leave out {named(f'{role}s')}"
        )
    LOG.warning(
        "%s of %s events (%.0f%%) have their %s in the %s table, which lacks %r and has %r: check "
        "that ids are written alike in both",
        *(f"{known.sum():,}" if known.any() else "none", f"{len(known):,}", 100 * share),
        *(role, role, absent, ids[0]),
    )


def plain_columns(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table of plain values and lists of them: categories and anything else as text."""
    return table.with_columns(_plain(values) for values in table.iter_columns())


def _plain(values: pl.Series) -> pl.Series:
    values = as_plain(values)
    dtype = values.dtype
    if dtype == pl.Null:
        return values.cast(pl.String)
    if isinstance(dtype, pl.List | pl.Array):
        inner = getattr(dtype, "inner", None)
        if isinstance(inner, pl.Categorical | pl.Enum | pl.Null):
            inner = pl.String()
        if inner is not None and not inner.is_nested():
            return values.cast(pl.List(inner)).list.drop_nulls()
    if dtype.is_nested():
        texts = [None if v is None else json.dumps(v, default=str) for v in values.to_list()]
        return pl.Series(values.name, texts, dtype=pl.String)
    return values


def in_order(table: pl.DataFrame, rows: np.ndarray) -> pl.DataFrame:
    """Return the rows of a table at these numbers; nulls for -1."""
    if not table.width:
        return pl.DataFrame()
    row_numbers = pl.Series("row", rows).cast(pl.Int64).replace({-1: None})
    return table.select(pl.all().gather(row_numbers))


def merged(table: pl.DataFrame, more: pl.DataFrame, renew: bool = False) -> pl.DataFrame:
    """Return two tables of the same rows as one.

    Columns in both get the type of the first table; numbers get a type that holds both.

    Where both have a value, the first table takes precedence; renew: the second does.
    """
    columns = {name: table[name] for name in table.columns}
    for name in more.columns:
        values = more[name]
        if name in columns:
            first, second = _alike(columns[name], values)
            first, second = (second, first) if renew else (first, second)
            values = first.zip_with(first.is_not_null(), second)
        columns[name] = values.alias(name)
    return pl.DataFrame(columns)


def joined(
    attributes: pl.DataFrame, table: pl.DataFrame, key: str
) -> tuple[pl.DataFrame, list[str]]:
    """Join item columns of the events with an item table; return also the columns both have.

    attributes: with the ids in `key`. Where both have a value, `table` takes precedence.
    """
    known = Vocabulary(attributes[key])
    ids = id_column(table, known.ids.dtype, "item", key)
    every, attributes, table = known.extend(ids), attributes.drop(key), table.drop(ids.name)
    attributes = in_order(attributes, known.numbers(every.ids))
    table = in_order(table, Vocabulary(ids).numbers(every.ids))
    both = [name for name in attributes.columns if name in table.columns]
    order = [*attributes.columns, *(name for name in table.columns if name not in both)]
    columns = merged(table, attributes).select(order)
    return every.ids.rename(key).to_frame().hstack(columns), both


def changed(
    items: Vocabulary, table: pl.DataFrame, ids: pl.Series, given: pl.DataFrame, clear: bool = False
) -> tuple[Vocabulary, pl.DataFrame, np.ndarray]:
    """Return the ids and their table with rows added or changed, and the numbers of the rows given.

    ids: distinct, one for each row of `given`. A column that is not given keeps its values, and a
    null leaves a value as it is; clear: a null erases it.
    """
    numbers = items.numbers(ids)
    grown = items.extend(ids, numbers)
    numbers = numbers if grown is items else grown.numbers(ids)
    rows = np.full(len(grown), -1, np.int64)
    rows[numbers] = np.arange(len(ids))
    if len(grown) > len(items):
        table = in_order(
            table, np.append(np.arange(len(items)), np.full(len(grown) - len(items), -1))
        )
    given = in_order(given, rows)
    if clear:
        not_given, both = pl.Series(rows < 0), set(table.columns) & set(given.columns)
        table = table.with_columns(pl.when(not_given).then(pl.col(name)) for name in both)
    return grown, merged(table, given, renew=True), numbers


def _alike(known: pl.Series, given: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Cast two columns to a common type; raise DataError if there is none."""
    if known.dtype == given.dtype or given.dtype == pl.Null:
        return known, given.cast(known.dtype)
    if known.dtype == pl.Null:
        return known.cast(given.dtype), given
    if known.dtype.is_numeric() and given.dtype.is_numeric():
        empty = [values.alias("").head(0).to_frame() for values in (known, given)]
        both = pl.concat(empty, how="vertical_relaxed").dtypes[0]
        return known.cast(both), given.cast(both)
    try:
        if known.dtype == pl.Boolean and given.dtype == pl.String:
            words = given.str.to_lowercase()
            return known, words.replace_strict({"true": True, "false": False})
        return known, given.cast(known.dtype)
    except pl.exceptions.PolarsError:
        example = given.drop_nulls()[0]
        raise DataError(
            f"column {known.name!r} holds {known.dtype}, but {example!r} was given, which is "
            f"{given.dtype}: give both the same type"
        ) from None


def item_table(
    events: pl.DataFrame,
    decisions: Decisions,
    table: pl.DataFrame,
    leaks: Sequence[str],
    vectors: Any,
) -> pl.DataFrame:
    """Return the item table with the event columns that describe the item.

    Each item gets its most frequent value, ties the smallest one; lists get the item's first value.
    """
    key, moved = decisions.roles["item"], decisions.named(ATTRIBUTE) + decisions.named(DISPLAY)
    check_known(table, events[key], "item", key)
    if vectors is not None:
        table_with_vectors = with_vectors(table if table.width else None, vectors, events[key])
        table = table if table_with_vectors is None else table_with_vectors
    check_no_leak(decisions.named(CONTEXT), table, leaks)
    if not moved:
        return table
    known = {name: pl.col(name).drop_nulls() for name in moved}
    attributes = events.group_by(key, maintain_order=True).agg(
        values.first() if events[name].dtype.is_nested() else values.mode().sort().first()
        for name, values in known.items()
    )
    attributes = attributes.with_columns(as_plain(attributes[key]))
    if not table.width:
        return attributes
    both, shared = joined(attributes, table, key)
    if shared:
        names = ", ".join(map(repr, shared))
        LOG.warning("merged with the item table, whose values take precedence: %s", names)
    return both
