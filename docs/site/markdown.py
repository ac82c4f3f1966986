"""Text and names as Markdown: what would be taken for markup is not."""

from __future__ import annotations

MARKS = "\\|*<[_"


def plain(text: str) -> str:
    """Text that stands as it is, but for its code: what stands between backticks."""
    parts = text.split("`")
    parts[::2] = ["".join(f"\\{c}" if c in MARKS else c for c in part) for part in parts[::2]]
    parts[1::2] = [part.replace("|", "\\|") for part in parts[1::2]]
    return "`".join(parts)


def code(value: object) -> str:
    """A value as code in a cell of a table; nothing for nothing."""
    text = str(value).replace("|", "\\|")
    return f"`{text}`" if text else ""


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A table, a line a row."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
