"""The table of what the columns of a file are taken for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fmpair.errors import Spell, one_line, spelled

if TYPE_CHECKING:
    from fmpair.data.decision import Decisions

HEAD = ("column", "taken as", "because", "otherwise")
WIDEST = 44  # characters of a cell


def table_of(decisions: Decisions, spell: Spell) -> list[str]:
    """One line per column: its role, the reason, and the option that changes it."""
    rows = [HEAD]
    for found in decisions.columns:
        change = spelled(found.change, spell)
        rows.append((_short(found.column), found.role, _short(found.reason), one_line(change)))
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEAD))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in rows]


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= WIDEST else f"{line[: WIDEST - 3]}..."
