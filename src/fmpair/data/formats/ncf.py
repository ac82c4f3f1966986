"""Leave-one-out files of "Neural Collaborative Filtering"."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from fmpair.data.formats.delimited import read_delimited
from fmpair.data.formats.source import Contents, first_line, parse_errors, read_lines
from fmpair.data.frame import with_types
from fmpair.errors import DataError

PAIR = r"^\(([^,]+),\s*([^)]+)\)$"


def read_ncf(path: str | Path) -> Contents:
    """Read a .train.rating or .test.rating file: user, item, rating, timestamp between tabs."""
    columns = ("user", "item", "rating", "timestamp")
    return Contents(read_delimited(path, separator="\t", header=False, columns=columns))


def read_negatives(path: str | Path) -> pl.DataFrame:
    """Read a .test.negative file as (user, item, positive), a row for each negative item.

    The frame is the `items` of `Protocol(candidates="file", items=...)`.
    """
    with parse_errors(f"{path} as NCF negatives"):
        lines = read_lines(path).str.split("\t")
        pair = lines.list.first()
        user, positive = (pair.str.extract(PAIR, group) for group in (1, 2))
        frame = pl.DataFrame({"user": user, "positive": positive, "item": lines.list.slice(1)})
        wrong = positive.is_null()
        if wrong.any():
            raise DataError(
                f"line {first_line(wrong)} of {path} must be '(user,item)' and the negative items, "
                "separated by tabs"
            )
        empty = frame["item"].list.len() == 0
        if empty.any():
            raise DataError(f"line {first_line(empty)} of {path} has no negative items")
        frame = with_types(frame, ids=("user", "positive"))
        items = frame["item"].cast(pl.List(frame["positive"].dtype), strict=False)
        lost = items.list.drop_nulls().list.len() != frame["item"].list.len()
        if lost.any():
            raise DataError(
                f"line {first_line(lost)} of {path} has negative items that are not whole numbers"
            )
        return frame.with_columns(items).explode("item").select("user", "item", "positive")
