"""Frappe: which app was used when, where and in what weather."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from fmpair.data.delimited import read_delimited
from fmpair.data.source import Contents, locate
from fmpair.errors import DataError, named, unknown

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
