"""FM-Pair and its variants."""

from __future__ import annotations

from typing import Any

from fmpair.models.old_places import moved


def __getattr__(name: str) -> Any:
    raise moved(__name__, name)
