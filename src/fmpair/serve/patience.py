"""Connections that never say what they want are closed: uvicorn would keep them open for ever."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

LONGEST = 10.0  # seconds for the head of a request to come in
EVERY = 5  # seconds between two looks


class Patience:
    """Looks at the connections of a server now and then. all_of: gives those that are open."""

    def __init__(
        self, all_of: Callable[[], Iterable[Any]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._all_of, self._clock = all_of, clock
        self._since: WeakKeyDictionary[Any, float] = WeakKeyDictionary()

    async def look(self) -> None:
        """Close those that have been waited for too long."""
        now = self._clock()
        for connection in list(self._all_of()):
            if not _is_awaited(connection):
                self._since.pop(connection, None)
            elif now - self._since.setdefault(connection, now) >= LONGEST:
                connection.transport.close()


def _is_awaited(connection: Any) -> bool:
    """Whether a request should come whose head is not there; one between two requests is timed."""
    cycle = connection.cycle
    answered = cycle is None or cycle.response_complete
    return answered and connection.timeout_keep_alive_task is None
