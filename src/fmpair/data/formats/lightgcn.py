"""Lines ``user item item ...``: LightGCN's files, and sequence files with the oldest item first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl

from fmpair.data.dataset import Dataset
from fmpair.data.formats.source import Contents, read_lines
from fmpair.data.frame import with_types
from fmpair.data.owner_splits import histories
from fmpair.data.parts import by_time_order
from fmpair.errors import DataError


def read_lightgcn(path: str | Path) -> Contents:
    """Read one event per item of a line, in the file's order; a user without items gives none."""
    lines = read_lines(path).str.extract_all(r"\S+")
    lines = lines.filter(lines.list.len() > 1)
    if not len(lines):
        raise DataError(f"{path} has no line of the form 'user item item ...'")
    users = lines.list.first().alias("user")
    events = pl.DataFrame([users, lines.list.slice(1).alias("item")]).explode("item")
    return Contents(with_types(events, ids=("user", "item")))


def read_sequences(path: str | Path) -> Contents:
    """Read one event per item of a line, each user's oldest first; lines of a user are in order.

    The order of events of different users is not known.
    """
    return replace(read_lightgcn(path), roles={"order": "per-user"})


def lightgcn_lines(data: Dataset) -> bytes:
    """Return one line per user with all items, in order of first appearance."""
    for role, ids in (("user", data.users.ids), ("item", data.items.ids)):
        if ids.dtype == pl.String and ids.str.contains(r"\s").any():
            raise DataError(f"a {role} id contains a space, which separates ids in this format")
    frame = data.frame().select(pl.col("user", "item").cast(pl.String))
    lines = frame.group_by("user", maintain_order=True).agg(pl.col("item").str.join(" "))
    text = lines.select(pl.concat_str("user", "item", separator=" "))
    return text.write_csv(include_header=False, quote_style="never").encode()


def sequence_lines(data: Dataset) -> bytes:
    """Return one line per user with all items, oldest first; users by first appearance."""
    return lightgcn_lines(data.take(histories(data.user, by_time_order(data)).row))
