"""The JSON text in a model file: read with care, and checked before anything is made of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any

from fmpair.data.frame import KINDS as FRAMES
from fmpair.errors import ModelFileError
from fmpair.features.encoder import NUMBERS
from fmpair.features.field import KINDS

LONGEST = 1 << 22  # bytes: some ten thousand columns
MOST_NESTED = 100_000  # lists and mappings, of which a few bytes make many
DEEPEST = 32
LONGEST_TEXT = 1 << 16  # letters; the search for a similar name takes long in longer ones
SHA256 = 64  # digits
ROLES = ("user", "context", "item")
FITTED = ("Recommender", "Ranker")
LARGEST, LEAST = 1e39, 1e-250  # of numbers that columns are reckoned with: float32 and differences
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
    return (_is_whole(value) or isinstance(value, float)) and -LARGEST <= value <= LARGEST


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
    "spread": (lambda value: _is_number(value) and value >= LEAST, "a number above 0"),
    "edges": (
        lambda value: isinstance(value, list) and all(map(_is_number, value)),
        "a list of numbers",
    ),
}
