"""CiteULike sets, as Wang et al. publish them: libraries of users, and tags of articles."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from fmpair.data.formats.source import Contents, first_line, locate, read_lines
from fmpair.errors import DataError


def read_citeulike(path: str | Path) -> Contents:
    """Read the articles of each user, and the `tags` of articles, from a folder.

    users.dat and item-tag.dat have a line per user or article: a count, then numbers of articles
    or tags, counted from 0 as the lines are; tags.dat names the tags. Without item-tag.dat there
    are no tags.
    """
    events = _numbered(path, "users.dat", ("user", "item")).explode("item").drop_nulls()
    if locate(path, "item-tag.dat") is None:
        return Contents(events)
    items = _numbered(path, "item-tag.dat", ("item", "tags")).explode("tags")
    names = _lines(path, "tags.dat").str.strip_chars()
    most = items["tags"].max()
    if isinstance(most, int) and most >= len(names):
        raise DataError(f"item-tag.dat has tag {most}, but tags.dat has {len(names):,} lines")
    tags = pl.DataFrame([items["item"], names.gather(items["tags"]).alias("tags")])
    listed = tags.group_by("item", maintain_order=True).agg(pl.col("tags").drop_nulls())
    return Contents(events, items=listed)


def _numbered(path: str | Path, name: str, columns: tuple[str, str]) -> pl.DataFrame:
    """Return (number of the line, numbers on it without the count); DataError for other lines."""
    parts = _lines(path, name).str.extract_all(r"\S+")
    numbers = parts.list.eval(pl.element().cast(pl.Int64, strict=False))
    count = numbers.list.first()
    right = (count == numbers.list.len().cast(pl.Int64) - 1) & (numbers.list.min() >= 0)
    right = (right & ~numbers.list.eval(pl.element().is_null()).list.any()).fill_null(False)
    if not right.all():
        raise DataError(
            f"{name}, line {first_line(~right)}: must be a count and as many numbers, as in '2 7 9'"
        )
    number = pl.int_range(len(numbers), dtype=pl.Int64, eager=True)
    return pl.DataFrame([number.alias(columns[0]), numbers.list.slice(1).alias(columns[1])])


def _lines(path: str | Path, name: str) -> pl.Series:
    located = locate(path, name)
    if located is None:
        raise DataError(f"{path} does not contain {name}")
    return read_lines(*located)
