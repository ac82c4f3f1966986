"""Statistics of a data set."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl

from fmpair.data.dataset import Dataset
from fmpair.data.times import UNITS, unit_of
from fmpair.forked import check_process

Figure = int | float | str


def describe(data: Dataset) -> pl.DataFrame:
    """The figures of a data set as a long table of text: name, value."""
    found = figures(data)
    return pl.DataFrame(
        {"name": list(found), "value": [_text(value) for value in found.values()]},
        schema={"name": pl.String, "value": pl.String},
    )


def figures(data: Dataset) -> dict[str, Figure]:
    """Name -> figure: sizes, sparsity, activity, context, attributes, domains, times."""
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
    found: dict[str, Figure] = {}
    for column in frame.iter_columns():
        values = column.explode() if isinstance(column.dtype, pl.List) else column
        missing = column.null_count() / len(column) if len(column) else 0.0
        found[f"{what} {column.name}, type"] = str(column.dtype)
        found[f"{what} {column.name}, distinct values"] = values.drop_nulls().n_unique()
        found[f"{what} {column.name}, missing %"] = 100 * missing
    return found


def _domains(data: Dataset) -> dict[str, Figure]:
    if "domain" not in data.columns.columns:
        return {}
    frame = data.columns.select("domain").with_columns(pl.Series("item", data.item))
    found: dict[str, Figure] = {}
    for name, part in sorted(frame.group_by("domain"), key=lambda group: str(group[0])):
        found[f"domain {name[0]}, events"] = len(part)
        found[f"domain {name[0]}, items"] = part["item"].n_unique()
    return found


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
    """A number of seconds, milliseconds, ... since 1970."""
    moment = datetime.fromtimestamp(float(value) * UNITS[unit] / UNITS["s"], UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def _text(value: Figure) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
