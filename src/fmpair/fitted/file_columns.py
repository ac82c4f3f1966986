"""Ids and columns as tensors of a model file, and back, checked.

Numbers are stored unchanged, texts as UTF-8 bytes with their offsets. Missing values of a column
are marked in a mask. Lists are stored as one column of all members and the start of each list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from fmpair.errors import ModelFileError

IDS, OFFSETS = "ids.", ".offsets"  # names of tensors: ids.users, ids.users.offsets
CATALOGUE, KNOWN, STARTS = "catalogue.", ".known", ".starts"
DAY = 24 * 60 * 60
YEARS = (-62_135_596_800 + DAY, 253_402_300_799 - DAY)  # 1 to 9999 in seconds, in every time zone
DAYS = (-999_999_998 * DAY, 999_999_998 * DAY)  # the limits of Python's timedelta
UNITS = {"ms": 10**3, "us": 10**6, "ns": 10**9}
NUMBERS: dict[str, Any] = {
    "Int8": np.int8, "Int16": np.int16, "Int32": np.int32, "Int64": np.int64,
    "UInt8": np.uint8, "UInt16": np.uint16, "UInt32": np.uint32, "UInt64": np.uint64,
    "Float32": np.float32, "Float64": np.float64,
    "Boolean": np.bool_, "Date": np.int32, "Time": np.int64, "Datetime": np.int64,
    "Duration": np.int64, "Null": np.int8,
}  # fmt: skip
TEXTS = ("String", "Binary", "Int128", "UInt128", "Decimal")
LONGEST_HASHED, HASHED_AT_ONCE = 16, 100_000  # bytes of an id; ids
MAX_DIGITS = 40  # longest number that is stored as text


def ids_type(dtype: pl.DataType) -> list[Any]:
    """Return a type of ids as plain values: its name and its parameters."""
    name = str(dtype.base_type())
    if isinstance(dtype, pl.Datetime):
        return [name, dtype.time_unit, dtype.time_zone]
    if isinstance(dtype, pl.Duration):
        return [name, dtype.time_unit]
    if isinstance(dtype, pl.Decimal):
        return [name, dtype.precision, dtype.scale]
    if name not in NUMBERS and name not in TEXTS:
        raise ModelFileError(f"the model cannot be saved: ids of type {dtype}")
    return [name]


def ids_arrays(name: str, ids: pl.Series) -> dict[str, np.ndarray]:
    return _arrays(IDS + name, ids)


def ids_from(name: str, kind: list[Any], tensors: Mapping[str, np.ndarray]) -> pl.Series:
    """Return the ids of a file; raise ModelFileError unless they are distinct and valid.

    kind: as `ids_type` gives it, not checked yet.
    """
    try:
        ids = _values(IDS + name, kind, tensors)
        if not _differ(ids, tensors[IDS + name], tensors.get(IDS + name + OFFSETS)):
            raise ValueError("an id occurs twice, or is missing")
    except Exception as error:
        raise ModelFileError(f"the ids of {name} cannot be read: {error}") from error
    return ids


def _differ(ids: pl.Series, values: np.ndarray, offsets: np.ndarray | None) -> bool:
    """Return whether ids are distinct and none is missing; values, offsets: their tensors.

    Not by polars, whose threads would start: see serve/shared_tables.py.
    """
    if ids.null_count():
        return False
    if offsets is None:
        return len(np.unique(values)) == len(ids)
    if ids.dtype in (pl.String, pl.Binary) and _hashes_differ(values, offsets):
        return True
    return len(set(ids.to_list())) == len(ids)


def _hashes_differ(content: np.ndarray, offsets: np.ndarray) -> bool:
    """Return whether short texts have distinct hashes, and so differ; False if one is long.

    This is faster than comparing Python objects.
    """
    lengths = np.diff(offsets)
    longest = int(lengths.max(initial=0))
    if not len(lengths) or not lengths.min() or longest > LONGEST_HASHED:
        return False
    hashes = np.zeros(len(lengths), np.uint64)
    weights = np.random.default_rng(0).integers(1 << 63, size=longest, dtype=np.uint64) * 2 + 1
    for first in range(0, len(lengths), HASHED_AT_ONCE):
        part = slice(first, first + HASHED_AT_ONCE)
        starts, sizes = offsets[:-1][part], lengths[part]
        letters = content[starts[0] : starts[-1] + sizes[-1]]
        starts = starts - starts[0]
        position = np.arange(len(letters)) - np.repeat(starts, sizes)
        hashes[part] = np.add.reduceat((letters.astype(np.uint64) + 1) * weights[position], starts)
    hashes.sort()
    return bool((hashes[1:] != hashes[:-1]).all())


def table_arrays(table: pl.DataFrame) -> tuple[list[list[Any]], dict[str, np.ndarray]]:
    """Return the columns of a table as plain values [name, lists, nulls, type], and their tensors.

    Columns are of types that ids may have, or lists of them.
    """
    columns, tensors = [], {}
    for number, values in enumerate(table.iter_columns()):
        name, missing = f"{CATALOGUE}{number}", values.null_count() > 0
        lists = isinstance(values.dtype, pl.List)
        if missing:
            tensors[name + KNOWN] = values.is_not_null().to_numpy()
        if lists:
            lengths = values.list.len().fill_null(0).to_numpy()
            tensors[name + STARTS] = np.append(0, np.cumsum(lengths)).astype(np.int64)
            members = values.explode(empty_as_null=False, keep_nulls=False).drop_nulls()
            if len(members) < lengths.sum():
                raise ModelFileError(f"the model cannot be saved: {values.name!r} lists nulls")
            values = members.rename(values.name)
        columns.append([values.name, lists, missing, ids_type(values.dtype)])
        tensors |= _arrays(name, _filled(values) if missing and not lists else values)
    return columns, tensors


def columns_from(
    columns: Sequence[list[Any]], tensors: Mapping[str, np.ndarray], rows: int
) -> pl.DataFrame:
    """Return the table of a file; raise ModelFileError unless it has this many rows, all valid.

    columns: as `table_arrays` gives them, not checked yet.
    """
    table, used = {}, set()
    for number, column in enumerate(columns):
        name = f"{CATALOGUE}{number}"
        used |= {name + part for part in ("", OFFSETS, KNOWN, STARTS)}
        try:
            title, lists, missing, kind = column
            if not isinstance(title, str) or title in table:
                raise ValueError("two columns have its name, or it has none")
            values = _values(name, kind, tensors)
            if lists:
                values = _lists(values, tensors.get(name + STARTS), rows)
            if missing:
                values = _with_nulls(values, tensors.get(name + KNOWN))
            if len(values) != rows:
                raise ValueError(f"it has {len(values)} rows, not {rows}")
            table[title] = values
        except Exception as error:
            raise ModelFileError(f"column {number} of its items cannot be read: {error}") from error
    for name in sorted(tensors):
        if name.startswith(CATALOGUE) and name not in used:
            raise ModelFileError(f"the array {name!r} belongs to no column of its items")
    return pl.DataFrame(table)


def _filled(values: pl.Series) -> pl.Series:
    """Return a column with nulls replaced by any value of its type."""
    known = values.drop_nulls()
    if len(known):
        return values.fill_null(known[0])
    return values.to_physical().fill_null(strategy="zero").cast(values.dtype)


def _with_nulls(values: pl.Series, known: np.ndarray | None) -> pl.Series:
    if known is None or known.dtype != np.bool_ or known.shape != (len(values),):
        raise ValueError("it has no mask of missing values")
    # Without threads, which `select` would start; lists and decimals cannot be scattered.
    if not isinstance(values.dtype, pl.List | pl.Decimal):
        return values.scatter(np.flatnonzero(~known), None)
    frame = pl.DataFrame({"values": values, "known": known})
    return frame.select(pl.when("known").then("values")).to_series()


def _lists(members: pl.Series, start: np.ndarray | None, rows: int) -> pl.Series:
    """Return the lists of these members; start: of each list, and the end of the last."""
    if start is None or start.dtype != np.int64 or start.shape != (rows + 1,):
        raise ValueError("it has no starts of lists")
    if start[0] != 0 or start[-1] != len(members) or (start[1:] < start[:-1]).any():
        raise ValueError(f"the starts of lists do not rise from 0 to {len(members)}")
    owner = np.repeat(np.arange(rows), np.diff(start))
    frame = pl.DataFrame({"row": owner, "members": members})
    empty = pl.DataFrame({"row": np.flatnonzero(np.diff(start) == 0)})
    lists = pl.concat([frame, empty], how="diagonal").group_by("row").agg("members")
    return lists.sort("row")["members"].list.drop_nulls()


def _arrays(name: str, values: pl.Series) -> dict[str, np.ndarray]:
    """Return the tensors of a column without nulls, by name."""
    kind = ids_type(values.dtype)[0]
    if kind not in TEXTS:
        numbers = np.zeros(0, np.int8) if kind == "Null" else values.to_physical().to_numpy()
        return {name: numbers.astype(NUMBERS[kind])}
    cells = values.to_list()
    if kind != "Binary":
        cells = [str(value).encode() for value in cells]
    offsets = np.zeros(len(cells) + 1, np.int64)
    np.cumsum([len(cell) for cell in cells], out=offsets[1:])
    return {name: np.frombuffer(b"".join(cells), np.uint8), name + OFFSETS: offsets}


def _values(name: str, kind: list[Any], tensors: Mapping[str, np.ndarray]) -> pl.Series:
    """Return the column of these tensors; raise if they are not valid."""
    dtype = _dtype(*kind)
    values = tensors.get(name)
    if values is None or values.ndim != 1:
        raise ValueError("there is no list of them")
    offsets = tensors.get(name + OFFSETS)
    if (offsets is not None) != (kind[0] in TEXTS):
        raise ValueError(f"{kind[0]} ids and {'no ' if offsets is None else ''}offsets")
    if offsets is not None:
        return _from_texts(kind, dtype, values, offsets)
    return _from_numbers(kind, dtype, values)


def _dtype(name: Any, *parameters: Any) -> pl.DataType:
    """Return the type that `ids_type` describes; raise ValueError for any other."""
    match name, parameters:
        case "Datetime", (str() as unit, None | str() as zone) if unit in UNITS:
            dtype = pl.Datetime(unit, zone)  # type: ignore[arg-type]  # one of UNITS
            pl.Series([0], dtype=dtype).dt.hour()  # raises for an unknown time zone
            return dtype
        case "Duration", (str() as unit,) if unit in UNITS:
            return pl.Duration(unit)  # type: ignore[arg-type]
        case "Decimal", (int() as precision, int() as scale) if 0 <= scale <= precision <= 38:
            return pl.Decimal(precision, scale)
        case str(), () if name in (*NUMBERS, *TEXTS):
            if name not in ("Datetime", "Duration", "Decimal"):
                return getattr(pl, name)()
    raise ValueError("no type that ids can have")


def _from_numbers(kind: list[Any], dtype: pl.DataType, values: np.ndarray) -> pl.Series:
    name = kind[0]
    if values.dtype != NUMBERS[name]:
        raise ValueError(f"{name} ids are {values.dtype}, not {np.dtype(NUMBERS[name])}")
    if name == "Null":
        if len(values):
            raise ValueError("an id is missing")
        return pl.Series([], dtype=pl.Null)
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise ValueError("an id is missing")
    limits = _limits(kind)
    if limits and len(values) and not limits[0] <= values.min() <= values.max() <= limits[1]:
        raise ValueError(f"{dtype} out of range")
    return pl.Series(values).cast(dtype)


def _limits(kind: list[Any]) -> tuple[int, int] | None:
    """Return the least and the largest number of a type of times, None for other types."""
    match kind:
        case "Date", *_:
            return YEARS[0] // DAY, YEARS[1] // DAY
        case "Time", *_:
            return 0, DAY * 10**9 - 1
        case "Datetime", unit, _:
            return YEARS[0] * UNITS[unit], YEARS[1] * UNITS[unit]
        case "Duration", unit:
            return DAYS[0] * UNITS[unit], DAYS[1] * UNITS[unit]
    return None


def _check_offsets(content: np.ndarray, offsets: np.ndarray) -> None:
    """Raise ValueError unless the offsets divide the bytes into texts."""
    if content.dtype != np.uint8 or offsets.dtype != np.int64 or offsets.ndim != 1:
        raise ValueError("texts are uint8 bytes and int64 offsets")
    rising = len(offsets) and offsets[0] == 0 and (offsets[1:] >= offsets[:-1]).all()
    if not rising or offsets[-1] != len(content):
        raise ValueError(f"the offsets do not rise from 0 to {len(content)}")


def _pieces(data: bytes, offsets: np.ndarray) -> list[bytes]:
    return [data[first:end] for first, end in pairwise(offsets.tolist())]


def _from_texts(
    kind: list[Any], dtype: pl.DataType, content: np.ndarray, offsets: np.ndarray
) -> pl.Series:
    _check_offsets(content, offsets)
    data = content.tobytes()
    if kind[0] == "Binary":
        return pl.Series(_pieces(data, offsets), dtype=pl.Binary)
    if b"\n" in data or len(offsets) < 2:
        texts = [piece.decode() for piece in _pieces(data, offsets)]  # raises for invalid UTF-8
    else:  # four times as fast; one that ends within a character is invalid here too
        texts = np.insert(content, offsets[1:-1], ord("\n")).tobytes().decode().split("\n")
    if kind[0] == "String":
        return pl.Series(texts, dtype=pl.String)
    if max(map(len, texts), default=0) > MAX_DIGITS:
        raise ValueError("numbers of too many digits")
    if kind[0] != "Decimal":
        whole = [int(text) for text in texts]
        least = 0 if kind[0] == "UInt128" else -(2**127)
        if whole and not least <= min(whole) <= max(whole) < least + 2**128:
            raise ValueError("numbers of too many digits")
        return pl.Series(whole, dtype=dtype)
    numbers = [Decimal(text) for text in texts]
    precision, scale = kind[1:]
    for number in numbers:
        exponent = number.as_tuple().exponent  # text for what is not finite
        if not isinstance(exponent, int) or not -scale <= exponent <= precision:
            raise ValueError("numbers with too many decimals")
        if number.copy_abs() >= 10 ** (precision - scale):  # abs would round
            raise ValueError("numbers of too many digits")
    return pl.Series(numbers, dtype=dtype)
