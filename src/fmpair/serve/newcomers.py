"""Users that no model knows yet: what they did since is all there is to go by."""

from __future__ import annotations

from typing import Any

LAST = 50  # events of one that are kept
MOST = 100_000  # users; the one who came first goes first


class Newcomers:
    """The items of users whom a model does not know, in order of time."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[tuple[int, Any], None]] = {}

    def add(self, user: Any, item: Any, time: int) -> None:
        """An event of one of them; told twice, it counts once."""
        line = self._lines.setdefault(str(user), {})
        line[time, item] = None
        if len(line) > LAST:
            del line[min(line, key=_time)]
        if len(self._lines) > MOST:
            del self._lines[next(iter(self._lines))]

    def history(self, user: Any) -> list[Any] | None:
        """The items, oldest first; None for those of whom nothing is known."""
        line = self._lines.get(str(user))
        return None if line is None else [item for _, item in sorted(line, key=_time)]


def _time(event: tuple[int, Any]) -> int:
    return event[0]
