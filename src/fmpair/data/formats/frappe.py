"""Rows of CFM and ENSFM: ``user-context-context-...,item-attribute-...`` in feature numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from fmpair.data.formats.delimited import read_columns, read_delimited
from fmpair.data.formats.source import Contents, check_table, locate, read_text
from fmpair.data.frame import with_types
from fmpair.errors import DataError, named, unknown

# Frappe: which app was used when, where and in what weather.


META = ("category", "downloads", "developer", "language", "price", "stars")


def read_frappe(path: str | Path, *, meta: bool = False) -> Contents:
    """frappe.csv, or the folder that holds it: cnt is the weight, cost belongs to the item.

    meta: add the shop's description of the apps (meta.csv in the same folder) to the items.
    """
    path = Path(path)
    folder, name = (path, "frappe.csv") if path.is_dir() else (path.parent, path.name)
    if path.is_dir() and locate(path, name) is None:
        raise DataError(f"the folder {path} holds no {name}")
    events = read_delimited(folder / name, separator="\t")
    # Cities are numbers in the file, but no city is twice another.
    events = events.with_columns(pl.col("city").cast(pl.String)) if "city" in events else events
    items = _read_meta(folder) if meta else None
    return Contents(events, items=items, roles={"weight": "cnt", "item_columns": ["cost"]})


def _read_meta(folder: Path) -> pl.DataFrame:
    found = locate(folder, "meta.csv")
    if found is None:
        raise DataError(f"the folder {folder} holds no meta.csv: leave out {named('meta', True)}")
    table = read_delimited(found[0], separator="\t", nulls=("", "unknown"))
    for name in ("item", "price", "rating", *META[:4]):
        if name not in table.columns:
            raise DataError(f"{found[0]} " + unknown("column", name, table.columns))
    text = pl.col("price").cast(pl.String).replace("Free", "$0")
    price = text.str.extract(r"([0-9.]+)").cast(pl.Float64, strict=False)
    stars = pl.col("rating").cast(pl.Float64, strict=False).alias("stars")
    return table.with_columns(price, stars).select("item", *META)


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
