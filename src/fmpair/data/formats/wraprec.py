"""WrapRec's delimited files, whose column types are given by the caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from fmpair.data.formats.delimited import read_columns, with_names
from fmpair.data.formats.source import Contents, read_text
from fmpair.data.frame import id_columns, with_types
from fmpair.errors import DataError, OptionError, unknown

TYPES = ("discrete", "multi-discrete", "real", "binary", "ignored")
BINARY = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def read_wraprec(
    path: str | Path,
    *,
    types: Mapping[str, str] | None = None,
    separator: str | None = None,
    header: bool = True,
    columns: Sequence[str] | None = None,
    encoding: str = "utf-8",
    ids: Sequence[str] = (),
) -> Contents:
    """Read a delimited file with a type per column; columns without a type are inferred.

    types: column -> discrete (text), multi-discrete (a list, split at |), real, binary or ignored.
    """
    frame = read_columns(read_text(path, encoding), str(path), separator, header)
    frame = with_names(frame, str(path), columns)
    types = types or {}
    for name, type_name in types.items():
        if name not in frame.columns:
            raise DataError(unknown("column", name, frame.columns))
        if type_name not in TYPES:
            raise OptionError(unknown(f"type of column {name!r}:", type_name, TYPES))
    untyped = frame.select(name for name in frame.columns if name not in types)
    frame = frame.with_columns(with_types(untyped, id_columns(frame.columns, ids)))
    kept = [name for name in frame.columns if types.get(name) != "ignored"]
    return Contents(pl.DataFrame([_as_type(frame[n], types.get(n), str(path)) for n in kept]))


def _as_type(column: pl.Series, type_name: str | None, path: str) -> pl.Series:
    if type_name == "multi-discrete":
        return column.str.split("|")
    if type_name not in ("real", "binary"):
        return column
    if type_name == "real":
        typed = column.cast(pl.Float64, strict=False)
    else:
        lower = column.str.to_lowercase()
        typed = lower.replace_strict(BINARY, default=None, return_dtype=pl.Boolean)
    lost = typed.is_null() & column.is_not_null()
    if lost.any():
        raise DataError(
            f"column {column.name!r} of {path} is {type_name} but has {column.filter(lost)[0]!r}"
        )
    return typed
