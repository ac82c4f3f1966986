"""Make names and ids safe to print; read descriptions of options from docstrings.

Names and ids may hold control characters that rewrite a terminal's line, direction marks that
reverse the numbers after a name, or lone surrogates that no file can store.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import is_dataclass
from typing import Any

# All controls but tab and new line; marks, embeddings and overrides of direction; line and
# paragraph separators; annotations; tags; halves of surrogate pairs.
CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066\u2067\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)
REPLACED = "\N{REPLACEMENT CHARACTER}"
OPEN, CLOSE = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"
RIGHT_TO_LEFT = ("R", "AL", "AN")
HEADING = re.compile(r"^ *(\w[\w ]*)\n *-{3,}$", re.MULTILINE)  # underlined, in docstrings


def harmless(text: str) -> str:
    """Replace control characters and unbalanced isolates by a visible character."""
    text = CONTROLS.sub(REPLACED, text)
    if OPEN in text or CLOSE in text:
        depth = 0
        for letter in text:
            depth += (letter == OPEN) - (letter == CLOSE)
            if depth < 0:
                break
        if depth:
            return text.replace(OPEN, REPLACED).replace(CLOSE, REPLACED)
    return text


def isolated(name: str) -> str:
    """Return a name for a sentence; right-to-left names are isolated from the rest."""
    name = harmless(name)
    turns = any(unicodedata.bidirectional(letter) in RIGHT_TO_LEFT for letter in name)
    return f"{OPEN}{name}{CLOSE}" if turns else name


def without_isolates(text: str) -> str:
    """Remove isolates, for output that cannot show them."""
    return text.replace(OPEN, "").replace(CLOSE, "")


def summary(docstring: str | None) -> str:
    """Return the first paragraph of a docstring in one line."""
    return " ".join((docstring or "").strip().split("\n\n")[0].split())


def whole(thing: Any) -> str:
    """Return the docstring of a function; of a class, also those of its dataclass bases."""
    return "\n\n".join(_docstrings(thing))


def described(names: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of the names before a description, as in `name, name: text`.

    They begin a line or follow a sentence. Elsewhere `unit: text` may be prose.
    """
    known = "|".join(map(re.escape, names)) or "(?!)"
    return re.compile(rf"(?m:^\s*|(?<=[.;] ))((?:{known})(?:, (?:{known}))*): ")


def descriptions(docstring: str | None, names: Iterable[str]) -> dict[str, str]:
    """Return {name: text} of every `name: text` or `name, name: text` among `names`."""
    parts = described(names).split(docstring or "")
    return {
        name: _sentence(text)
        for together, text in zip(parts[1::2], parts[2::2])
        for name in together.split(", ")
    }


def sections(thing: Any, names: Iterable[str]) -> dict[str, str]:
    """Return {name: heading} of the section that describes each name, "" before the first."""
    headings: dict[str, str] = {}
    known = list(names)
    for docstring in _docstrings(thing):
        first, *rest = HEADING.split(docstring)
        for heading, text in [("", first), *zip(rest[::2], rest[1::2])]:
            headings |= dict.fromkeys(descriptions(text, known), heading)
    return headings


def _docstrings(thing: Any) -> list[str]:
    if not isinstance(thing, type):
        return [thing.__doc__ or ""]
    kinds = [kind for kind in reversed(thing.__mro__) if kind is thing or is_dataclass(kind)]
    return [kind.__doc__ or "" for kind in kinds]


def _sentence(text: str) -> str:
    text = " ".join(text.split("\n\n")[0].split()).rstrip(".;")
    return text[:1].upper() + text[1:] + "."
