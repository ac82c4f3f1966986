"""How a service is run."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from fmpair.checks import not_negative, whole
from fmpair.errors import OptionError, named

# Two models side by side: which of them answers a user.


CURRENT, CANDIDATE = "current", "candidate"
SALT = b"fmpair arms"  # the draw has nothing to do with any other that goes by the same ids


@dataclass(frozen=True)
class Arms:
    """share: of the users, how many the candidate answers; 0 where there is none.

    Who is in a share of 0.1 is in one of 0.2 too: a larger share moves nobody back.
    """

    share: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.share, bool) or not 0 <= self.share <= 1:
            raise OptionError(f"{named('share')} must be from 0 to 1, not {self.share!r}")

    def of(self, user: Any) -> str:
        """The arm of a user, the same at all times and in every process.

        Who has no id belongs to the current model: there is nothing to know them by next time.
        """
        if not self.share or user is None:
            return CURRENT
        return CANDIDATE if drawn(user) < self.share else CURRENT


def drawn(user: Any) -> float:
    """A number from 0 to 1 that looks as if drawn by lot, and is always the same for a user.

    7 and "7" are one user: models take both for the same id.
    """
    digest = blake2b(str(user).encode("utf-8", "replace"), digest_size=8, person=SALT).digest()
    return int.from_bytes(digest, "big") / 2**64


SHORTEST_KEY = 16  # characters
USUAL_SHARE = 0.1  # of the users, for a candidate


@dataclass(frozen=True)
class Settings:
    """model: the file of the model. host, port: where to listen; port 0: any that is free.

    workers: processes that share the port. events: the URL of the store, None for a file beside
    the model. api_key_file: a file of keys, one a line, one of which every request must bring.
    rate: most requests a second of one client, 0 for any number; of clients on this machine any
    number. watch: take a new file at `model` or `candidate` into service while running.
    candidate: a model for a share of the users beside the other.
    """

    model: Path
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    events: str | None = None
    api_key_file: Path | None = None
    rate: float = 100.0
    watch: bool = False
    candidate: Path | None = None
    share: float | None = None

    def __post_init__(self) -> None:
        whole("workers", self.workers, 1)
        if self.share is not None and self.candidate is None:
            raise OptionError(
                f"{named('share')} is of a model beside: name it by {named('candidate', ...)}"
            )
        Arms(self.users_share)
        whole("port", self.port, 0)
        not_negative("rate", self.rate)
        if self.port > 65_535:
            raise OptionError(f"{named('port')} must be at most 65535, not {self.port}")
        if self.api_key_file is None and not is_loopback(self.host):
            raise OptionError(
                f"{named('host', self.host)} can be reached by others: give "
                f"{named('api_key_file', ...)} with a key in it, or listen on 127.0.0.1"
            )

    @property
    def users_share(self) -> float:
        """Of the users, how many the candidate answers."""
        return USUAL_SHARE if self.share is None else self.share


@lru_cache(1024)
def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def keys_of(path: Path | None) -> tuple[bytes, ...]:
    """The keys of a file, none without one; lines that are empty or begin with # are none."""
    if path is None:
        return ()
    try:
        lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or "it is no text"
        raise OptionError(f"{named('api_key_file', str(path))} cannot be read: {said}") from None
    keys = [line for line in lines if line and not line.startswith("#")]
    short = [key for key in keys if len(key) < SHORTEST_KEY or not key.isascii()]
    if short or not keys:
        raise OptionError(
            f"{named('api_key_file', str(path))} must hold keys, one a line, of at least "
            f"{SHORTEST_KEY} letters and digits: such as `openssl rand -hex 16` gives"
        )
    return tuple(key.encode() for key in keys)
