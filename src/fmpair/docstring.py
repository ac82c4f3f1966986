"""Docstrings taken apart: what they say of each option, and in which section."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import is_dataclass
from typing import Any

HEADING = re.compile(r"^ *(\w[\w ]*)\n *-{3,}$", re.MULTILINE)  # underlined


def summary(docstring: str | None) -> str:
    """The first paragraph, in one line."""
    return " ".join((docstring or "").strip().split("\n\n")[0].split())


def whole(thing: Any) -> str:
    """A function's docstring; a class's after those of the classes whose fields it adds to."""
    return "\n\n".join(_docstrings(thing))


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


def sections(thing: Any, names: Iterable[str]) -> dict[str, str]:
    """Name -> heading of the section that describes it, "" before the first; in their order."""
    found: dict[str, str] = {}
    known = list(names)
    for docstring in _docstrings(thing):
        first, *rest = HEADING.split(docstring)
        for heading, text in [("", first), *zip(rest[::2], rest[1::2])]:
            found |= dict.fromkeys(descriptions(text, known), heading)
    return found


def _docstrings(thing: Any) -> list[str]:
    if not isinstance(thing, type):
        return [thing.__doc__ or ""]
    kinds = [kind for kind in reversed(thing.__mro__) if kind is thing or is_dataclass(kind)]
    return [kind.__doc__ or "" for kind in kinds]


def _sentence(text: str) -> str:
    text = " ".join(text.split("\n\n")[0].split()).rstrip(".;")
    return text[:1].upper() + text[1:] + "."
