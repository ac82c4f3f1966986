"""The leave-one-out files of "Neural Collaborative Filtering"."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from fmpair.data.formats.delimited import read_delimited
from fmpair.data.formats.source import Contents, parsing, read_text
from fmpair.data.frame import with_types
from fmpair.errors import DataError

PAIR = r"^\(([^,]+),\s*([^)]+)\)$"


def read_ncf(path: str | Path) -> Contents:
    """A .train.rating or .test.rating file: user, item, rating, timestamp between tabs."""
    columns = ("user", "item", "rating", "timestamp")
    return Contents(read_delimited(path, separator="\t", header=False, columns=columns))


def read_negatives(path: str | Path) -> pl.DataFrame:
    """A .test.negative file: (user, item, positive), a row for each item that is a negative.

    So it is what `Protocol(candidates="file", items=...)` takes: the candidates of each user.
    """
    with parsing(f"{path} as negatives of ncf"):
        return _negatives(path)


def _negatives(path: str | Path) -> pl.DataFrame:
    lines = pl.Series("line", read_text(path).splitlines(), pl.String).str.split("\t")
    pair = lines.list.first()
    frame = pl.DataFrame(
        {
            "user": pair.str.extract(PAIR, 1),
            "positive": pair.str.extract(PAIR, 2),
            "item": lines.list.slice(1),
        }
    )
    wrong = frame["positive"].is_null()
    if wrong.any():
        raise DataError(
            f"{path} must hold lines of '(user,item)', then the negatives, in tabs, not as line "
            f"{(wrong.arg_max() or 0) + 1}"
        )
    none = frame["item"].list.len() == 0
    if none.any():
        raise DataError(f"line {(none.arg_max() or 0) + 1} of {path} has no negatives")
    frame = with_types(frame, ids=("user", "positive"))
    items = frame["item"].cast(pl.List(frame["positive"].dtype), strict=False)
    lost = items.list.drop_nulls().list.len() != frame["item"].list.len()
    if lost.any():
        raise DataError(
            f"line {(lost.arg_max() or 0) + 1} of {path} has negatives that are no items: items "
            "are whole numbers here"
        )
    return frame.with_columns(items).explode("item").select("user", "item", "positive")
