"""Dropout of the query, as all engines draw it: a byte of a random draw decides on a factor."""

from __future__ import annotations

PARTS = 256  # a share is rounded to so many parts
PER_DRAW = 8  # factors that one draw of 64 bits decides on, from its lowest byte on


def dropped_parts(dropout: float) -> int:
    """How many of PARTS are dropped."""
    return min(round(dropout * PARTS), PARTS - 1)
