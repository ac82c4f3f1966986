"""The leave-one-out files of "Neural Collaborative Filtering"."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from fmpair.data.delimited import read_delimited
from fmpair.data.infer import with_types
from fmpair.data.source import Contents, read_text
from fmpair.errors import DataError

PAIR = r"^\(([^,]+),\s*([^)]+)\)$"


def read_ncf(path: str | Path) -> Contents:
    """A .train.rating or .test.rating file: user, item, rating, timestamp between tabs."""
    columns = ("user", "item", "rating", "timestamp")
    return Contents(read_delimited(path, separator="\t", header=False, columns=columns))


def read_negatives(path: str | Path) -> pl.DataFrame:
    """A .test.negative file: user, item (the positive), negatives (a list), one row per line."""
    lines = pl.Series("line", read_text(path).splitlines()).str.split("\t")
    pair = lines.list.first()
    frame = pl.DataFrame(
        {
            "user": pair.str.extract(PAIR, 1),
            "item": pair.str.extract(PAIR, 2),
            "negatives": lines.list.slice(1),
        }
    )
    if frame["item"].null_count():
        raise DataError(f"{path} must hold lines of '(user,item)', then the negatives, in tabs")
    frame = with_types(frame, ids=("user", "item"))
    return frame.with_columns(pl.col("negatives").cast(pl.List(frame["item"].dtype)))
