"""What a run depends on, as names and values a reader can check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fmpair.errors import listing

SHOWN = 16  # of a list


def facts(value: Any, name: str = "") -> dict[str, str]:
    """Nested values as lines: {"data": {"users": 3}} gives {"data, users": "3"}."""
    if isinstance(value, Mapping):
        found: dict[str, str] = {}
        for key, inner in value.items():
            found |= facts(inner, f"{name}, {_words(key)}" if name else _words(key))
        return found
    if value is None or value == "" or value == []:
        return {}
    return {name: text_of(value)}


def text_of(value: Any) -> str:
    """One value in one line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) >= 0.01 or value == 0 else f"{value:.3g}"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, Iterable) and not isinstance(value, str):
        return listing((text_of(one) for one in value), SHOWN)
    return str(value)


def _words(name: object) -> str:
    return str(name).replace("_", " ")
