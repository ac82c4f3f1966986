"""What a service keeps: what users did, and what they were shown before."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from fmpair.data.times import EXAMPLE, RANGES, UNITS, parse_times
from fmpair.errors import DataError

Id = str | int | float

MOST_WHOLE = 1 << 63  # databases keep whole numbers in 64 bits
LONGEST_ID = 1024  # characters


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that a user did.

    time: microseconds since 1970 (UTC). arm, model: which of the models in service answers this
    user, and the id of its file. position: the place in the store, which gives it; from 1 on.
    """

    user: Id
    item: Id
    time: int
    context: Mapping[str, Any] | None = None
    arm: str = ""
    model: str = ""
    position: int = 0


@dataclass(frozen=True, slots=True)
class Impression:
    """One list that a user was shown; the other fields as in `Event`."""

    user: Id
    items: tuple[Id, ...]
    time: int
    arm: str = ""
    model: str = ""
    position: int = 0


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


def moment_of(value: Any) -> int:
    """Microseconds since 1970 of a time as people write it; None is now.

    value: text such as 2024-01-31 18:30:00, UTC unless it says otherwise, or a number of seconds,
    milliseconds, microseconds or nanoseconds since 1970, which its size tells.
    """
    if value is None:
        return now()
    if isinstance(value, str):
        found = parse_times(pl.Series([value])).to_physical()
        if found.dtype == pl.Int64:
            return int(found[0])
    elif isinstance(value, int | float) and not isinstance(value, bool):
        for unit, (least, most) in RANGES.items():
            if least <= value < most:
                return round(value * UNITS[unit])
    raise DataError(
        f"{str(value)[:80]!r} is no time: give seconds since 1970, or text such as {EXAMPLE}"
    )


def check_events(events: Sequence[Event]) -> None:
    """Refuse what no database could keep, before anything is written."""
    for event in events:
        check_id("user", event.user)
        check_id("item", event.item)
        if not isinstance(event.time, int) or abs(event.time) >= MOST_WHOLE:
            raise DataError(f"the time of an event is microseconds since 1970, not {event.time!r}")
        if event.context is not None:
            packed(event.context)


def check_id(what: str, value: Any) -> None:
    """Refuse what is no id: text or a number that a database can keep and give back."""
    if isinstance(value, str):
        if 0 < len(value) <= LONGEST_ID and "\0" not in value and _is_text(value):
            return
        raise DataError(f"{what} {value[:40]!r} is no id: give text of 1 to {LONGEST_ID} letters")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(f"{what} {str(value)[:40]!r} is no id: give text or a number")
    if not math.isfinite(value) or abs(value) >= MOST_WHOLE:
        raise DataError(f"{what} {value!r} is no id: whole numbers have at most 63 bits")


def packed(context: Mapping[str, Any]) -> str:
    """A context as JSON text."""
    try:
        text = json.dumps(dict(context), allow_nan=False, ensure_ascii=False, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise DataError(f"the context of an event cannot be kept: {error}") from error
    if "\\u0000" in text or not _is_text(text):
        raise DataError("the context of an event holds characters that are no text")
    return text


def _is_text(value: str) -> bool:
    """Whether it can be written down: half a surrogate pair cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
