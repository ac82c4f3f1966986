"""Parquet files, asked how large they are before they are read."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from fmpair.data.formats.source import STANDARD_INPUT, check_table, find_file, read_bytes
from fmpair.errors import DataError

HEAD = 1_000  # rows that show what columns hold


def read_parquet(path: str | Path) -> pl.DataFrame:
    """A Parquet file."""
    source = _source(path)
    try:
        _check_size(path, source)
        return pl.read_parquet(source)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path} is no Parquet file: {str(error).splitlines()[0]}") from error


def parquet_columns(path: str | Path) -> pl.DataFrame:
    """The columns of a Parquet file with its first rows."""
    return pl.read_parquet(_source(path), n_rows=HEAD)


def _source(path: str | Path) -> Path | bytes:
    return read_bytes(path) if str(path) == STANDARD_INPUT else find_file(Path(path))


def _check_size(path: str | Path, source: Path | bytes) -> None:
    """A value that repeats takes no room in the file, but all the more in memory."""
    table = pl.scan_parquet(source)
    rows = table.select(pl.len()).collect().item()
    size = len(source) if isinstance(source, bytes) else source.stat().st_size
    check_table(path, rows, len(table.collect_schema()), size)
