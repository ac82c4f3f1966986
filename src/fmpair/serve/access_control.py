"""Access control: API keys, rate limits, allowed origins."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from fmpair.serve.problems import ProblemError
from fmpair.serve.settings import is_loopback

BEARER = b"bearer "
MAX_CLIENTS = 10_000  # tracked by the rate limit; the oldest is forgotten first
LONGEST_ADDRESS = 64  # characters
BURST = 2.0  # seconds' worth of requests that may come at once


class RateLimit:
    """A token bucket per client. most: requests per second."""

    def __init__(self, most: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._buckets: dict[str, tuple[float, float]] = {}  # (tokens left, at what time)

    def wait(self, client: str) -> float:
        """Take a token; return 0, or the seconds until the client gets one."""
        now, full = self._clock(), max(self._most * BURST, 1.0)
        tokens, then = self._buckets.get(client, (full, now))
        tokens = min(tokens + (now - then) * self._most, full)
        if tokens < 1:
            return (1 - tokens) / self._most
        if len(self._buckets) >= MAX_CLIENTS and client not in self._buckets:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[client] = tokens - 1, now
        return 0.0


@dataclass(frozen=True)
class AccessControl:
    """Checks of a request before it is answered.

    keys: valid API keys and what each is for; without any, no key is needed. rate: None for no
    limit. local: whether only this machine may reach the service. Without keys, a page of any web
    site in a browser here could otherwise query it through a host name that resolves to 127.0.0.1.
    proxied: whether clients on this machine are a proxy, which names its clients.
    """

    keys: Mapping[bytes, frozenset[str]] = field(default_factory=dict)
    rate: RateLimit | None = field(default=None, compare=False)
    local: bool = True
    proxied: bool = False

    def check_site(self, headers: Mapping[bytes, bytes]) -> None:
        """Reject cross-site requests of browsers."""
        if self.keys:  # other sites do not have a key
            return
        host = headers.get(b"host", b"").decode("latin-1")
        name, _, _ = host.partition("]" if host.startswith("[") else ":")  # without the port
        if self.local and name and not is_loopback(name):
            raise ProblemError(
                403, f"this service answers to localhost, not to {name!r}: see --host"
            )
        origin = headers.get(b"origin")
        if origin is not None and _host_of(origin.decode("latin-1")) != host.lower():
            raise ProblemError(403, "requests from pages of other sites are not allowed")

    def check_key(self, headers: Mapping[bytes, bytes], purpose: str) -> None:
        """Reject a request without a valid key for a purpose, if keys are set."""
        if not self.keys:
            return
        purposes = self._purposes(headers)
        if purposes is None:
            raise ProblemError(
                401,
                "missing or invalid API key: send Authorization: Bearer KEY",
                www_authenticate="Bearer",
            )
        if purpose not in purposes:
            raise ProblemError(403, f"this API key is for {' and '.join(sorted(purposes))} only")

    def may_see_details(self, headers: Mapping[bytes, bytes]) -> bool:
        """Return whether the answer may name files and machines of the service."""
        return not self.keys or self._purposes(headers) is not None

    def _purposes(self, headers: Mapping[bytes, bytes]) -> frozenset[str] | None:
        header = headers.get(b"authorization", b"")
        key = header[len(BEARER) :] if header[: len(BEARER)].lower() == BEARER else b""
        key = key.strip() or headers.get(b"x-api-key", b"")
        # Compare with all keys, each in constant time: the duration reveals nothing about a key.
        names = [name for valid, name in self.keys.items() if hmac.compare_digest(key, valid)]
        return names[0] if names else None

    def check_rate(self, client: str, headers: Mapping[bytes, bytes]) -> None:
        """Reject a client above the rate limit; clients on this machine are not limited."""
        if self.rate is None:
            return
        if self.proxied and is_loopback(client):
            # The last address is the one that the proxy itself has seen.
            given = headers.get(b"x-forwarded-for", b"").rpartition(b",")[2].strip()
            client = given[:LONGEST_ADDRESS].decode("latin-1") or client
        if is_loopback(client):
            return
        wait = self.rate.wait(client)
        if wait:
            raise ProblemError(429, "rate limit exceeded", retry_after=f"{wait + 1:.0f}")


def _host_of(origin: str) -> str:
    """Return the host and port of an origin, in lower case."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        raise ProblemError(400, "the Origin of the request is not an address") from None
