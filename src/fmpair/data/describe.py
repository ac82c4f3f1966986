"""Statistics of a data set, and the fingerprint of its contents."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import numpy as np
import polars as pl

from fmpair.data.dataset import Dataset
from fmpair.data.times import UNITS, unit_of
from fmpair.threads import check_process

PIECE = 1 << 20  # rows hashed at a time
EXACT = 2**53  # floats represent all integers up to this one
MANY_REPEATS = 0.1  # share of events that repeat a user's item, from which repeats are usual

Figure = int | float | str
Feed = Callable[[Any], None]


def describe(data: Dataset) -> pl.DataFrame:
    """Return the statistics of a data set as a table of text: name, value."""
    rows = [
        (name, f"{value:.2f}" if isinstance(value, float) else str(value))
        for name, value in figures(data).items()
    ]
    return pl.DataFrame(rows, {"name": pl.String, "value": pl.String}, orient="row")


DECIDE = "filter: [above_mean] keeps those above it, [all_positive] declares that they are positive"


def low_ratings_note(data: Dataset, remedy: str = DECIDE) -> str:
    """Return a line if events with a rating below their user's mean count as positive."""
    rating = data.column("rating")
    if rating is None or not len(rating):
        return ""
    values = rating.astype(np.float64)
    counts = np.bincount(data.user, minlength=len(data.users))
    mean = np.bincount(data.user, values, len(data.users)) / np.maximum(counts, 1)
    low = int((values < mean[data.user] - 1e-9).sum())  # sums of equal ratings differ slightly
    if not low:
        return ""
    return (
        f"{low:,} of {len(data):,} events ({low / len(data):.0%}) have a rating below their user's "
        f"mean and count as positive: {remedy}"
    )


def figures(data: Dataset) -> dict[str, Figure]:
    """Return statistics by name: sizes, sparsity, activity, context, attributes, domains, times."""
    check_process()
    pairs = len(data.seen.column)
    cells = len(data.users) * len(data.items)
    return {
        "users": len(data.users),
        "items": len(data.items),
        "events": len(data),
        "distinct pairs": pairs,
        "duplicate events": len(data) - pairs,
        "sparsity %": 100 * (1 - pairs / cells) if cells else 0.0,
        **_activity("user", data.user, len(data.users)),
        **_activity("item", data.item, len(data.items)),
        **_ratings(data),
        **_columns("context", data.columns.select(data.context)),
        **_columns("user attribute", data.user_table),
        **_columns("item attribute", data.item_table),
        **_domains(data),
        **_times(data),
        **({"impressions": len(data.impressions)} if len(data.impressions) else {}),
    }


def _activity(role: str, numbers: np.ndarray, size: int) -> dict[str, Figure]:
    counts = np.bincount(numbers, minlength=size)
    if not size:
        return {}
    return {
        f"events per {role}, min": int(counts.min()),
        f"events per {role}, mean": float(counts.mean()),
        f"events per {role}, max": int(counts.max()),
        f"{role}s without events": int((counts == 0).sum()),
    }


def _ratings(data: Dataset) -> dict[str, Figure]:
    rating = data.column("rating")
    if rating is None or not len(rating):
        return {}
    return {
        "rating, min": float(rating.min()),
        "rating, mean": float(rating.mean()),
        "rating, max": float(rating.max()),
    }


def _columns(what: str, frame: pl.DataFrame) -> dict[str, Figure]:
    stats: dict[str, Figure] = {}
    for column in frame.iter_columns():
        values = column.explode() if isinstance(column.dtype, pl.List) else column
        missing = column.null_count() / len(column) if len(column) else 0.0
        stats[f"{what} {column.name}, type"] = str(column.dtype)
        stats[f"{what} {column.name}, distinct values"] = values.drop_nulls().n_unique()
        stats[f"{what} {column.name}, missing %"] = 100 * missing
    return stats


def _domains(data: Dataset) -> dict[str, Figure]:
    if "domain" not in data.columns.columns:
        return {}
    frame = data.columns.select("domain").with_columns(pl.Series("item", data.item))
    stats: dict[str, Figure] = {}
    for name, part in sorted(frame.group_by("domain"), key=lambda group: str(group[0])):
        stats[f"domain {name[0]}, events"] = len(part)
        stats[f"domain {name[0]}, items"] = part["item"].n_unique()
    return stats


def _times(data: Dataset) -> dict[str, Figure]:
    if data.order is not None:
        return {"order of time": "of rows" if data.order == "rows" else "of each user's rows"}
    if "timestamp" not in data.columns.columns or not len(data):
        return {}
    times = data.columns["timestamp"]
    unit = unit_of(times) if times.dtype.is_numeric() else None
    ends = {"first timestamp": times.min(), "last timestamp": times.max()}
    return {name: str(end) if unit is None else _date(end, unit) for name, end in ends.items()}


def _date(value: Any, unit: str) -> str:
    """Return a number of seconds, milliseconds, ... since 1970 as a date."""
    moment = datetime.fromtimestamp(float(value) * UNITS[unit] / UNITS["s"], UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def fingerprint(data: Dataset) -> str:
    """Return the SHA-256 of ids, events, columns, tables and impressions: 64 digits.

    It is the same on every machine and for every kind of frame. Numbers are hashed by value, so 4
    equals 4.0 (pandas turns integers with missing values into floats), categories as text.
    The order of events and of columns matters.
    """
    check_process()
    digest = sha256()
    for name, ids in (("users", data.users.ids), ("items", data.items.ids)):
        _feed_column(digest.update, ids.rename(name))
    for name, numbers in (("user", data.user), ("item", data.item)):
        _feed_column(digest.update, pl.Series(name, numbers))
    _feed_text(digest.update, "|".join(map(repr, data.context)))
    if data.order is not None:
        _feed_text(digest.update, data.order)
    impressions = [data.impressions] if len(data.impressions) else []
    for frame in (data.columns, data.user_table, data.item_table, *impressions):
        _feed_table(digest.update, frame)
    return digest.hexdigest()


def table_fingerprint(table: pl.DataFrame) -> str:
    """Return the SHA-256 of a table: 64 digits; see `fingerprint`."""
    digest = sha256()
    _feed_table(digest.update, table)
    return digest.hexdigest()


def _feed_table(feed: Feed, table: pl.DataFrame) -> None:
    feed(table.width.to_bytes(8, "little"))
    for column in table.iter_columns():
        _feed_column(feed, column)


def _feed_column(feed: Feed, column: pl.Series) -> None:
    """Hash name, kind and length, then null mask and values in pieces."""
    kind, plain = _plain(column)
    _feed_text(feed, f"{column.name}:{kind}")
    feed(len(plain).to_bytes(8, "little"))
    for piece in (plain.slice(first, PIECE) for first in range(0, len(plain), PIECE)):
        feed(np.packbits(piece.is_not_null().to_numpy()).data)
        if kind == "list":
            _feed_numbers(feed, piece.list.len().fill_null(0))
            _feed_column(feed, piece.explode(empty_as_null=False, keep_nulls=False))
        elif kind == "struct":
            for inner in piece.struct.unnest().iter_columns():
                _feed_column(feed, inner)
        elif kind == "text":
            _feed_numbers(feed, piece.str.len_bytes().fill_null(0))
            feed((piece.drop_nulls().str.join("").item() or "").encode())
        else:
            _feed_numbers(feed, piece.fill_null(0))


def _plain(column: pl.Series) -> tuple[str, pl.Series]:
    """Return (kind, values) of a column, with all types that hold equal values cast to one."""
    dtype = column.dtype
    if isinstance(dtype, pl.Categorical | pl.Enum) or dtype in (pl.String, pl.Null):
        return "text", column.cast(pl.String)
    if dtype.is_float():
        column = column.cast(pl.Float64).fill_nan(None)
        whole = (column == column.floor()) & (column.abs() <= EXACT)
        return ("number", column.cast(pl.Int64)) if whole.all() else ("float", column)
    if dtype == pl.UInt64 and (column > 2**63 - 1).any():
        return "large", column
    if dtype.is_integer():
        return "number", column.cast(pl.Int64)
    if dtype == pl.Boolean:
        return "truth", column.cast(pl.Int64)
    if dtype.is_temporal():
        return _microseconds_in_utc(column)
    if isinstance(dtype, pl.List | pl.Array):
        return "list", column.arr.to_list() if isinstance(dtype, pl.Array) else column
    return ("struct", column) if isinstance(dtype, pl.Struct) else ("text", column.cast(pl.String))


def _microseconds_in_utc(column: pl.Series) -> tuple[str, pl.Series]:
    if isinstance(column.dtype, pl.Datetime):
        return "time", column.cast(pl.Datetime("us")).cast(pl.Int64)
    if isinstance(column.dtype, pl.Duration):
        return "duration", column.cast(pl.Duration("us")).cast(pl.Int64)
    return str(column.dtype).lower(), column.to_physical().cast(pl.Int64)


def _feed_numbers(feed: Feed, values: pl.Series) -> None:
    array = values.to_numpy()
    kind = "<f8" if array.dtype.kind == "f" else "<u8" if array.dtype == np.uint64 else "<i8"
    feed(np.ascontiguousarray(array, kind).data)


def _feed_text(feed: Feed, text: str) -> None:
    content = text.encode()
    feed(len(content).to_bytes(8, "little"))
    feed(content)
