"""Checks of a model file: its arrays against a table, and the JSON text of its header.

A table says what each array must be. `check` compares the arrays with it, so that a kernel never
gets an index that does not exist.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from mmap import mmap
from typing import Any, ClassVar

import numpy as np

from fmpair.arrays import Rows
from fmpair.data.event_types import REFUNDS
from fmpair.data.frame import KINDS as FRAMES
from fmpair.errors import ModelFileError
from fmpair.features.encoder import NUMBERS
from fmpair.features.field import KINDS

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
FLOATS = (FLOAT32, FLOAT64)
INTEGERS = (np.dtype(np.int32), np.dtype(np.int64))
LARGEST = float(np.finfo(np.float32).max)
FAR_OFF = 1 << 61  # microseconds, which can be added and subtracted in int64
MAX_SCORE = LARGEST / 10  # scores are float32; leaves a margin for rounding

Shape = tuple[int | str, ...]  # a name is a size left open, the same wherever it occurs


@dataclass(frozen=True)
class Numbers:
    """Finite numbers. stored: the type that kernels take; None keeps float32 or float64."""

    shape: Shape
    stored: np.dtype | None = None


@dataclass(frozen=True)
class Places:
    """Whole numbers from 0 to below a limit."""

    shape: Shape
    below: int
    stored: ClassVar[np.dtype] = np.dtype(np.int32)


@dataclass(frozen=True)
class Starts:
    """The starts of consecutive pieces of another array, and the end of the last one.

    length: the size of that array; column: its name, if no value may occur twice in a piece.
    """

    shape: Shape
    length: str
    column: str | None = None
    stored: ClassVar[np.dtype] = np.dtype(np.int64)


@dataclass(frozen=True)
class Moments:
    """Microseconds since 1970, or whole numbers that give an order."""

    shape: Shape
    stored: ClassVar[np.dtype] = np.dtype(np.int64)


Part = Numbers | Places | Starts | Moments
Table = Mapping[str, Part]


def sparse(name: str, rows: int, columns: int) -> dict[str, Part]:
    """Return the table of the three arrays of sparse rows, see `arrays_of`."""
    entries = f"entries of {name}"
    return {
        f"{name}.start": Starts((rows + 1,), entries, f"{name}.column"),
        f"{name}.column": Places((entries,), columns),
        f"{name}.value": Numbers((entries,), FLOAT32),
    }


def arrays_of(tables: Mapping[str, Rows]) -> dict[str, np.ndarray]:
    """Return the three arrays of each of the sparse rows by name, such as `near.start`."""
    return {
        f"{name}.{part}": array
        for name, rows in tables.items()
        for part, array in zip(Rows._fields, rows)
    }


def rows_from(arrays: Mapping[str, np.ndarray], name: str) -> Rows:
    """Return the sparse rows of a name, the inverse of `arrays_of`."""
    return Rows(*(arrays[f"{name}.{part}"] for part in Rows._fields))


def check(arrays: Mapping[str, np.ndarray], table: Table) -> dict[str, np.ndarray]:
    """Return the arrays as kernels take them; raise ModelFileError if one does not fit."""
    for name in table:
        if name not in arrays:
            raise ModelFileError(f"the array {name!r} is missing")
    for name in arrays:
        if name not in table:
            raise ModelFileError(f"unexpected array {name!r}")
    sizes = _sizes(arrays, table)
    checked = {}
    for name, wanted in table.items():
        wrong = _wrong(arrays[name], wanted, sizes)
        if wrong:
            raise ModelFileError(f"the array {name!r} {wrong}")
        checked[name] = arrays[name].astype(wanted.stored or arrays[name].dtype, copy=False)
    for name, wanted in table.items():
        column = wanted.column if isinstance(wanted, Starts) else None
        if column is not None and _has_repeats(checked[name], checked[column]):
            raise ModelFileError(f"the array {column!r} has a value twice in one row")
    return checked


def _sizes(arrays: Mapping[str, np.ndarray], table: Table) -> dict[str, int]:
    """Return the sizes left open; raise if shapes do not fit the table or each other."""
    sizes: dict[str, int] = {}
    for name, wanted in table.items():
        shape = arrays[name].shape
        if len(shape) == len(wanted.shape):
            for size, there in zip(wanted.shape, shape):
                if isinstance(size, str):
                    sizes.setdefault(size, there)
        full = [sizes.get(size, -1) if isinstance(size, str) else size for size in wanted.shape]
        if list(shape) != full:
            right = [size if size >= 0 else "any" for size in full]
            raise ModelFileError(f"the array {name!r} has shape {list(shape)}, not {right}")
    return sizes


def _wrong(array: np.ndarray, wanted: Part, sizes: Mapping[str, int]) -> str | None:
    """Return what is wrong with the values of an array, None if nothing is."""
    kinds = FLOATS if isinstance(wanted, Numbers) else INTEGERS
    if array.dtype not in kinds:
        return f"holds {array.dtype}, not {' or '.join(map(str, kinds))}"
    if isinstance(wanted, Numbers):
        fits = wanted.stored != FLOAT32 or largest(array) <= LARGEST
        return None if fits and np.isfinite(array).all() else "has values that are not finite"
    if isinstance(wanted, Starts):
        length = sizes[wanted.length]
        rising = array[0] == 0 and array[-1] == length and (array[1:] >= array[:-1]).all()
        return None if rising else f"does not rise from 0 to {length}"
    if isinstance(wanted, Moments):
        return None if largest(array) <= FAR_OFF else "has times out of range"
    if array.size and not 0 <= array.min() <= array.max() < wanted.below:
        return f"has values outside 0 to {wanted.below - 1}"
    return None


def _has_repeats(start: np.ndarray, column: np.ndarray) -> bool:
    """Return whether a column occurs twice in a row; fast for sorted rows."""
    rising = column[1:] > column[:-1]
    inner = start[(start > 0) & (start < len(column))]
    rising[inner - 1] = True
    if rising.all():
        return False
    owner = np.repeat(np.arange(len(start) - 1), np.diff(start))
    keys = np.sort((owner << 32) | column)
    return bool((keys[1:] == keys[:-1]).any())


def largest(array: np.ndarray) -> float:
    """Return the largest absolute value, 0 for an empty array."""
    return max(float(array.max(initial=0)), -float(array.min(initial=0)))


def reach(rows: Rows, table: np.ndarray) -> float:
    """Return an upper bound of the values of `rows.dot(table)`; table: [columns, ...]."""
    if not (len(rows.column) and table.size):
        return 0.0
    most = np.maximum(table.max(axis=1), -table.min(axis=1)).astype(np.float64)
    entries = np.abs(rows.value) * most[rows.column]
    return float(np.diff(rows.start).max()) * float(entries.max())


def longest(rows: Rows) -> float:
    """Return an upper bound of the sum of absolute values of any row."""
    return float(np.diff(rows.start).max(initial=0)) * largest(rows.value)


def refuse_overflow(*most: float) -> None:
    """Raise ModelFileError if scores as large as these bounds would not be finite."""
    if not sum(most) < MAX_SCORE:
        raise ModelFileError("its values are so large that scores would not be finite")


def seen_from(arrays: Mapping[str, np.ndarray]) -> Rows:
    """Return the rows of seen items of checked arrays, whose values can be added up."""
    seen = rows_from(arrays, "seen")
    refuse_overflow(largest(seen.value) * len(seen.value))
    return seen


# The header

LONGEST = 1 << 22  # bytes: some ten thousand columns
MAX_NESTED = 100_000  # lists and mappings, of which a few bytes make many
DEEPEST = 32
LONGEST_TEXT = 1 << 16  # characters; searching longer ones for a similar name is slow
SHA256 = 64  # digits
# Types of arrays, by their names in safetensors and in the order it writes them.
TYPES = "U64 u8 I64 i8 F64 f8 C64 c8 F32 f4 U32 u4 I32 i4 F16 f2 U16 u2 I16 i2 I8 i1 U8 u1 BOOL ?"
STORED = dict(zip(TYPES.split()[::2], TYPES.split()[1::2]))
ROLES = ("user", "context", "item")
FITTED = ("Recommender", "Ranker")
LARGEST_NUMBER, MIN_NUMBER = 1e39, 1e-250  # limits for parameters of fields
LARGEST_SCALE = 1e30
MAX_FACTORS = 1 << 20


Place = tuple[np.dtype, tuple[int, ...], int]  # type, shape and first byte of an array in a file


def header_of(content: mmap | bytes) -> dict[str, Any] | None:
    """Return the JSON header of a model file, None if the bytes do not begin with one."""
    length = int.from_bytes(content[:8], "little") if len(content) > 8 else 0
    if not 0 < length <= min(LONGEST, len(content) - 8):
        return None
    text = content[8 : 8 + length]
    if text.count(b"[") + text.count(b"{") > MAX_NESTED:
        return None
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        outer = json.loads(text)
        header = json.loads(outer["__metadata__"]["fmpair"])
        known = _is_whole(header["format"]) and header["format"] >= 1
        digits = isinstance(header["sha256"], str) and len(header["sha256"].encode()) == SHA256
        if known and digits and _is_shallow(header):
            return header
    return None


def places_of(content: mmap | bytes) -> dict[str, Place] | None:
    """Return where the arrays of a file are, None unless they fill it from the header to the end.

    content: bytes that begin with a header, see `header_of`. The arrays themselves are not read.
    """
    length = int.from_bytes(content[:8], "little")
    entries = json.loads(content[8 : 8 + length])
    del entries["__metadata__"]
    places, ends = {}, []
    with suppress(ValueError, KeyError, TypeError):
        for name, entry in entries.items():
            kind, shape = np.dtype(STORED[entry["dtype"]]), entry["shape"]
            (start, end), whole = entry["data_offsets"], all(map(_is_whole, shape))
            if not whole or min(shape, default=0) < 0 or not (_is_whole(start) and _is_whole(end)):
                return None
            if end - start != math.prod(shape) * kind.itemsize:
                return None
            places[name] = (kind, tuple(shape), 8 + length + start)
            ends.append((start, end))
        ends = [(0, 0), *sorted(ends), (len(content) - 8 - length,) * 2]
        if all(before == after for (_, before), (after, _) in pairwise(ends)):
            return places
    return None


def check_header(header: Mapping[str, Any]) -> None:
    """Raise ModelFileError if an entry is missing or not what it must be."""
    for name, (fits, wanted) in ENTRIES.items():
        if name not in header:
            raise ModelFileError(f"its {name!r} is missing")
        if not fits(header[name]):
            raise ModelFileError(f"its {name!r} must be {wanted}, not {_short(header[name])}")
    for number, text in enumerate(header["fields"]):
        _check_field(text, f"field.{number}" in header["ids"])
    taken = [(text["role"], text["name"]) for text in header["fields"]]
    if len(set(taken)) < len(taken):
        raise ModelFileError("two of its fields have the same name")
    shared = {("context", name) for name in header["id_columns"]} & set(taken)
    if shared:
        raise ModelFileError(f"its column {_short(min(shared)[1])} holds both ids and context")


def _check_field(text: Mapping[str, Any], has_ids: bool) -> None:
    """Raise ModelFileError if a field is not valid; has_ids: whether it has a list of values."""
    what = f"the field {_short(text.get('name'))}"
    for name, (fits, wanted) in FIELD.items():
        if not fits(text.get(name)):
            raise ModelFileError(f"{what}: {name} must be {wanted}, not {_short(text.get(name))}")
    kind, edges = text["field"].get("kind"), text["edges"]
    if kind == "auto" or kind not in KINDS:
        raise ModelFileError(f"{what} has the kind {_short(kind)}, which fitted models do not have")
    if has_ids == (kind in NUMBERS):
        raise ModelFileError(f"{what} is {kind} and has {'a' if has_ids else 'no'} list of values")
    if (edges and kind != "binned") or any(a >= b for a, b in pairwise(edges)):
        raise ModelFileError(f"{what}: edges must belong to bins and rise")
    means, spreads = (text.get(name) or [] for name in ("means", "spreads"))
    if len(means) != len(spreads) or (means and kind != "vector"):
        raise ModelFileError(f"{what}: means and spreads must belong to the numbers of a vector")


def _is_shallow(header: Any) -> bool:
    """Return whether nothing is nested deeply, and all text is short and valid."""
    layer = [header]
    for _ in range(DEEPEST):
        texts = [value for value in layer if isinstance(value, str)]
        "".join(texts).encode()  # half a surrogate pair raises
        if max(map(len, texts), default=0) > LONGEST_TEXT:
            return False
        nested = [value for value in layer if isinstance(value, list | dict)]
        layer = [inner for value in nested for inner in _inside(value)]
        if not layer:
            return True
    return False


def _inside(value: list[Any] | dict[str, Any]) -> list[Any]:
    return value if isinstance(value, list) else [*value, *value.values()]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _is_none_or(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or fits(value)


def _is_two_names(value: Any) -> bool:
    """Return whether a value is a list of two different names."""
    texts = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return texts and len(value) == len(set(value)) == 2


def _is_number(value: Any) -> bool:
    """Return whether a value is a finite number of a usable size."""
    return (
        _is_whole(value) or isinstance(value, float)
    ) and -LARGEST_NUMBER <= value <= LARGEST_NUMBER


def _is_above_zero(value: Any) -> bool:
    return _is_number(value) and value >= MIN_NUMBER


def _is_scaled(options: Any) -> bool:
    """Return whether the options of a field have a scale that keeps features finite."""
    scale: Any = options.get("scale", 1.0) if isinstance(options, dict) else None
    return _is_number(scale) and scale <= LARGEST_SCALE


def _is_event_weights(value: Any) -> bool:
    """Return whether a value is a column name and a list of (event type, weight)."""
    if not isinstance(value, list) or [type(part) for part in value] != [str, list]:
        return False
    pairs = [pair for pair in value[1] if isinstance(pair, list) and len(pair) == 2]
    fit = all(isinstance(kind, str) and _is_number(w) and w >= 0 for kind, w in pairs)
    return fit and len(pairs) == len(value[1])


def _is_refunds(value: Any) -> bool:
    """Return whether a value is what happens to refunds, and a column name or None."""
    known = isinstance(value, list) and len(value) == 2 and value[0] in REFUNDS
    return known and isinstance(value[1], str | None)


def _is_pairing(value: Any) -> bool:
    """Return whether a value describes the pairs of fields of a model of order three."""
    if not isinstance(value, dict) or set(value) != {"factors", "pairs", "items"}:
        return False
    length = _is_whole(value["factors"]) and 0 < value["factors"] < MAX_FACTORS
    return length and isinstance(value["items"], bool) and isinstance(value["pairs"], list | None)


def _short(value: Any) -> str:
    text = repr(value) if isinstance(value, str | float | bool | None) else type(value).__name__
    return text if len(text) <= 60 else f"{text[:60]}..."


# Name -> whether a value is valid, and a description of valid values.
Entries = dict[str, tuple[Callable[[Any], bool], str]]
ENTRIES: Entries = {
    "fitted": (lambda value: value in FITTED, " or ".join(FITTED)),
    "recipe": (lambda value: isinstance(value, str), "the name of a model"),
    "options": (lambda value: isinstance(value, dict), "options by name"),
    "frame": (lambda value: value in FRAMES, f"one of {', '.join(FRAMES)}"),
    "damping": (_is_number, "a number"),
    "whole": (lambda value: isinstance(value, bool), "true or false"),
    "history": (_is_none_or(_is_scaled), "options by name"),
    "pairing": (_is_none_or(_is_pairing), "options of order three"),
    "event_weights": (_is_none_or(_is_event_weights), "a column and weights by event type"),
    "refunds": (_is_refunds, "drop or keep, and a column of event types"),
    "id_columns": (_is_two_names, "a list of two names"),
    "ids": (
        lambda value: isinstance(value, dict) and all(isinstance(v, list) for v in value.values()),
        "types by name",
    ),
    "catalogue": (_is_list_of(lambda v: isinstance(v, list)), "a list of columns"),
    "fields": (_is_list_of(lambda v: isinstance(v, dict)), "a list of fields"),
}
FIELD: Entries = {
    "role": (lambda value: value in ROLES, f"one of {', '.join(ROLES)}"),
    "name": (lambda value: isinstance(value, str), "text"),
    "field": (_is_scaled, f"options by name, with a scale up to {LARGEST_SCALE:g}"),
    "centre": (_is_number, "a number"),
    "spread": (_is_above_zero, "a number above 0"),
    "edges": (_is_list_of(_is_number), "a list of numbers"),
    "means": (_is_none_or(_is_list_of(_is_number)), "a list of numbers"),
    "spreads": (_is_none_or(_is_list_of(_is_above_zero)), "a list of numbers above 0"),
    "described": (_is_none_or(lambda v: _is_whole(v) and v >= 0), "a number of items"),
}
