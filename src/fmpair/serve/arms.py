"""Two models side by side: which of them answers a user."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from fmpair.errors import OptionError, named

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
