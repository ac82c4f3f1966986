"""Read Parquet files, after a child process has decoded them: damaged ones crash the decoder.
The child takes about 0.3 s and the time of reading the file once more; a process has a file decoded
again only after it was written.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from signal import Signals

import polars as pl

from fmpair.data.formats import parquet_trial
from fmpair.data.formats.source import (
    CELL,
    STANDARD_INPUT,
    check_table,
    find_file,
    most_bytes,
    read_bytes,
    reason,
)
from fmpair.errors import DataError

HEAD = 1_000  # rows that show what the columns hold
MAGIC = b"PAR1"  # the first and the last bytes


def read_parquet(path: str | Path) -> pl.DataFrame:
    """Read a Parquet file."""
    source = _checked(path)
    try:
        # Repeated values take no space in the file, but they do in memory.
        table = pl.scan_parquet(source, glob=False)
        rows = table.select(pl.len()).collect().item()
        check_table(path, rows, len(table.collect_schema()), _size(source))
        return pl.read_parquet(source, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path} is not a Parquet file: {reason(error)}") from error


def parquet_columns(path: str | Path) -> pl.DataFrame:
    """Read the first rows of a Parquet file."""
    return pl.read_parquet(_checked(path, HEAD), glob=False, n_rows=HEAD)


def _checked(path: str | Path, rows: int | None = None) -> Path | bytes:
    """Return the file, or its bytes, if a child process can decode it; raise DataError if not."""
    piped = str(path) == STANDARD_INPUT
    source = read_bytes(path) if piped else find_file(Path(path))
    if not _has_magic(source):
        raise DataError(f"{path} is not a Parquet file: it must begin and end with PAR1")
    if isinstance(source, bytes):
        _decode(path, source, rows)
    else:
        _decode_once(str(path), source.absolute(), rows, _state(source))
    return source


@lru_cache(maxsize=64)
def _decode_once(path: str, source: Path, rows: int | None, state: tuple[int, ...]) -> None:
    """Let a child decode a file that was written since this process last did so."""
    _decode(path, source, rows)


def _state(source: Path) -> tuple[int, ...]:
    """Return numbers that change when a file is written or replaced."""
    found = source.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _decode(path: str | Path, source: Path | bytes, rows: int | None) -> None:
    """Let a child decode the file, or its bytes; raise DataError if it cannot."""
    name = STANDARD_INPUT if isinstance(source, bytes) else str(source)
    limits = [str(most_bytes(_size(source)) // CELL), *([] if rows is None else [str(rows)])]
    child = subprocess.run(
        [sys.executable, "-P", parquet_trial.__file__, name, *limits],
        input=source if isinstance(source, bytes) else b"",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    if child.returncode > 0:
        line = next(iter(child.stdout.decode(errors="replace").splitlines()), "it cannot be read")
        raise DataError(f"{path} is not a Parquet file: {line}")
    if child.returncode < 0:
        raise DataError(
            f"{path} is damaged: decoding it crashes ({Signals(-child.returncode).name}); "
            "write the file again"
        )


def _size(source: Path | bytes) -> int:
    return len(source) if isinstance(source, bytes) else source.stat().st_size


def _has_magic(source: Path | bytes) -> bool:
    if isinstance(source, bytes):
        return source.startswith(MAGIC) and source.endswith(MAGIC) and len(source) >= 12
    with source.open("rb") as file:
        first = file.read(4)
        if first != MAGIC or _size(source) < 12:
            return False
        file.seek(-4, os.SEEK_END)
        return file.read(4) == MAGIC
