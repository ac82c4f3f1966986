"""How many requests a second a client may make."""

from __future__ import annotations

import time
from collections.abc import Callable

MOST_CLIENTS = 10_000  # that are told apart; the one who was first heard of goes first
BURST = 2.0  # seconds' worth that may come at once


class Rate:
    """A bucket for each client that fills at a steady rate. most: requests a second."""

    def __init__(self, most: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._buckets: dict[str, tuple[float, float]] = {}  # what is left, and as of when

    def wait(self, client: str) -> float:
        """Seconds until the client may ask again; 0 where this request is one it may make."""
        now, full = self._clock(), max(self._most * BURST, 1.0)
        left, then = self._buckets.get(client, (full, now))
        left = min(left + (now - then) * self._most, full)
        if left < 1:
            return (1 - left) / self._most
        if len(self._buckets) >= MOST_CLIENTS and client not in self._buckets:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[client] = left - 1, now
        return 0.0
