"""Sequence files: lines of a user and their items, oldest first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl

from fmpair.data.dataset import Dataset
from fmpair.data.formats.source import Contents, read_text
from fmpair.data.frame import with_types
from fmpair.data.parts import by_time_order
from fmpair.data.splits import histories
from fmpair.errors import DataError

# LightGCN's lines: ``user item item ...``.


def read_lightgcn(path: str | Path) -> Contents:
    """One event per item of a line, in the file's order; a user without items gives none."""
    lines = pl.Series("line", read_text(path).splitlines(), pl.String).str.extract_all(r"\S+")
    lines = lines.filter(lines.list.len() > 1)
    if not len(lines):
        raise DataError(f"{path} has no line of the form 'user item item ...'")
    users = lines.list.first().alias("user")
    events = pl.DataFrame([users, lines.list.slice(1).alias("item")]).explode("item")
    return Contents(with_types(events, ids=("user", "item")))


def lightgcn_lines(data: Dataset) -> bytes:
    """The events as lines of a user and all items, in order of first appearance."""
    for role, ids in (("user", data.users.ids), ("item", data.items.ids)):
        if ids.dtype == pl.String and ids.str.contains(r"\s").any():
            raise DataError(f"a {role} id holds a space, which lines of ids between spaces cannot")
    frame = data.frame().select(pl.col("user", "item").cast(pl.String))
    lines = frame.group_by("user", maintain_order=True).agg(pl.col("item").str.join(" "))
    return (
        lines.select(pl.concat_str("user", "item", separator=" "))
        .write_csv(include_header=False, quote_style="never")
        .encode()
    )


def read_sequences(path: str | Path) -> Contents:
    """One event per item of a line ``user item item ...``, oldest first.

    Of a user with several lines the later ones are later. Nothing is known of the order of events
    of different users.
    """
    return replace(read_lightgcn(path), roles={"order": "per-user"})


def sequence_lines(data: Dataset) -> bytes:
    """The events as lines of a user and all items, oldest first; users by first appearance."""
    oldest_first = histories(data.user, by_time_order(data)).row
    return lightgcn_lines(data.take(oldest_first))
