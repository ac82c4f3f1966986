"""JSON lines; nesting depth and number of keys are checked before parsing."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl

from fmpair.data.formats.source import MAX_COLUMNS, check_table, read_bytes, reason
from fmpair.errors import DataError

MAX_DEPTH = 32  # nesting of lists and objects; polars takes time cubic in it
BLOCK = 1 << 20  # bytes scanned at a time
TEXT = re.compile(rb'"[^"]*+"?')
KEY = re.compile(rb'"([^"]*+)"\s*+:')
STEPS = np.zeros(256, np.int8)  # change of depth by byte
STEPS[list(b"[{")], STEPS[list(b"]}")] = 1, -1


def read_json(path: str | Path) -> pl.DataFrame:
    """Read JSON lines, one object a line, or one array of objects."""
    content = read_bytes(path).removeprefix(b"\xef\xbb\xbf").lstrip()
    if not content.startswith((b"{", b"[")):  # polars would decompress some content
        raise DataError(f"{path} is not JSON: it must start with {{ or [, not {content[:20]!r}")
    array = content.startswith(b"[")
    _check_shape(content, path, array)
    try:
        return pl.read_json(content) if array else pl.read_ndjson(content, infer_schema_length=None)
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path} is not JSON lines: {reason(error)}") from error


def _check_shape(content: bytes, path: str | Path, array: bool) -> None:
    """Refuse content that would take polars hours or all memory, however small the file is."""
    # After removing escaped quotes, every quote begins or ends a string.
    plain = content.replace(rb"\\", b"__").replace(rb"\"", b"__")
    if _depth(plain) > MAX_DEPTH and _depth(TEXT.sub(b"", plain)) > MAX_DEPTH:
        raise DataError(f"{path} is nested more than {MAX_DEPTH} deep: use rows of plain values")
    rows = content.count(b"{" if array else b"\n") + 1
    check_table(path, rows, _keys(plain), len(content))


def _depth(plain: bytes) -> int:
    """Return the depth of nested brackets, counting those in strings too."""
    depth = most = 0
    values = np.frombuffer(plain, np.uint8)
    for start in range(0, len(values), BLOCK):
        levels = depth + np.cumsum(STEPS[values[start : start + BLOCK]], dtype=np.int64)
        depth, most = int(levels[-1]), max(most, int(levels.max()))
    return most


def _keys(plain: bytes) -> int:
    """Return the number of distinct keys: each becomes a column."""
    keys: set[bytes] = set()
    for start in range(0, len(plain), BLOCK):
        keys.update(KEY.findall(plain, start, start + BLOCK))
        if len(keys) > MAX_COLUMNS:
            break
    return len(keys)
