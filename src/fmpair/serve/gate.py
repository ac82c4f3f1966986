"""Who may ask: keys, the rate of clients, and pages of other sites."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from fmpair.serve.problem import ProblemError
from fmpair.serve.rate import Rate
from fmpair.serve.settings import is_loopback

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
