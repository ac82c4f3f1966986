"""The leave-one-out files of "Neural Collaborative Filtering"."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from fmpair.data.border import parsing
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
    with parsing(f"{path} as negatives of ncf"):
        return _negatives(path)


def _negatives(path: str | Path) -> pl.DataFrame:
    lines = pl.Series("line", read_text(path).splitlines(), pl.String).str.split("\t")
    pair = lines.list.first()
    frame = pl.DataFrame(
        {
            "user": pair.str.extract(PAIR, 1),
            "item": pair.str.extract(PAIR, 2),
            "negatives": lines.list.slice(1),
        }
    )
    wrong = frame["item"].is_null()
    if wrong.any():
        raise DataError(
            f"{path} must hold lines of '(user,item)', then the negatives, in tabs, not as line "
            f"{(wrong.arg_max() or 0) + 1}"
        )
    frame = with_types(frame, ids=("user", "item"))
    kind = pl.List(frame["item"].dtype)
    negatives = frame["negatives"].cast(kind, strict=False)
    lost = negatives.list.drop_nulls().list.len() != frame["negatives"].list.len()
    if lost.any():
        raise DataError(
            f"line {(lost.arg_max() or 0) + 1} of {path} has negatives that are no items: items "
            "are whole numbers here"
        )
    return frame.with_columns(negatives)
