"""Connections that never say what they want are closed: uvicorn would keep them open for ever."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from fmpair.serve.requests import ProblemError
from fmpair.serve.settings import is_loopback

# How many requests a second a client may make.


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


# Who may ask: keys, the rate of clients, and pages of other sites.


BEARER = b"bearer "


@dataclass(frozen=True)
class Gate:
    """keys: one of which is needed, where there are any; rate: None for any.

    local: whether only this machine is to reach the service. Without a key, a page of any site that
    a browser here shows could ask it, by a name of that site's own that leads to 127.0.0.1.
    """

    keys: tuple[bytes, ...] = ()
    rate: Rate | None = field(default=None, compare=False)
    local: bool = True

    def check_site(self, headers: Mapping[bytes, bytes]) -> None:
        """Refuse what a browser asks on behalf of another site's page, which has no key."""
        if self.keys:
            return
        host = headers.get(b"host", b"").decode("latin-1")
        name = _name(host)
        if self.local and name and not is_loopback(name):
            raise ProblemError(
                403, f"this service answers as localhost, not as {name!r}: see --host"
            )
        origin = headers.get(b"origin")
        if origin is not None and urlsplit(origin.decode("latin-1")).netloc.lower() != host.lower():
            raise ProblemError(403, "pages of other sites may not ask this service")

    def check_key(self, headers: Mapping[bytes, bytes]) -> None:
        """Refuse a request without a key, where one is needed."""
        if not self.keys:
            return
        given = headers.get(b"authorization", b"")
        key = given[len(BEARER) :] if given[: len(BEARER)].lower() == BEARER else b""
        key = key.strip() or headers.get(b"x-api-key", b"")
        # all are compared, and each in the same time: how long it takes tells nothing of a key
        if not sum(hmac.compare_digest(key, known) for known in self.keys):
            raise ProblemError(
                401,
                "bring a key of the service: Authorization: Bearer KEY",
                www_authenticate="Bearer",
            )

    def check_rate(self, client: str) -> None:
        """Refuse a client that asks too often; clients on this machine may ask at any rate."""
        if self.rate is None or is_loopback(client):
            return
        wait = self.rate.wait(client)
        if wait:
            raise ProblemError(429, "more requests than allowed", retry_after=f"{wait + 1:.0f}")


def _name(host: str) -> str:
    """A host's name without its port."""
    return (
        host[: host.index("]") + 1]
        if host.startswith("[") and "]" in host
        else host.partition(":")[0]
    )


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
