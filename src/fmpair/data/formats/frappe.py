"""Frappe app usage in context: the original CSV, and the numbered rows of CFM and ENSFM."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from fmpair.data.formats.delimited import read_columns, read_delimited
from fmpair.data.formats.source import Contents, check_table, first_line, locate, read_text
from fmpair.data.frame import with_types
from fmpair.errors import DataError, named, unknown

META = ("category", "downloads", "developer", "language", "price", "stars")
FRAPPE_CONTEXT = ("daytime", "weekday", "isweekend", "homework", "weather", "country", "city")
FRAPPE_ITEM = ("cost",)


def read_frappe(path: str | Path, *, meta: bool = False) -> Contents:
    """Read frappe.csv, or the folder with it: cnt is the weight, cost belongs to the item.

    meta: add the store's description of the apps (meta.csv in the same folder) to the items.
    """
    path = Path(path)
    folder, name = (path, "frappe.csv") if path.is_dir() else (path.parent, path.name)
    if path.is_dir() and locate(path, name) is None:
        raise DataError(f"the folder {path} does not contain {name}")
    events = read_delimited(folder / name, separator="\t")
    if "city" in events:  # numeric in the file, but categorical
        events = events.with_columns(pl.col("city").cast(pl.String))
    items = _read_meta(folder) if meta else None
    return Contents(events, items=items, roles={"weight": "cnt", "item_columns": ["cost"]})


def _read_meta(folder: Path) -> pl.DataFrame:
    located = locate(folder, "meta.csv")
    if located is None:
        raise DataError(
            f"the folder {folder} does not contain meta.csv: leave out {named('meta', True)}"
        )
    table = read_delimited(located[0], separator="\t", nulls=("", "unknown"))
    for name in ("item", "price", "rating", *META[:4]):
        if name not in table.columns:
            raise DataError(f"{located[0]}: " + unknown("column", name, table.columns))
    text = pl.col("price").cast(pl.String).replace("Free", "$0")
    price = text.str.extract(r"([0-9.]+)").cast(pl.Float64, strict=False)
    stars = pl.col("rating").cast(pl.Float64, strict=False).alias("stars")
    return table.with_columns(price, stars).select("item", *META)


def read_cfm(
    path: str | Path,
    *,
    names: Sequence[str] | None = None,
    item_names: Sequence[str] | None = None,
) -> Contents:
    """Read rows ``user-context-context-...,item-attribute-...`` of feature numbers.

    Users and items become integers; contexts and item attributes stay text.
    names, item_names: of the contexts and item attributes; by default those of Frappe if their
    number fits, else context_1, ... and attribute_1, ...
    """
    sides = read_columns(read_text(path), str(path), separator=",", header=False)
    if sides.width != 2:
        raise DataError(f"{path} has {sides.width} columns: a row must be 'user-...,item-...'")
    query, item = (_parts(sides[:, side], str(path)) for side in (0, 1))
    contexts = _names(names, len(query) - 1, FRAPPE_CONTEXT, "context")
    attributes = _names(item_names, len(item) - 1, FRAPPE_ITEM, "attribute")
    events = pl.DataFrame(dict(zip(("user", *contexts, "item", *attributes), query + item)))
    ids = with_types(events.select("user", "item"), ids=("user", "item"))
    return Contents(events.with_columns(ids), roles={"item_columns": attributes})


def _parts(values: pl.Series, path: str) -> list[pl.Series]:
    """Split values at dashes into columns."""
    split = values.str.split("-")
    counts = split.list.len().fill_null(0)
    if not len(counts) or not counts[0]:
        raise DataError(f"the first row of {path} must be 'user-...,item-...'")
    wrong = counts != counts[0]
    if wrong.any():
        row = first_line(wrong)
        raise DataError(
            f"row {row} of {path} has {counts[row - 1]} numbers between dashes, the first row has "
            f"{counts[0]}"
        )
    check_table(path, len(counts), counts[0], len(counts) * counts[0])
    return [split.list.get(index) for index in range(counts[0])]


def _names(given: Sequence[str] | None, count: int, default: Sequence[str], stem: str) -> list[str]:
    if given is None:
        fits = count == len(default)
        return list(default) if fits else [f"{stem}_{n + 1}" for n in range(count)]
    if len(given) != count:
        raise DataError(f"{len(given)} {stem} names were given, but a row has {count}")
    return list(given)
