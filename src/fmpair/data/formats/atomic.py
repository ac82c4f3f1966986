"""RecBole's atomic files: .inter, .user and .item with typed headers."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from fmpair.data.dataset import Dataset
from fmpair.data.formats.delimited import read_columns
from fmpair.data.formats.source import Contents, read_text
from fmpair.data.frame import id_columns, with_types
from fmpair.errors import DataError, unknown

KINDS = ("token", "token_seq", "float", "float_seq")


def read_atomic(path: str | Path) -> Contents:
    """An .inter file with the .user and .item files beside it, or the folder that holds them.

    Tokens stay text, so that they are categories; ids become whole numbers where all are.
    """
    events = _inter_file(Path(path))
    users, items = (events.with_suffix(suffix) for suffix in (".user", ".item"))
    return Contents(
        _read_typed(events),
        _read_typed(users) if users.is_file() else None,
        _read_typed(items) if items.is_file() else None,
    )


def _inter_file(path: Path) -> Path:
    if not path.is_dir():
        return path
    found = sorted(path.glob("*.inter"))
    if len(found) != 1:
        raise DataError(f"the folder {path} holds {len(found)} .inter files: name one of them")
    return found[0]


def _read_typed(path: Path) -> pl.DataFrame:
    text = read_columns(read_text(path), str(path), separator="\t", nulls=("",))
    typed: dict[str, pl.Series] = {}
    for column in text.iter_columns():
        name, _, kind = column.name.partition(":")
        if kind not in KINDS:
            raise DataError(
                f"column {column.name!r} of {path} has no type: a header is 'name:type'. "
                + unknown("type", kind, KINDS)
            )
        if name in typed:
            raise DataError(f"two columns of {path} have one name: {name!r}")
        typed[name] = _as_kind(column, kind, str(path))
    frame = pl.DataFrame(typed)
    ids = [name for name in id_columns(frame.columns) if frame[name].dtype == pl.String]
    return frame.with_columns(with_types(frame.select(ids), ids=ids)) if ids else frame


def _as_kind(column: pl.Series, kind: str, path: str) -> pl.Series:
    if kind.endswith("_seq"):
        column = column.str.extract_all(r"\S+")
    if kind.startswith("token"):
        return column
    dtype: pl.DataType = pl.List(pl.Float64()) if kind == "float_seq" else pl.Float64()
    try:
        return column.cast(dtype)
    except pl.exceptions.PolarsError as error:
        raise DataError(f"column {column.name!r} of {path} holds text that is no number") from error


def atomic_files(data: Dataset) -> dict[str, bytes]:
    """Suffix -> content: the events as .inter, and the tables, where there are any."""
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
        name = f"{column.name}_id" if is_id else column.name
        values, kind = _as_text(column, is_id)
        columns.append(values.alias(f"{name}:{kind}"))
    return pl.DataFrame(columns).write_csv(separator="\t", quote_style="never").encode()


def _as_text(column: pl.Series, is_id: bool) -> tuple[pl.Series, str]:
    """Values as RecBole spells them, and the type for the header."""
    kind = "token"
    if column.dtype.is_temporal() and not is_id:
        return column.cast(pl.Datetime("us")).dt.epoch("us") / 1e6, "float"
    if column.dtype.is_numeric() and not is_id:
        return column.cast(pl.Float64), "float"
    if isinstance(column.dtype, pl.List):
        kind = "float_seq" if column.dtype.inner.is_numeric() else "token_seq"
        parts = column.cast(pl.List(pl.String))
        if parts.explode().str.contains(r"\s").any():
            raise DataError(
                f"a value of {column.name!r} holds a space, which RecBole's lists cannot"
            )
        return parts.list.join(" "), kind
    text = column.cast(pl.String)
    if text.str.contains(r"[\t\n\"]").any():
        raise DataError(
            f"a value of {column.name!r} holds a tab, quote or line end, which RecBole cannot"
        )
    return text, kind
