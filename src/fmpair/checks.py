"""Checks of arguments: each raises an OptionError that says what is allowed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fmpair.errors import OptionError, listing, named, nearest


def whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
        raise OptionError(
            f"{named(name)} must be a whole number of at least {least}, not {value!r}"
        )


def positive(name: str, value: Any) -> None:
    if not (_is_number(value) and math.isfinite(value) and value > 0):
        raise OptionError(f"{named(name)} must be a number above 0, not {value!r}")


def not_negative(name: str, value: Any) -> None:
    if not (_is_number(value) and math.isfinite(value) and value >= 0):
        raise OptionError(f"{named(name)} must be a number of at least 0, not {value!r}")


def number(name: str, value: Any) -> None:
    if not (_is_number(value) and math.isfinite(value)):
        raise OptionError(f"{named(name)} must be a number, not {value!r}")


def one_of(name: str, value: Any, allowed: Sequence[str]) -> None:
    if value not in allowed:
        guess = nearest(value, allowed) if isinstance(value, str) else None
        hint = f". Did you mean {guess!r}?" if guess else ""
        raise OptionError(f"{named(name)} must be one of {listing(allowed)}, not {value!r}{hint}")


def regularization(value: Any) -> None:
    """Check a number, or a mapping of numbers; field names are checked against the data later."""
    if value is None:
        return
    if isinstance(value, Mapping):
        for name, number in value.items():
            not_negative(f"regularization of {name!r}", number)
    else:
        not_negative("regularization", value)


def threads(value: Any) -> None:
    if value is not None:
        whole("threads", value, 1)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or hasattr(value, "__float__")
