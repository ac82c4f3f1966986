"""Type hints put to use: whether a value fits one, in words what fits, and its JSON Schema."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

WORDS = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    type(None): "null",
    Path: "the name of a file",
}
SCHEMAS: dict[Any, str] = {
    int: "integer",
    float: "number",
    str: "string",
    bool: "boolean",
    type(None): "null",
    Path: "string",
}
MANY = {"a whole number": "whole numbers", "a number": "numbers", "text": "text"}


def fits(value: Any, hint: Any) -> bool:
    """Whether a plain value may stand where the hint is; what the hint leaves open fits."""
    if is_union(hint):
        return any(fits(value, part) for part in get_args(hint))
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if is_list(hint):
        return isinstance(value, list) and all(fits(one, member(hint)) for one in value)
    if is_mapping(hint):
        return isinstance(value, dict) and all(fits(v, member(hint)) for v in value.values())
    if hint not in WORDS:
        return True
    if isinstance(value, bool):  # which is an int to Python, and to nobody else
        return hint is bool
    kinds = {float: int | float, Path: str}.get(hint, hint)
    return isinstance(value, kinds)


def words(hint: Any) -> str:
    """What fits, as in: must be `a whole number or null`."""
    if is_union(hint):
        return " or ".join(dict.fromkeys(words(part) for part in get_args(hint)))
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if is_list(hint):
        return _of("a list", hint)
    if is_mapping(hint):
        return _of("a mapping", hint)
    return WORDS.get(hint, "anything")


def schema_of(hint: Any) -> dict[str, Any]:
    """The hint as JSON Schema; {} where anything may stand."""
    if is_union(hint):
        parts = [schema_of(part) for part in get_args(hint)]
        return {} if {} in parts else {"anyOf": parts}
    if get_origin(hint) is Literal:
        return {"enum": list(get_args(hint))}
    if is_list(hint):
        return {"type": "array", "items": schema_of(member(hint))}
    if is_mapping(hint):
        return {"type": "object", "additionalProperties": schema_of(member(hint))}
    return {"type": SCHEMAS[hint]} if hint in SCHEMAS else {}


def parts_of(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the hint alone."""
    return get_args(hint) if is_union(hint) else (hint,)


def is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


def is_list(hint: Any) -> bool:
    return (get_origin(hint) or hint) in (Sequence, list, tuple)


def is_mapping(hint: Any) -> bool:
    return (get_origin(hint) or hint) in (Mapping, dict)


def member(hint: Any) -> Any:
    """The type of what a list or mapping holds."""
    inner = get_args(hint)
    if not inner:
        return Any
    return inner[1] if is_mapping(hint) else inner[0]


def _of(what: str, hint: Any) -> str:
    inner = words(member(hint))
    return what if inner == "anything" else f"{what} of {MANY.get(inner, inner)}"
