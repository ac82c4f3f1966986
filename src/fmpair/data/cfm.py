"""Rows of CFM and ENSFM: ``user-context-context-...,item-attribute-...`` in feature numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from fmpair.data.delimited import read_columns
from fmpair.data.infer import with_types
from fmpair.data.source import Contents, check_table, read_text
from fmpair.errors import DataError

FRAPPE_CONTEXT = ("daytime", "weekday", "isweekend", "homework", "weather", "country", "city")
FRAPPE_ITEM = ("cost",)


def read_cfm(
    path: str | Path,
    *,
    names: Sequence[str] | None = None,
    item_names: Sequence[str] | None = None,
) -> Contents:
    """Users and items as whole numbers; contexts and item attributes as the text of their numbers.

    names, item_names: of the contexts and item attributes; by default those of Frappe where
    their number fits, else context_1, ... and attribute_1, ...
    """
    sides = read_columns(read_text(path), str(path), separator=",", header=False)
    if sides.width != 2:
        raise DataError(f"{path} has {sides.width} columns: a row must be 'user-...,item-...'")
    query = _parts(sides[:, 0], str(path))
    item = _parts(sides[:, 1], str(path))
    contexts = _names(names, len(query) - 1, FRAPPE_CONTEXT, "context")
    attributes = _names(item_names, len(item) - 1, FRAPPE_ITEM, "attribute")
    columns = dict(zip(("user", *contexts, "item", *attributes), query + item))
    events = pl.DataFrame(columns)
    ids = with_types(events.select("user", "item"), ids=("user", "item"))
    return Contents(events.with_columns(ids), roles={"item_columns": attributes})


def _parts(values: pl.Series, path: str) -> list[pl.Series]:
    """The pieces between dashes, one column per place."""
    split = values.str.split("-")
    counts = split.list.len().fill_null(0)
    if not len(counts) or not counts[0]:
        raise DataError(f"the first row of {path} must be 'user-...,item-...'")
    odd = counts != counts[0]
    if odd.any():
        raise DataError(
            f"row {odd.arg_max()} of {path} (counted from 0) has {counts[odd.arg_max()]} numbers "
            f"between dashes where the first row has {counts[0]}"
        )
    check_table(path, len(counts), counts[0], len(counts) * counts[0])
    return [split.list.get(place) for place in range(counts[0])]


def _names(given: Sequence[str] | None, count: int, usual: Sequence[str], stem: str) -> list[str]:
    if given is None:
        return list(usual) if count == len(usual) else [f"{stem}_{n + 1}" for n in range(count)]
    if len(given) != count:
        raise DataError(f"{len(given)} {stem} names were given, but a row has {count}")
    return list(given)
