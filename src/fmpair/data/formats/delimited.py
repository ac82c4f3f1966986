"""Delimited text files: CSV, TSV and the like, with any separator."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from io import BytesIO, StringIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from fmpair.checks import one_of
from fmpair.data.formats.source import Contents, check_table, read_text, reason
from fmpair.data.frame import decimal_commas, id_columns, with_point, with_types, without_commas
from fmpair.errors import DataError, OptionError, listing, named, notice, unknown

SEPARATORS = (",", "\t", ";", "|", "::")
RARE_SEPARATORS = (" ", ":", "-")  # common in text, so they are suggested but never guessed
# What databases, pandas, R and spreadsheets write for a missing value.
NULLS = ("", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "null", "NULL", "None", "\\N")
SAMPLE_LINES = 20
STAND_INS = ("\x1f", "\x1e", "\x1d")  # one byte in place of a longer separator
NO_SEPARATORS = ("\n", "\r", '"')  # not allowed as separators
RAGGED = ("error", "drop", "fill")
NEWLINE = 10


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
    """Read a delimited file as a frame; ``7`` becomes a number, ``007`` stays text.

    Columns of numbers with a decimal comma, such as ``3,50`` and ``1 299,00``, become numbers too.

    separator: by default guessed among comma, tab, ; | and ::.
    columns: column names that replace those of the header.
    nulls: texts that mean missing; an empty cell always does.
    ids: columns kept as text unless all values are whole numbers, as user and item always are.
    ragged: rows with more or fewer columns than the first line are refused ('error'), left out
    and counted ('drop'), or filled with missing values if too short ('fill').
    """
    one_of("ragged", ragged, RAGGED)
    text = read_text(path, encoding, member)

    def parse(nulls: Sequence[str]) -> pl.DataFrame:
        frame = read_columns(text, str(path), separator, header, nulls, ragged)
        return with_names(frame, str(path), columns)

    frame = parse(nulls)
    keys = id_columns(frame.columns, ids)
    _report_null_ids(frame.select(n for n in frame.columns if n in keys), text, nulls, parse)
    return _with_decimal_points(with_types(frame, keys), keys)


def _report_null_ids(
    keys: pl.DataFrame,
    text: str,
    nulls: Sequence[str],
    parse: Callable[[Sequence[str]], pl.DataFrame],
) -> None:
    """Report ids such as 'NA' that were read as missing."""
    words = [word for word in nulls if word and word in text]
    absent = [name for name in keys.columns if keys[name].null_count()]
    if not words or not absent:
        return
    with warnings.catch_warnings(action="ignore"):  # the first parse has reported them
        raw = parse(("",))
    for name in absent:
        for word in words:
            count = int((raw[name] == word).sum())
            if count:
                notice(
                    f"column {name!r} has {word!r} in {count:,} row{'s' * (count > 1)}, read as "
                    f"missing: {named('nulls', [''])} keeps it as an id"
                )


def _with_decimal_points(frame: pl.DataFrame, ids: Collection[str]) -> pl.DataFrame:
    """Return columns of numbers with a decimal comma as floats, and report them."""
    for column in frame.iter_columns():
        example = None if column.name in ids else decimal_commas(column)
        if example is None:
            continue
        point = with_point(pl.Series([example]))[0]
        numbers = without_commas(column)
        outcome = f"numbers: {example} is {point}"
        if numbers is None:
            outcome = f"text: write {point} to get numbers"
        notice(
            f"column {column.name!r} has numbers with a decimal comma, such as {example!r}, "
            f"and is read as {outcome}"
        )
        frame = frame if numbers is None else frame.with_columns(numbers)
    return frame


def read_columns(
    text: str,
    path: str,
    separator: str | None = None,
    header: bool = True,
    nulls: Sequence[str] = NULLS,
    ragged: str | None = None,
) -> pl.DataFrame:
    """Parse delimited text as a frame of text columns; `path` is for messages.

    ragged: see `read_delimited`; None if the caller has no such option.
    """
    if separator == "" or separator in NO_SEPARATORS:
        wrong = "empty" if separator == "" else repr(separator)
        raise OptionError(f"{named('separator')} must not be {wrong}: give one such as ','")
    used = separator or guess_separator(text) or ","
    first = text.split("\n", 1)[0]
    check_table(path, text.count("\n") + 1, first.count(used) + 1, len(text))
    frame = _parse(text, path, used, header, nulls, ragged)
    if frame.width == 1:
        _check_single(text, path, used, given=separator is not None)
    if not header:
        return frame.rename({name: f"column_{n}" for n, name in enumerate(frame.columns, 1)})
    _check_header([name.strip() for name in first.split(used)], path)
    _check_header([name.strip() for name in frame.columns], path)
    return frame.rename(lambda name: name.strip())


def guess_separator(text: str, candidates: Sequence[str] = SEPARATORS) -> str | None:
    """Return the most frequent separator with equal counts in the first lines, or None."""
    lines = [line for line in text[:100_000].split("\n") if line.strip()][:SAMPLE_LINES]
    best, most = None, (False, 0)
    for candidate in candidates:
        counts = [line.count(candidate) for line in lines]
        score = (len(set(counts)) == 1, min(counts, default=0))
        if score[1] and score > most:
            best, most = candidate, score
    return best


def with_names(frame: pl.DataFrame, path: str, columns: Sequence[str] | None) -> pl.DataFrame:
    """Return the frame with the given column names, if any."""
    if columns is None:
        return frame
    if len(set(columns)) < len(columns):
        raise OptionError(f"{named('columns')} of {path} has a name twice: {listing(columns)}")
    if len(columns) != frame.width:
        raise DataError(
            f"{path} has {frame.width} columns, but {len(columns)} names were given "
            f"({listing(columns)})"
        )
    return frame.rename(dict(zip(frame.columns, columns)))


def _parse(
    text: str, path: str, separator: str, header: bool, nulls: Sequence[str], ragged: str | None
) -> pl.DataFrame:
    text, single, quote = _with_one_byte(text, path, separator)

    def parse(lines: str) -> pl.DataFrame:
        return pl.read_csv(
            BytesIO(lines.encode()),
            separator=single,
            has_header=header,
            quote_char=quote,
            null_values=list(nulls),
            infer_schema=False,
        )

    try:
        frame = parse(text)
        if frame.width == 1 or not frame[:, -1].null_count():
            return frame
        error: Exception | None = None
    except pl.exceptions.PolarsError as thrown:
        error = thrown
    width, rows = ragged_rows(text, single, quote is not None)
    if error is not None and not rows:
        raise DataError(f"cannot read {path} with separator {separator!r}: {reason(error)}")
    if rows and ragged == "drop":
        shown = ", ".join(str(row.first) for row in rows[:5]) + ", ..." * (len(rows) > 5)
        lines = f"line{'s' * (len(rows) > 1)} {shown}"
        notice(f"{path}: left out {len(rows):,} ragged rows ({lines})")
        frame = parse(without(text, rows))
    elif rows and (ragged != "fill" or error is not None):
        raise _ragged_error(path, width, rows, ragged is not None) from error
    return frame.filter(~pl.all_horizontal(pl.all().is_null()))  # blank lines


def _with_one_byte(text: str, path: str, separator: str) -> tuple[str, str, str | None]:
    """Return (text, separator, quote); replace a longer separator by a single byte."""
    if len(separator.encode()) > 1:
        stand_in = next((s for s in STAND_INS if s not in text), None)
        if stand_in is None:
            raise DataError(f"{path} is not text: it contains control characters")
        return text.replace(separator, stand_in), stand_in, None
    lone = separator == "\t" and text.count('"') % 2
    # An unpaired quote in a tab-separated file is an inch or ditto mark, not a quoted cell.
    return text, separator, None if lone else '"'


def _check_single(text: str, path: str, used: str, given: bool) -> None:
    """Refuse a file of one column that another separator splits evenly."""
    candidates = SEPARATORS if given else (*SEPARATORS, *RARE_SEPARATORS)
    other = guess_separator(text, [c for c in candidates if c != used])
    if other is not None:
        first = text.split("\n", 1)[0].strip()[:60]
        raise DataError(
            f"{path} has a single column {first!r} when split at {used!r}: the separator may be "
            f"{other!r}; give {named('separator', other)}"
        )


def _check_header(names: Sequence[str], path: str) -> None:
    if all(name.lstrip("-").replace(".", "", 1).isdigit() for name in names):
        raise DataError(
            f"the first line of {path} has numbers, not column names ({listing(names)}): give "
            f"{named('header', False)} and {named('columns', ['user', 'item', '...'])}"
        )
    if len(set(names)) < len(names):
        raise DataError(f"{path} has two columns with one name: {listing(names)}")


# Ragged rows: those with more or fewer columns than the first line.


class Ragged(NamedTuple):
    """A row: its first and last line, counted from 1, and how many columns it has."""

    first: int
    last: int
    columns: int


def ragged_rows(text: str, separator: str, quoted: bool) -> tuple[int, list[Ragged]]:
    """Return the number of columns of the first line, and the rows that differ; skip blank lines.

    separator: one character; quoted: whether text in quotes may hold separators and line breaks.
    """
    if quoted and '"' in text:
        return _ragged_quoted_rows(text, separator)
    content = np.frombuffer(text.rstrip("\r\n").encode(), np.uint8)
    ends = np.append(np.flatnonzero(content == NEWLINE), len(content))
    before = np.searchsorted(np.flatnonzero(content == ord(separator)), ends)
    columns = np.diff(before, prepend=0) + 1
    blank = (np.diff(ends, prepend=-1) <= 2) & (columns == 1)  # nothing, or a carriage return
    wrong = np.flatnonzero((columns != columns[0]) & ~blank)
    return int(columns[0]), [Ragged(n + 1, n + 1, int(columns[n])) for n in wrong.tolist()]


def _ragged_quoted_rows(text: str, separator: str) -> tuple[int, list[Ragged]]:
    reader = csv.reader(StringIO(text, newline=""), delimiter=separator)
    width, line, rows = 0, 0, []
    try:
        for row in reader:
            width = width or len(row)
            if row and len(row) != width:
                rows.append(Ragged(line + 1, reader.line_num, len(row)))
            line = reader.line_num
    except csv.Error:  # such as a field of more than 128 kB: the rows cannot be counted
        return width, []
    return width, rows


def without(text: str, rows: Sequence[Ragged]) -> str:
    """Return the text without the lines of these rows."""
    dropped = {line for row in rows for line in range(row.first, row.last + 1)}
    lines = text.split("\n")
    return "\n".join(line for number, line in enumerate(lines, 1) if number not in dropped)


def _ragged_error(path: str, width: int, rows: Sequence[Ragged], optional: bool) -> DataError:
    """Return the error for ragged rows; optional: whether the reader has the option `ragged`."""
    more = f" ({len(rows):,} ragged lines in all)" if len(rows) > 1 else ""
    options = f", or leave out such rows with {named('ragged', 'drop')}"
    if all(row.columns < width for row in rows):
        options += f", or fill them with missing values with {named('ragged', 'fill')}"
    return DataError(
        f"{path}: line {rows[0].first} has {rows[0].columns} columns, the first line has {width}"
        f"{more}: correct the file{options if optional else ''}"
    )


# WrapRec: delimited files whose column types are given by the caller.

WRAPREC_TYPES = ("discrete", "multi-discrete", "real", "binary", "ignored")
BINARY = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def read_wraprec(
    path: str | Path,
    *,
    types: Mapping[str, str] | None = None,
    separator: str | None = None,
    header: bool = True,
    columns: Sequence[str] | None = None,
    encoding: str = "utf-8",
    ids: Sequence[str] = (),
) -> Contents:
    """Read a delimited file with a type per column; columns without a type are inferred.

    types: column -> discrete (text), multi-discrete (a list, split at |), real, binary or ignored.
    """
    frame = read_columns(read_text(path, encoding), str(path), separator, header)
    frame = with_names(frame, str(path), columns)
    types = types or {}
    for name, type_name in types.items():
        if name not in frame.columns:
            raise DataError(unknown("column", name, frame.columns))
        if type_name not in WRAPREC_TYPES:
            raise OptionError(unknown(f"type of column {name!r}:", type_name, WRAPREC_TYPES))
    untyped = frame.select(name for name in frame.columns if name not in types)
    frame = frame.with_columns(with_types(untyped, id_columns(frame.columns, ids)))
    names = [name for name in frame.columns if types.get(name) != "ignored"]
    return Contents(pl.DataFrame([_as_type(frame[n], types.get(n), str(path)) for n in names]))


def _as_type(column: pl.Series, type_name: str | None, path: str) -> pl.Series:
    if type_name == "multi-discrete":
        return column.str.split("|")
    if type_name not in ("real", "binary"):
        return column
    if type_name == "real":
        typed = column.cast(pl.Float64, strict=False)
    else:
        lower = column.str.to_lowercase()
        typed = lower.replace_strict(BINARY, default=None, return_dtype=pl.Boolean)
    lost = typed.is_null() & column.is_not_null()
    if lost.any():
        raise DataError(
            f"column {column.name!r} of {path} is {type_name} but has {column.filter(lost)[0]!r}"
        )
    return typed
