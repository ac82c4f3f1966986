"""The JSON text in a model file: read with care, and checked before anything is made of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from fmpair.arrays import Rows
from fmpair.data.frame import KINDS as FRAMES
from fmpair.errors import ModelFileError
from fmpair.features.encoder import NUMBERS
from fmpair.features.field import KINDS

# What the arrays of a model file must be, checked before a model is made of them.
#
# A table says of each array what it holds; `check` holds the arrays against the table. A kernel is
# never given a place that does not exist, however the file came about.


FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
FLOATS = (FLOAT32, FLOAT64)
INTEGERS = (np.dtype(np.int32), np.dtype(np.int64))
LARGEST = float(np.finfo(np.float32).max)
FAR_OFF = 1 << 61  # microseconds, which can be added and subtracted
MOST = LARGEST / 10  # of scores, which are float32; what is rounded must fit too

Shape = tuple[int | str, ...]  # a name stands for a size left open, the same wherever it occurs


@dataclass(frozen=True)
class Numbers:
    """Finite numbers. stored: the type that kernels take; None leaves float32 or float64 alone."""

    shape: Shape
    stored: np.dtype | None = None


@dataclass(frozen=True)
class Places:
    """Whole numbers from 0 on, below a limit."""

    shape: Shape
    below: int
    stored: ClassVar[np.dtype] = np.dtype(np.int32)


@dataclass(frozen=True)
class Starts:
    """Where each of several pieces of another array begins, and where the last one ends.

    length: the size of that array; column: its name, where nothing may occur twice in a piece.
    """

    shape: Shape
    length: str
    column: str | None = None
    stored: ClassVar[np.dtype] = np.dtype(np.int64)


@dataclass(frozen=True)
class Moments:
    """Microseconds since 1970, or numbers that stand for an order: whole, and far from 64 bits."""

    shape: Shape
    stored: ClassVar[np.dtype] = np.dtype(np.int64)


Part = Numbers | Places | Starts | Moments
Table = Mapping[str, Part]


def sparse(name: str, rows: int, columns: int) -> dict[str, Part]:
    """The three arrays of sparse rows, see `named_rows`."""
    entries = f"entries of {name}"
    return {
        f"{name}.start": Starts((rows + 1,), entries, f"{name}.column"),
        f"{name}.column": Places((entries,), columns),
        f"{name}.value": Numbers((entries,), FLOAT32),
    }


def check(arrays: Mapping[str, np.ndarray], table: Table) -> dict[str, np.ndarray]:
    """The arrays as kernels take them; ModelFileError where one is not as the table says."""
    for name in table:
        if name not in arrays:
            raise ModelFileError(f"the array {name!r} is missing")
    for name in arrays:
        if name not in table:
            raise ModelFileError(f"there is an array {name!r}, which such a model does not have")
    sizes = _sizes(arrays, table)
    found = {}
    for name, wanted in table.items():
        wrong = _wrong(arrays[name], wanted, sizes)
        if wrong:
            raise ModelFileError(f"the array {name!r} {wrong}")
        found[name] = arrays[name].astype(wanted.stored or arrays[name].dtype, copy=False)
    for name, wanted in table.items():
        column = wanted.column if isinstance(wanted, Starts) else None
        if column is not None and _has_repeats(found[name], found[column]):
            raise ModelFileError(f"the array {column!r} has a number twice in one row")
    return found


def _sizes(arrays: Mapping[str, np.ndarray], table: Table) -> dict[str, int]:
    """What the sizes left open are; refused where shapes do not fit the table or each other."""
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
    """What is wrong with the values of an array, None where nothing is."""
    kinds = FLOATS if isinstance(wanted, Numbers) else INTEGERS
    if array.dtype not in kinds:
        return f"holds {array.dtype}, not {' or '.join(map(str, kinds))}"
    if isinstance(wanted, Numbers):
        fits = wanted.stored != FLOAT32 or largest(array) <= LARGEST
        return None if fits and np.isfinite(array).all() else "has numbers that are not finite"
    if isinstance(wanted, Starts):
        length = sizes[wanted.length]
        rising = array[0] == 0 and array[-1] == length and (array[1:] >= array[:-1]).all()
        return None if rising else f"does not rise from 0 to {length}"
    if isinstance(wanted, Moments):
        return None if largest(array) <= FAR_OFF else "has moments beyond all calendars"
    if array.size and not 0 <= array.min() <= array.max() < wanted.below:
        return f"has numbers outside 0 to {wanted.below - 1}"
    return None


def _has_repeats(start: np.ndarray, column: np.ndarray) -> bool:
    """Whether a column occurs twice in a row; quick where rows are sorted, as most are."""
    rising = column[1:] > column[:-1]
    inner = start[(start > 0) & (start < len(column))]
    rising[inner - 1] = True
    if rising.all():
        return False
    owner = np.repeat(np.arange(len(start) - 1), np.diff(start))
    keys = np.sort((owner << 32) | column)
    return bool((keys[1:] == keys[:-1]).any())


def largest(array: np.ndarray) -> float:
    """The largest of all absolute values, 0 of none."""
    return max(float(array.max(initial=0)), -float(array.min(initial=0)))


def reach(rows: Rows, table: np.ndarray) -> float:
    """More than which no number of `rows.dot(table)` can be; table: [columns, ...]."""
    if not (len(rows.column) and table.size):
        return 0.0
    most = np.maximum(table.max(axis=1), -table.min(axis=1)).astype(np.float64)
    entries = np.abs(rows.value) * most[rows.column]
    return float(np.diff(rows.start).max()) * float(entries.max())


def longest(rows: Rows) -> float:
    """The sum of its absolute values is at most this for every row."""
    return float(np.diff(rows.start).max(initial=0)) * largest(rows.value)


def refuse_overflow(*most: float) -> None:
    """Refuse a model whose scores, as large as they could be, would be no finite numbers."""
    if not sum(most) < MOST:
        raise ModelFileError("its numbers are so large that scores would not be finite")


LONGEST = 1 << 22  # bytes: some ten thousand columns
MOST_NESTED = 100_000  # lists and mappings, of which a few bytes make many
DEEPEST = 32
LONGEST_TEXT = 1 << 16  # letters; the search for a similar name takes long in longer ones
SHA256 = 64  # digits
ROLES = ("user", "context", "item")
FITTED = ("Recommender", "Ranker")
LARGEST_NUMBER, LEAST_NUMBER = (
    1e39,
    1e-250,
)  # of numbers that columns are reckoned with: float32 and differences
LARGEST_SCALE = 1e30
MOST_FACTORS = 1 << 20


def header_of(content: bytes) -> dict[str, Any] | None:
    """The JSON text of a model file, None where the bytes do not begin as one."""
    length = int.from_bytes(content[:8], "little") if len(content) > 8 else 0
    if not 0 < length <= min(LONGEST, len(content) - 8):
        return None
    text = content[8 : 8 + length]
    if text.count(b"[") + text.count(b"{") > MOST_NESTED:
        return None
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        outer = json.loads(text)
        header = json.loads(outer["__metadata__"]["fmpair"])
        known = _is_whole(header["format"]) and header["format"] >= 1
        digits = isinstance(header["sha256"], str) and len(header["sha256"].encode()) == SHA256
        if known and digits and _is_shallow(header):
            return header
    return None


def check_header(header: Mapping[str, Any], arrays: Collection[str]) -> None:
    """ModelFileError where an entry is missing or not what it must be; arrays: their names."""
    for name, (fits, wanted) in ENTRIES.items():
        if not fits(header.get(name)):
            raise ModelFileError(f"its {name!r} must be {wanted}, not {_short(header.get(name))}")
    for number, text in enumerate(header["fields"]):
        _check_field(text, f"ids.field.{number}" in arrays)
    taken = [(text["role"], text["name"]) for text in header["fields"]]
    if len(set(taken)) < len(taken):
        raise ModelFileError("two of its fields have one name")
    shared = {("context", name) for name in header.get("id_columns") or ()} & set(taken)
    if shared:
        raise ModelFileError(f"its column {_short(min(shared)[1])} holds both ids and context")


def _check_field(text: Mapping[str, Any], has_ids: bool) -> None:
    """ModelFileError where what is said of a field cannot be; has_ids: whether it has values."""
    what = f"the field {_short(text.get('name'))}"
    for name, (fits, wanted) in FIELD.items():
        if not fits(text.get(name)):
            raise ModelFileError(f"{what}: {name} must be {wanted}, not {_short(text.get(name))}")
    kind, edges = text["field"].get("kind"), text["edges"]
    if kind == "auto" or kind not in KINDS:
        raise ModelFileError(f"{what} is {_short(kind)}, which no field of a fitted model is")
    if has_ids == (kind in NUMBERS):
        raise ModelFileError(f"{what} is {kind} and has {'' if has_ids else 'no '}list of values")
    if (edges and kind != "binned") or any(a >= b for a, b in pairwise(edges)):
        raise ModelFileError(f"{what}: edges must be of bins, and rise")


def _is_shallow(header: Any) -> bool:
    """Whether nothing is nested without end, and all text is short and can be written."""
    layer = [header]
    for _ in range(DEEPEST):
        texts = [one for one in layer if isinstance(one, str)]
        "".join(texts).encode()  # half a surrogate pair raises
        if max(map(len, texts), default=0) > LONGEST_TEXT:
            return False
        layer = [inner for one in layer if isinstance(one, list | dict) for inner in _inside(one)]
        if not layer:
            return True
    return False


def _inside(value: list[Any] | dict[str, Any]) -> list[Any]:
    return value if isinstance(value, list) else [*value, *value.values()]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_two_names(value: Any) -> bool:
    """Whether it is a list of two names that differ."""
    texts = isinstance(value, list) and all(isinstance(one, str) for one in value)
    return texts and len(value) == len(set(value)) == 2


def _is_number(value: Any) -> bool:
    """Whether it is a number that can be reckoned with; NaN is not."""
    return (
        _is_whole(value) or isinstance(value, float)
    ) and -LARGEST_NUMBER <= value <= LARGEST_NUMBER


def _is_scaled(options: Any) -> bool:
    """Whether options of a field have a scale that leaves features finite."""
    scale: Any = options.get("scale", 1.0) if isinstance(options, dict) else None
    return _is_number(scale) and scale <= LARGEST_SCALE


def _is_event_weights(value: Any) -> bool:
    """Whether it is the name of a column, and a list of (kind, weight)."""
    if not isinstance(value, list) or [type(one) for one in value] != [str, list]:
        return False
    pairs = [one for one in value[1] if isinstance(one, list) and len(one) == 2]
    fit = all(isinstance(kind, str) and _is_number(w) and w >= 0 for kind, w in pairs)
    return fit and len(pairs) == len(value[1])


def _is_pairing(value: Any) -> bool:
    """Whether it says which fields meet, in vectors of which length."""
    if not isinstance(value, dict) or set(value) != {"factors", "pairs", "items"}:
        return False
    length = _is_whole(value["factors"]) and 0 < value["factors"] < MOST_FACTORS
    return length and isinstance(value["items"], bool) and isinstance(value["pairs"], list | None)


def _short(value: Any) -> str:
    """A value in few words, whatever it is."""
    text = repr(value) if isinstance(value, str | float | bool | None) else type(value).__name__
    return text if len(text) <= 60 else f"{text[:60]}..."


# Name -> whether a value fits, and what fits in words.
Entries = dict[str, tuple[Callable[[Any], bool], str]]
ENTRIES: Entries = {
    "fitted": (lambda value: value is None or value in FITTED, " or ".join(FITTED)),
    "recipe": (lambda value: isinstance(value, str), "the name of a model"),
    "options": (lambda value: isinstance(value, dict), "options by name"),
    "frame": (lambda value: value in FRAMES, f"one of {', '.join(FRAMES)}"),
    "damping": (lambda value: value is None or _is_number(value), "a number"),
    "whole": (lambda value: isinstance(value, bool), "true or false"),
    "history": (lambda value: value is None or _is_scaled(value), "options by name"),
    "pairing": (lambda value: value is None or _is_pairing(value), "options of order three"),
    "event_weights": (
        lambda value: value is None or _is_event_weights(value),
        "a column and weights by kind of event",
    ),
    "id_columns": (lambda value: value is None or _is_two_names(value), "a list of two names"),
    "fields": (
        lambda value: isinstance(value, list) and all(isinstance(one, dict) for one in value),
        "a list of fields",
    ),
}
FIELD: Entries = {
    "role": (lambda value: value in ROLES, f"one of {', '.join(ROLES)}"),
    "name": (lambda value: isinstance(value, str), "text"),
    "field": (_is_scaled, f"options by name, with a scale up to {LARGEST_SCALE:g}"),
    "centre": (_is_number, "a number"),
    "spread": (lambda value: _is_number(value) and value >= LEAST_NUMBER, "a number above 0"),
    "edges": (
        lambda value: isinstance(value, list) and all(map(_is_number, value)),
        "a list of numbers",
    ),
}
