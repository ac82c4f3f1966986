"""Docstrings taken apart: what they say of each option."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any


def summary(docstring: str | None) -> str:
    """The first paragraph, in one line."""
    return " ".join((docstring or "").strip().split("\n\n")[0].split())


def whole(thing: Any) -> str:
    """A function's docstring; a class's after those of the classes it builds on."""
    kinds = reversed(thing.__mro__[:-1]) if isinstance(thing, type) else (thing,)
    return "\n\n".join(kind.__doc__ or "" for kind in kinds)


def descriptions(docstring: str | None, names: Iterable[str]) -> dict[str, str]:
    """Name -> text of every `name: text` or `name, name: text` whose names are among `names`."""
    any_name = "|".join(re.escape(name) for name in names)
    if not any_name:
        return {}
    start = rf"(?:^|(?<=\s))((?:{any_name})(?:, (?:{any_name}))*): "
    parts = re.split(start, docstring or "")
    return {
        name: _sentence(text)
        for together, text in zip(parts[1::2], parts[2::2])
        for name in together.split(", ")
    }


def _sentence(text: str) -> str:
    text = " ".join(text.split("\n\n")[0].split()).rstrip(".;")
    return text[:1].upper() + text[1:] + "."
