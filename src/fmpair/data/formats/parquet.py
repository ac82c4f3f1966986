"""Parquet files, checked for their size before they are read."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from fmpair.data.formats.source import STANDARD_INPUT, check_table, find_file, read_bytes, reason
from fmpair.errors import DataError

HEAD = 1_000  # rows that show what the columns hold


def read_parquet(path: str | Path) -> pl.DataFrame:
    """Read a Parquet file."""
    source = _source(path)
    try:
        # Repeated values take no space in the file, but they do in memory.
        table = pl.scan_parquet(source)
        rows = table.select(pl.len()).collect().item()
        size = len(source) if isinstance(source, bytes) else source.stat().st_size
        check_table(path, rows, len(table.collect_schema()), size)
        return pl.read_parquet(source)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path} is not a Parquet file: {reason(error)}") from error


def parquet_columns(path: str | Path) -> pl.DataFrame:
    """Read the first rows of a Parquet file."""
    return pl.read_parquet(_source(path), n_rows=HEAD)


def _source(path: str | Path) -> Path | bytes:
    return read_bytes(path) if str(path) == STANDARD_INPUT else find_file(Path(path))
