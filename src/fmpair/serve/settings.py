"""Settings of the service, and the split of users between two models."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from fmpair.checks import not_negative, whole
from fmpair.errors import OptionError, named

CURRENT, CANDIDATE = "current", "candidate"
SALT = b"fmpair arms"  # makes the split independent of other hashes of the same ids
MIN_KEY_LENGTH = 16  # characters
ASK, SEND, READ, METRICS = PURPOSES = ("ask", "send", "read", "metrics")  # of API keys
DESCRIPTORS = "/proc/self/fd"  # folder with a path for each open file
DEFAULT_SHARE = 0.1  # of the users, for a candidate

Stamp = tuple[int, int, int]  # identifies a version of a file: time, inode, size
NO_FILE = (0, 0, 0)


@dataclass(frozen=True)
class ServiceSettings:
    """model: the model file. host, port: the address to listen on; port 0: any free port.

    workers: processes that share the port. events: URL of the event store, None for a file beside
    the model. api_key_file: API keys, see `read_keys`. Requests must then send one, except for
    health checks, the OpenAPI document and the files of the web page. rate: maximum requests per
    second of one client, 0 for no limit; clients on this machine are not limited. watch: load new
    files at `model` or `candidate` while running. candidate: a second model, for a `share` of the
    users. proxy: clients on this machine are a proxy, which names its own clients in
    X-Forwarded-For. index: use the index beside each model (`fmpair index`). rules: a YAML file of
    rules that requests may name. strict: refuse unknown users, items, context and
    attributes instead of ignoring them. images: a catalogue column with the URLs of images that the
    web page shows.
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
    proxy: bool = False
    index: bool = False
    rules: Path | None = None
    strict: bool = False
    images: str | None = None

    def __post_init__(self) -> None:
        whole("workers", self.workers, 1)
        if self.share is not None and self.candidate is None:
            raise OptionError(f"{named('share')} requires {named('candidate')}")
        Arms(self.users_share)
        whole("port", self.port, 0)
        not_negative("rate", self.rate)
        if self.port > 65_535:
            raise OptionError(f"{named('port')} must be at most 65535, not {self.port}")
        if self.api_key_file is None and not is_loopback(self.host):
            raise OptionError(
                f"{named('host', self.host)} is reachable from other machines: protect it with "
                f"{named('api_key_file', ...)}, or listen on 127.0.0.1"
            )
        if self.api_key_file is None and self.proxy:
            raise OptionError(
                f"{named('proxy')} lets other machines in: protect the service with "
                f"{named('api_key_file', ...)}"
            )

    @property
    def users_share(self) -> float:
        """The share of the users who get the candidate's lists."""
        return DEFAULT_SHARE if self.share is None else self.share


class WorkerSlot(NamedTuple):
    """number: of a worker, from 0; restarted: whether it replaces a worker that died.

    kept: open files of the models in service, by arm; objects with a `descriptor`.
    """

    number: int
    restarted: bool = False
    kept: Mapping[str, Any] = MappingProxyType({})

    def files(self) -> dict[str, Path]:
        """Return the paths by which a restarted worker reads the models in service."""
        if not self.restarted:
            return {}
        return {arm: Path(DESCRIPTORS, str(held.descriptor)) for arm, held in self.kept.items()}


def stamp(path: Path | int) -> Stamp:
    """Return the identity of the file currently at a path, or of an open one."""
    try:
        status = os.stat(path)
    except OSError:
        return NO_FILE
    return status.st_mtime_ns, status.st_ino, status.st_size


@dataclass(frozen=True)
class Arms:
    """Split of the users. share: of the users, for the candidate; 0 without a candidate.

    If the share grows, no user moves from the candidate back to the current model.
    """

    share: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.share, bool) or not 0 <= self.share <= 1:
            raise OptionError(f"{named('share')} must be from 0 to 1, not {self.share!r}")

    def of(self, user: Any) -> str:
        """Return the arm of a user, the same at any time and in every process.

        Visitors without an id get the current model, since they cannot be recognized again.
        """
        if not self.share or user is None:
            return CURRENT
        return CANDIDATE if user_hash(user) < self.share else CURRENT


def user_hash(user: Any) -> float:
    """Return a pseudo-random number from 0 to 1 for a user id.

    7 and "7" are the same user, as in models.
    """
    digest = blake2b(str(user).encode("utf-8", "replace"), digest_size=8, person=SALT).digest()
    return int.from_bytes(digest, "big") / 2**64


@lru_cache(1024)
def is_loopback(host: str) -> bool:
    """Return whether an address is reachable from this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def read_keys(path: Path | None) -> dict[bytes, frozenset[str]]:
    """Return the keys of a file and the purposes of each.

    A line has a key and its purposes. A key without purposes is for all of them. Empty lines and #
    comments are skipped.
    """
    if path is None:
        return {}
    try:
        lines = [line.split() for line in path.read_text("utf-8").splitlines()]
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise OptionError(f"cannot read {named('api_key_file', str(path))}: {reason}") from None
    lines = [words for words in lines if words and not words[0].startswith("#")]
    if not lines or any(len(key) < MIN_KEY_LENGTH or not key.isascii() for key, *_ in lines):
        raise OptionError(
            f"{named('api_key_file', str(path))} must have keys, one per line, of at least "
            f"{MIN_KEY_LENGTH} letters and digits, such as from `openssl rand -hex 16`"
        )
    for _, *purposes in lines:
        for purpose in purposes:
            if purpose not in PURPOSES:
                raise OptionError(
                    f"{named('api_key_file', str(path))}: unknown purpose {purpose[:40]!r} after a "
                    f"key; use {', '.join(PURPOSES)}, or none for all"
                )
    return {key.encode(): frozenset(purposes or PURPOSES) for key, *purposes in lines}
