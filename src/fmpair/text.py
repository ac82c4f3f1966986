"""Text from elsewhere, such as names and ids, made fit to be shown beside our own.

A control character can rewrite a terminal's line, a mark of direction can turn the numbers behind
a name around, and half a character cannot be written to any file.
"""

from __future__ import annotations

import re
import unicodedata

# All controls but tab and new line; marks, embeddings and overrides of direction; line and
# paragraph separators; annotations; tags; halves of surrogate pairs.
CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066\u2067\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)
REPLACED = "\N{REPLACEMENT CHARACTER}"
OPEN, CLOSE = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"
RIGHT_TO_LEFT = ("R", "AL", "AN")


def harmless(text: str) -> str:
    """The text with every control character, and every isolate that is not closed, made visible."""
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
    """A name as it may stand in a sentence: written from right to left, it turns nothing else."""
    name = harmless(name)
    turns = any(unicodedata.bidirectional(letter) in RIGHT_TO_LEFT for letter in name)
    return f"{OPEN}{name}{CLOSE}" if turns else name


def without_isolates(text: str) -> str:
    """For what cannot show them."""
    return text.replace(OPEN, "").replace(CLOSE, "")
