"""Values of items in the normal form of their column, in which they are stored and used."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import polars as pl

from fmpair.errors import DataError
from fmpair.events.event import ITEM, REMOVED, ItemChange, context_json
from fmpair.events.frame import column as untyped

NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
WHOLE = 1 << 63  # larger whole numbers are stored as fractions
LARGEST = 3.4e38  # number of a vector, in single precision
ILL_TYPED = (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError)
WORDS = {"true": True, "false": False}


class Column(NamedTuple):
    """What a column of items holds. width: numbers of a vector; separator: of vectors as text."""

    dtype: pl.DataType
    width: int = 0
    separator: str = "|"


def plain_types(column: Column) -> set[type]:
    """Return the types of the values that are in normal form as they are."""
    if column.width or column.dtype.is_nested():
        return set()
    if column.dtype.is_numeric():
        return {int, float}
    return {str} if column.dtype == pl.String else {bool} if column.dtype == pl.Boolean else set()


class MisfitError(Exception):
    """A value does not fit its column; the text follows the name of the column."""


def normal(value: Any, column: Column) -> Any:
    """Return a value of JSON in the form of its column; raise MisfitError if it has none.

    Only what converts exactly fits: 0 and 1 in a column of booleans, digits in one of numbers,
    numbers and booleans in one of text, one value in one of lists.
    """
    if value is None:
        return None
    if column.width:
        return _vector(value, column)
    inner = getattr(column.dtype, "inner", None)
    if inner is not None:
        parts = value if isinstance(value, list) else [value]
        if None in parts:
            place = parts.index(None) + 1
            raise MisfitError(f"must be a list without null, but the one at {place} is null")
        return [_single(part, inner) for part in parts]
    return _single(value, column.dtype)


def _single(value: Any, dtype: pl.DataType) -> Any:
    if dtype == pl.Boolean:
        word = value.strip().lower() if isinstance(value, str) else value
        if isinstance(word, str | int | float) and word in (0, 1, *WORDS):
            return WORDS[word] if isinstance(word, str) else bool(word)
        raise MisfitError(f"takes true or false, not {_shown(value)}")
    if dtype.is_numeric():
        number = _number(value)
        if number is None:
            raise MisfitError(f"takes a number, not {_shown(value)}")
        return number
    if dtype in (pl.Date, pl.Datetime):
        return _time(value, dtype).isoformat()
    if dtype == pl.String:
        return _text(value)
    return value


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        raise MisfitError("takes text, not a list")
    if isinstance(value, dict):
        return context_json(value, "columns of an item")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(value: Any) -> int | float | None:
    """Return a value as a number, None if it is not one."""
    if isinstance(value, str) and NUMBER.fullmatch(value):
        digits = value.strip()
        value = int(digits) if digits.lstrip("+-").isdigit() else float(digits)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int):
        return value if abs(value) < WHOLE else float(value)
    return value if abs(value) < float("inf") else None


def _time(value: Any, dtype: pl.DataType) -> date | datetime:
    """Return ISO text as a date, or as a time in UTC without a zone."""
    what = (
        "a date such as '2024-01-31'" if dtype == pl.Date else "a time such as '2024-01-31T18:30'"
    )
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise MisfitError(f"takes {what}, not {_shown(value)}") from None
    if time.tzinfo is not None:
        time = time.astimezone(UTC).replace(tzinfo=None)
    return time.date() if dtype == pl.Date else time


def _vector(value: Any, column: Column) -> Any:
    """Return a vector as a list of numbers, or as text in a column of text; [] is missing."""
    wanted = f"must be a list of {column.width} numbers"
    parts = value
    if isinstance(value, str):
        parts = value.strip(" []()").split(column.separator)
    if not isinstance(parts, list):
        raise MisfitError(f"{wanted}, not {_shown(value)}")
    if not parts:
        return None
    if set(map(type, parts)) <= {int, float} and max(map(abs, parts)) <= LARGEST:
        numbers = parts  # the usual case
    else:
        numbers = _numbers(value, parts, wanted)
    if len(numbers) != column.width:
        raise MisfitError(f"{wanted}, not {len(numbers)}")
    if column.dtype == pl.String:
        return column.separator.join(map(str, numbers))
    return numbers


def _numbers(value: Any, parts: list[Any], wanted: str) -> list[int | float]:
    """Return the parts of a vector as numbers; value: the vector as it was given."""
    numbers = []
    for place, part in enumerate(parts, 1):
        number = _number(part)
        if number is None or abs(number) > LARGEST:
            why = f"but the one at {place} is {_shown(part)}"
            raise MisfitError(f"{wanted}, {why if value is parts else f'not {_shown(value)}'}")
        numbers.append(number)
    return numbers


def _shown(value: Any) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    if isinstance(value, bool | None):
        return "null" if value is None else str(value).lower()
    text = repr(value)
    return text if len(text) <= 42 else f"{text[:40]}...{text[0]}"


def column_for(value: Any) -> Column:
    """Return the column that a first value begins."""
    if isinstance(value, list):
        return Column(pl.List(pl.String()))
    if isinstance(value, str | dict):
        return Column(pl.String())
    return Column(pl.Boolean() if isinstance(value, bool) else pl.Float64())


def normal_changes(
    changes: Sequence[ItemChange], models: Sequence[Mapping[str, Column]]
) -> list[ItemChange]:
    """Return changes with their values in normal form; raise DataError for what does not fit.

    models: the columns of each model in service; the first that has a column gives the form. A
    column that none has takes the type of its first value.
    """
    forms: dict[str, list[Column]] = {}
    for columns in models:
        for name, column in columns.items():
            forms.setdefault(name, []).append(column)
    plain = {name: set.intersection(*map(plain_types, of)) for name, of in forms.items()}
    return [_normal_change(change, forms, plain) for change in changes]


def _normal_change(
    change: ItemChange, forms: dict[str, list[Column]], plain: dict[str, set[type]]
) -> ItemChange:
    """Return a change with its values in normal form; adds columns that are new."""
    values = {}
    for name, value in change.columns.items():
        if type(value) in plain.get(name, ()) or value is None or name == REMOVED:
            continue  # `check_changes` is stricter with removed
        if name not in forms:
            forms[name] = [column_for(value)]
            plain[name] = plain_types(forms[name][0])
        first, *others = forms[name]
        try:
            values[name] = normal(value, first)
            for column in others:
                normal(values[name], column)
        except MisfitError as error:
            raise DataError(f"item {change.item!r}: {name!r} {error}") from None
    return replace(change, columns={**change.columns, **values}) if values else change


class Typed(NamedTuple):
    """Changes as a table (item, columns), where a null leaves a value unchanged.

    erased: by column, the rows whose value is erased. wrong: what does not fit, in words.
    """

    table: pl.DataFrame
    erased: dict[str, list[int]]
    wrong: list[str]


def typed(changes: Sequence[ItemChange], columns: Mapping[str, Column]) -> Typed:
    """Return changes as a table of the columns' types; a value that does not fit is left out."""
    names = dict.fromkeys(name for change in changes for name in change.columns)
    parts = [untyped(ITEM, [change.item for change in changes])]
    erased: dict[str, list[int]] = {}
    wrong: list[str] = []
    for name in names:
        values = [change.columns.get(name) for change in changes]
        gone = [
            row for row, c in enumerate(changes) if name in c.columns and c.columns[name] is None
        ]
        if gone:
            erased[name] = gone
        if name not in columns:
            if any(value is not None for value in values):
                parts.append(untyped(name, values))
            continue
        for row, value in _misfits(values, columns[name]):
            values[row] = None
            wrong.append(f"{name} of {changes[row].item!r} ({value})")
        try:
            parts.append(_series(name, values, columns[name]))
        except ILL_TYPED:  # a type of its own: whoever uses the table compares it
            parts.append(untyped(name, values))
    return Typed(pl.DataFrame(parts), erased, wrong)


def _misfits(values: list[Any], column: Column) -> list[tuple[int, str]]:
    """Convert values to normal form in place; return the rows that have none, and why."""
    if set(map(type, values)) <= plain_types(column) | {type(None)}:
        return []  # the usual case, for a whole column at once
    wrong = []
    for row, value in enumerate(values):
        try:
            values[row] = normal(value, column)
        except MisfitError as error:
            wrong.append((row, str(error)))
    return wrong


def _series(name: str, values: list[Any], column: Column) -> pl.Series:
    """Return values in normal form as a series of the column's type."""
    dtype = column.dtype
    if dtype.is_numeric():
        whole = not dtype.is_float() and not any(isinstance(value, float) for value in values)
        kind = pl.Int64 if whole else pl.Float64
        return pl.Series(name, values, kind, strict=False)
    if dtype in (pl.Date, pl.Datetime):
        times = [None if value is None else _time(value, dtype) for value in values]
        if isinstance(dtype, pl.Datetime):
            utc = pl.Series(name, times, pl.Datetime("us")).dt.replace_time_zone("UTC")
            zoned = utc.dt.convert_time_zone(dtype.time_zone or "UTC")
            zoned = zoned if dtype.time_zone else zoned.dt.replace_time_zone(None)
            return zoned.cast(dtype)
        return pl.Series(name, times, dtype)
    inner = getattr(dtype, "inner", None)
    if inner is not None:
        return pl.Series(name, values, pl.List(inner), strict=False)
    if dtype in (pl.Boolean, pl.String):
        return pl.Series(name, values, dtype)
    return untyped(name, values)
