"""Delimited files: CSV, TSV and their kin, with any separator."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Sequence
from io import BytesIO, StringIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from fmpair.checks import one_of
from fmpair.data.formats.source import check_table, read_text, reason
from fmpair.data.frame import decimal_commas, id_columns, with_types
from fmpair.errors import DataError, OptionError, listing, named, notice

# Rows of delimited text that have more or fewer columns than its first line.


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


SEPARATORS = (",", "\t", ";", "|", "::")
RARE_SEPARATORS = (" ", ":", "-")  # never guessed, as text holds them; only suggested
NULLS = ("", "NA", "NaN", "null")
SAMPLE_LINES = 20
STAND_INS = ("\x1f", "\x1e", "\x1d")  # one byte in place of a longer separator
NO_SEPARATORS = ("\n", "\r", '"')  # which mean something else in these files


def read_delimited(
    path: str | Path,
    *,
    separator: str | None = None,
    header: bool = True,
    columns: Sequence[str] | None = None,
    encoding: str = "utf-8",
    nulls: Sequence[str] = NULLS,
    member: str | None = None,
    ids: Sequence[str] = (),
    ragged: str = "error",
) -> pl.DataFrame:
    """A delimited file as a frame; ``007`` stays text, 7 becomes a number.

    separator: guessed among comma, tab, ; | and :: when not given.
    columns: the names of the columns, in place of the header's or where there is none.
    nulls: texts that mean missing; an empty cell always does.
    ids: columns that are kept as text unless all are whole numbers; user and item always are.
    ragged: rows with more or fewer columns than the first line are refused (error), left out and
    counted (drop), or, where they are too short, filled up with missing values (fill).
    """
    one_of("ragged", ragged, RAGGED)
    text = read_text(path, encoding, member)

    def again(nulls: Sequence[str] = ("",)) -> pl.DataFrame:
        frame = read_columns(text, str(path), separator, header, nulls, ragged)
        return with_names(frame, str(path), columns)

    frame = again(nulls)
    keys = id_columns(frame.columns, ids)
    _tell_words(frame.select(n for n in frame.columns if n in keys), text, nulls, again)
    found = with_types(frame, keys)
    _tell_commas(found)
    return found


def _tell_words(
    keys: pl.DataFrame, text: str, nulls: Sequence[str], again: Callable[[], pl.DataFrame]
) -> None:
    """Say which words among the ids were read as missing: 'NA' may be somebody's id.

    again: reads the file once more, with those words; only asked where ids are missing.
    """
    words = [word for word in nulls if word and word in text]
    absent = [name for name in keys.columns if keys[name].null_count()]
    if not words or not absent:
        return
    with warnings.catch_warnings(action="ignore"):  # what it says of the file has been said
        raw = again()
    for name in absent:
        for word in words:
            count = int((raw[name] == word).sum())
            if count:
                notice(
                    f"column {name!r} has {word!r} in {count:,} row{'s' * (count > 1)}, read as "
                    f"missing: {named('nulls', [''])} keeps it as an id"
                )


def _tell_commas(frame: pl.DataFrame) -> None:
    """Say which columns are text only because their numbers have a decimal comma."""
    for column in frame.iter_columns():
        shown = decimal_commas(column)
        if shown is not None:
            point = shown.replace(".", "").replace(",", ".")
            notice(
                f"column {column.name!r} has numbers with a decimal comma, such as {shown!r}, and "
                f"is read as text: write {point} to have numbers"
            )


def read_columns(
    text: str,
    path: str,
    separator: str | None = None,
    header: bool = True,
    nulls: Sequence[str] = NULLS,
    ragged: str | None = None,
) -> pl.DataFrame:
    """Delimited text as a frame of text columns; `path` is for messages.

    ragged: see `read_delimited`; None where nobody can choose.
    """
    if separator == "":
        raise OptionError(
            f"{named('separator')} must not be empty: give one such as ',' or leave it out"
        )
    if separator in NO_SEPARATORS:
        raise OptionError(f"{named('separator')} must not be {separator!r}: give one such as ','")
    used = separator or guess_separator(text) or ","
    first = text.split("\n", 1)[0]
    check_table(path, text.count("\n") + 1, first.count(used) + 1, len(text))
    frame = _split(text, path, used, header, nulls, ragged)
    if frame.width == 1:
        _check_single(text, path, used, given=separator is not None)
    if not header:
        return frame.rename({name: f"column_{n}" for n, name in enumerate(frame.columns, 1)})
    _check_header([name.strip() for name in first.split(used)], path)
    _check_header([name.strip() for name in frame.columns], path)
    return frame.rename(lambda name: name.strip())


def guess_separator(text: str, candidates: Sequence[str] = SEPARATORS) -> str | None:
    """The separator found equally often, and most often, in the first lines; None if none is."""
    lines = [line for line in text[:100_000].split("\n") if line.strip()][:SAMPLE_LINES]
    best, most = None, (False, 0)
    for candidate in candidates:
        counts = [line.count(candidate) for line in lines]
        score = (len(set(counts)) == 1, min(counts, default=0))
        if score[1] and score > most:
            best, most = candidate, score
    return best


def with_names(frame: pl.DataFrame, path: str, columns: Sequence[str] | None) -> pl.DataFrame:
    """The frame under the given column names; as it is where none are given."""
    if columns is None:
        return frame
    if len(set(columns)) < len(columns):
        raise OptionError(f"two of the names given for {path} are one: {listing(columns)}")
    if len(columns) != frame.width:
        raise DataError(
            f"{path} has {frame.width} columns, but {len(columns)} names were given "
            f"({listing(columns)})"
        )
    return frame.rename(dict(zip(frame.columns, columns)))


def _split(
    text: str, path: str, separator: str, header: bool, nulls: Sequence[str], ragged: str | None
) -> pl.DataFrame:
    text, single, quote = _with_one_byte(text, path, separator)

    def parsed(lines: str) -> pl.DataFrame:
        return pl.read_csv(
            BytesIO(lines.encode()),
            separator=single,
            has_header=header,
            quote_char=quote,
            null_values=list(nulls),
            infer_schema=False,
        )

    try:
        frame = parsed(text)
        if frame.width == 1 or not frame[:, -1].null_count():
            return frame
        error: Exception | None = None
    except pl.exceptions.PolarsError as thrown:
        error = thrown
    width, rows = ragged_rows(text, single, quote is not None)
    if error is not None and not rows:
        raise DataError(f"cannot read {path} with separator {separator!r}: {reason(error)}")
    if rows and ragged == "drop":
        tell(path, rows)
        frame = parsed(without(text, rows))
    elif rows and (ragged != "fill" or error is not None):
        raise refuse(path, width, rows, ragged is not None) from error
    return frame.filter(~pl.all_horizontal(pl.all().is_null()))  # blank lines


def _with_one_byte(text: str, path: str, separator: str) -> tuple[str, str, str | None]:
    """(text, separator, quote): with one byte in place of a longer separator."""
    if len(separator.encode()) > 1:
        stand_in = next((s for s in STAND_INS if s not in text), None)
        if stand_in is None:
            raise DataError(f"{path} is not text: it holds control characters")
        return text.replace(separator, stand_in), stand_in, None
    lone = separator == "\t" and text.count('"') % 2
    # A lone quote in a tab-separated file is an inch or a ditto, not a string.
    return text, separator, None if lone else '"'


def _check_single(text: str, path: str, used: str, given: bool) -> None:
    """A file of one column that splits evenly elsewhere was read with the wrong separator."""
    candidates = SEPARATORS if given else (*SEPARATORS, *RARE_SEPARATORS)
    other = guess_separator(text, [c for c in candidates if c != used])
    if other is not None:
        first = text.split("\n", 1)[0].strip()[:60]
        raise DataError(
            f"{path} has a single column {first!r} when split at {used!r}: perhaps the "
            f"separator is {other!r}; say {named('separator', other)}"
        )


def _check_header(names: Sequence[str], path: str) -> None:
    if all(name.lstrip("-").replace(".", "", 1).isdigit() for name in names):
        raise DataError(
            f"the first line of {path} holds numbers, not names ({listing(names)}): say "
            f"{named('header', False)} and {named('columns', ['user', 'item', '...'])}"
        )
    if len(set(names)) < len(names):
        raise DataError(f"two columns of {path} have one name: {listing(names)}")
