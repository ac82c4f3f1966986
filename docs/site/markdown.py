"""Escape text and values for Markdown."""

from __future__ import annotations

MARKS = "\\|*<[_"


def plain(text: str) -> str:
    """Return text with all markup escaped except code between backticks."""
    parts = text.split("`")
    parts[::2] = ["".join(f"\\{c}" if c in MARKS else c for c in part) for part in parts[::2]]
    parts[1::2] = [part.replace("|", "\\|") for part in parts[1::2]]
    return "`".join(parts)


def code(value: object) -> str:
    """Return a value as code for a table cell; "" for an empty one."""
    text = str(value).replace("|", "\\|")
    return f"`{text}`" if text else ""


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
