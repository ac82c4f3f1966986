"""Rows of delimited text that have more or fewer columns than its first line."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO
from typing import NamedTuple

import numpy as np

from fmpair.errors import DataError, named, notice

RAGGED = ("error", "drop", "fill")
NEWLINE = 10


class Ragged(NamedTuple):
    """A row: its first and last line, counted from 1, and how many columns it has."""

    first: int
    last: int
    columns: int


def ragged_rows(text: str, separator: str, quoted: bool) -> tuple[int, list[Ragged]]:
    """(how many columns the first line has, the rows with another number); blank lines are none.

    separator: one character; quoted: whether text in quotes may hold separators and line breaks.
    """
    if quoted and '"' in text:
        return _parsed(text, separator)
    content = np.frombuffer(text.rstrip("\r\n").encode(), np.uint8)
    ends = np.append(np.flatnonzero(content == NEWLINE), len(content))
    before = np.searchsorted(np.flatnonzero(content == ord(separator)), ends)
    columns = np.diff(before, prepend=0) + 1
    blank = np.diff(ends, prepend=-1) <= 2  # nothing, or a carriage return
    blank &= columns == 1
    wrong = np.flatnonzero((columns != columns[0]) & ~blank)
    return int(columns[0]), [Ragged(n + 1, n + 1, int(columns[n])) for n in wrong.tolist()]


def _parsed(text: str, separator: str) -> tuple[int, list[Ragged]]:
    reader = csv.reader(StringIO(text, newline=""), delimiter=separator)
    width, line, found = 0, 0, []
    try:
        for row in reader:
            width = width or len(row)
            if row and len(row) != width:
                found.append(Ragged(line + 1, reader.line_num, len(row)))
            line = reader.line_num
    except csv.Error:  # such as a field of more than 128 kB: then nothing can be told
        return width, []
    return width, found


def without(text: str, rows: Sequence[Ragged]) -> str:
    """The text less the lines of these rows."""
    gone = {line for row in rows for line in range(row.first, row.last + 1)}
    lines = text.split("\n")
    return "\n".join(line for number, line in enumerate(lines, 1) if number not in gone)


def refuse(path: str, width: int, rows: Sequence[Ragged], choice: bool) -> DataError:
    """What is said of ragged rows; choice: whether the reader has an option for them."""
    more = f", and {len(rows) - 1:,} more lines are ragged" if len(rows) > 1 else ""
    ways = f", or leave such rows out with {named('ragged', 'drop')}"
    if all(row.columns < width for row in rows):
        ways += f", or take what they lack for missing values with {named('ragged', 'fill')}"
    ways = ways if choice else ""
    return DataError(
        f"{path}: line {rows[0].first} has {rows[0].columns} columns, the first line has {width}"
        f"{more}: mend the file{ways}"
    )


def tell(path: str, rows: Sequence[Ragged]) -> None:
    """Say which rows are left out."""
    shown = ", ".join(str(row.first) for row in rows[:5])
    lines = f"lines {shown}{', ...' if len(rows) > 5 else ''}" if len(rows) > 1 else f"line {shown}"
    notice(f"{path}: left out {len(rows):,} ragged rows ({lines})")
