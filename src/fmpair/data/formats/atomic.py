"""RecBole's atomic files: .inter, .user and .item with typed headers."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from fmpair.data.dataset import Dataset
from fmpair.data.formats.delimited import read_columns
from fmpair.data.formats.source import Contents, read_text
from fmpair.data.frame import id_columns, with_types
from fmpair.errors import DataError, unknown

TYPES = ("token", "token_seq", "float", "float_seq")


def read_atomic(path: str | Path) -> Contents:
    """Read an .inter file with the .user and .item files beside it, or the folder with them.

    Tokens stay text, so that they are categories; ids become integers if all are whole numbers.
    """
    path = Path(path)
    if path.is_dir():
        files = sorted(path.glob("*.inter"))
        if not files:
            raise DataError(
                f"the folder {path} holds no data set of a known format, such as MovieLens or "
                "RecBole (.inter): give the path of a file of events"
            )
        if len(files) > 1:
            raise DataError(
                f"the folder {path} has {len(files)} .inter files: give the path of one of them"
            )
        path = files[0]
    users, items = (path.with_suffix(suffix) for suffix in (".user", ".item"))
    return Contents(
        _read_typed(path),
        _read_typed(users) if users.is_file() else None,
        _read_typed(items) if items.is_file() else None,
    )


def _read_typed(path: Path) -> pl.DataFrame:
    text = read_columns(read_text(path), str(path), separator="\t", nulls=("",))
    typed: dict[str, pl.Series] = {}
    for column in text.iter_columns():
        name, _, dtype = column.name.partition(":")
        if dtype not in TYPES:
            raise DataError(
                f"column {column.name!r} of {path} has no type: a header must be 'name:type'. "
                + unknown("type", dtype, TYPES)
            )
        if name in typed:
            raise DataError(f"{path} has two columns with one name: {name!r}")
        typed[name] = _as_type(column, dtype, str(path))
    frame = pl.DataFrame(typed)
    ids = [name for name in id_columns(frame.columns) if frame[name].dtype == pl.String]
    return frame.with_columns(with_types(frame.select(ids), ids=ids)) if ids else frame


def _as_type(column: pl.Series, type_name: str, path: str) -> pl.Series:
    if type_name.endswith("_seq"):
        column = column.str.extract_all(r"\S+")
    if type_name.startswith("token"):
        return column
    dtype: pl.DataType = pl.List(pl.Float64()) if type_name == "float_seq" else pl.Float64()
    try:
        return column.cast(dtype)
    except pl.exceptions.PolarsError as error:
        raise DataError(
            f"column {column.name!r} of {path} has values that are not numbers"
        ) from error


def atomic_files(data: Dataset) -> dict[str, bytes]:
    """Return suffix -> content: the events as .inter, and the tables, if any."""
    files = {".inter": _typed_text(data.frame())}
    for role, ids, table in (
        ("user", data.users.ids, data.user_table),
        ("item", data.items.ids, data.item_table),
    ):
        if table.width:
            files[f".{role}"] = _typed_text(ids.alias(role).to_frame().hstack(table))
    return files


def _typed_text(frame: pl.DataFrame) -> bytes:
    columns = []
    for column in frame.iter_columns():
        is_id = column.name in ("user", "item")
        values, type_name = _for_recbole(column, is_id)
        columns.append(values.alias(f"{column.name}{'_id' if is_id else ''}:{type_name}"))
    return pl.DataFrame(columns).write_csv(separator="\t", quote_style="never").encode()


def _for_recbole(column: pl.Series, is_id: bool) -> tuple[pl.Series, str]:
    """Return the values for a RecBole file (floats or text), and their type for the header."""
    if column.dtype.is_temporal() and not is_id:
        return column.cast(pl.Datetime("us")).dt.epoch("us") / 1e6, "float"
    if column.dtype.is_numeric() and not is_id:
        return column.cast(pl.Float64), "float"
    if isinstance(column.dtype, pl.List):
        parts = column.cast(pl.List(pl.String))
        if parts.explode().str.contains(r"\s").any():
            raise DataError(
                f"a value of {column.name!r} contains a space, which RecBole does not allow in "
                "lists"
            )
        return parts.list.join(" "), "float_seq" if column.dtype.inner.is_numeric() else "token_seq"
    text = column.cast(pl.String)
    if text.str.contains(r"[\t\n\"]").any():
        raise DataError(
            f"a value of {column.name!r} contains a tab, quote or line break, which RecBole does "
            "not allow"
        )
    return text, "token"
