"""What a service stores: events of users, impressions (lists shown), and changes of items."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import polars as pl

from fmpair.data.times import EXAMPLE, RANGES, UNITS, parse_times
from fmpair.errors import DataError

Id = str | int | float

MAX_INTEGER = 1 << 63  # databases store integers in 64 bits
MAX_ID_LENGTH = 1024  # characters
MAX_TYPE_LENGTH = 64  # characters of an event type
MAX_VALUE = 1e15
ITEM, REMOVED = "item", "removed"  # columns of an item change with a meaning of their own
MAX_NAME_LENGTH = 200  # characters of a column of an item
MAX_LENGTH = 100_000  # characters of all columns of an item, as JSON


@dataclass(frozen=True, slots=True)
class Event:
    """An interaction of a user with an item.

    time: microseconds since 1970 (UTC). arm, model: which of the served models answers this user,
    and the id of its file. position: number in the store, from 1, assigned by the store. id: of the
    event, given by the sender: an event that is sent again is stored once. Without one, events of
    the same user, item, time and type are the same event. event: its type, such as view, cart or
    buy. value: its worth, such as the revenue of a purchase.
    """

    user: Id
    item: Id
    time: int
    context: Mapping[str, Any] | None = None
    arm: str = ""
    model: str = ""
    position: int = 0
    id: str | None = None
    event: str | None = None
    value: float | None = None

    @property
    def key(self) -> str:
        """What identifies the event in a store: its id, else a hash of what, who and when."""
        if self.id is not None:
            return self.id
        parts = [self.user, self.item, self.time]
        text = json.dumps(parts if self.event is None else [*parts, self.event])
        return f"#{blake2b(text.encode(), digest_size=16).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Impression:
    """A list that a user was shown; the other fields as in `Event`."""

    user: Id
    items: tuple[Id, ...]
    time: int
    arm: str = ""
    model: str = ""
    position: int = 0


def now() -> int:
    """Return the current time in microseconds since 1970."""
    return time.time_ns() // 1000


def event_time(value: Any) -> int:
    """Return a time in microseconds since 1970; None is the current time.

    value: text such as 2024-01-31 18:30:00, UTC unless it has a zone, or a number of seconds,
    milliseconds, microseconds or nanoseconds since 1970; the magnitude determines the unit.
    """
    if value is None:
        return now()
    if isinstance(value, str):
        parsed = parse_times(pl.Series([value])).to_physical()
        if parsed.dtype == pl.Int64:
            return int(parsed[0])
    elif isinstance(value, int | float) and not isinstance(value, bool):
        for unit, (least, most) in RANGES.items():
            if least <= value < most:
                return round(value * UNITS[unit])
    raise DataError(
        f"invalid time {str(value)[:80]!r}: use seconds since 1970, or text such as {EXAMPLE}"
    )


def check_events(events: Sequence[Event]) -> None:
    """Raise a DataError for events that no database could store."""
    for event in events:
        check_id("user", event.user)
        check_id("item", event.item)
        if event.id is not None and not isinstance(event.id, str):
            raise DataError(f"invalid event id {str(event.id)[:40]!r}: use text")
        check_id("event", event.key)
        if not isinstance(event.time, int) or abs(event.time) >= MAX_INTEGER:
            raise DataError(
                f"the time of an event must be microseconds since 1970, not {event.time!r}"
            )
        if event.context is not None:
            context_json(event.context)
        _check_type(event)


def _check_type(event: Event) -> None:
    kind, value = event.event, event.value
    if kind is not None and not (
        isinstance(kind, str) and 0 < len(kind) <= MAX_TYPE_LENGTH and kind.isprintable()
    ):
        raise DataError(
            f"invalid event type {str(kind)[:40]!r}: use text such as view, cart or buy, of 1 to "
            f"{MAX_TYPE_LENGTH} characters"
        )
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MAX_VALUE
    ):
        raise DataError(f"invalid value {str(value)[:40]!r} of an event: use a number")


def check_id(what: str, value: Any) -> None:
    """Raise a DataError unless the id is text or a number that a database can store."""
    if isinstance(value, str):
        if not (0 < len(value) <= MAX_ID_LENGTH and "\0" not in value and _is_utf8(value)):
            raise DataError(
                f"invalid {what} id {value[:40]!r}: use text of 1 to {MAX_ID_LENGTH} characters"
            )
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(f"invalid {what} id {str(value)[:40]!r}: use text or a number")
    elif not math.isfinite(value) or abs(value) >= MAX_INTEGER:
        raise DataError(f"invalid {what} id {value!r}: numbers have at most 63 bits")


def spellings(user: Id) -> list[Id]:
    """Return the ids that are the same user: 7 and "7" are one, as in models."""
    if isinstance(user, int):
        return [user, str(user)]
    plain = isinstance(user, str) and user.isascii() and user.isdigit() and len(user) < 19
    return [user, int(user)] if plain and str(int(user)) == user else [user]


JSON = json.JSONEncoder(allow_nan=False, ensure_ascii=False, sort_keys=True)  # made once: faster


def context_json(context: Mapping[str, Any], what: str = "context of an event") -> str:
    """Return a context, or other values by name, as JSON text; what: for error messages."""
    try:
        text = JSON.encode(dict(context))
    except (TypeError, ValueError) as error:
        raise DataError(f"the {what} cannot be stored: {error}") from error
    if "\\u0000" in text or not _is_utf8(text):
        raise DataError(f"the {what} has characters that cannot be stored")
    return text


def _is_utf8(value: str) -> bool:
    """Return False for lone surrogates, which cannot be encoded."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class ItemChange:
    """What is now known of an item by column; a null erases a value, other columns stay.

    The column `removed` says whether the item is out of the catalogue. position: number of the
    change in the store; of several changes of an item only the last has one.
    """

    item: Id
    columns: Mapping[str, Any]
    position: int = 0

    @property
    def key(self) -> str:
        """What identifies the item in a store: 7 and "7" are one item, as in models."""
        return str(self.item)


def check_changes(changes: Sequence[ItemChange]) -> list[str]:
    """Return the columns of each change as JSON; raise a DataError for what cannot be stored."""
    for change in changes:
        check_id(ITEM, change.item)
    named = {name: change.item for change in changes for name in change.columns}
    for name, item in named.items():  # each name once: a push repeats them
        if not 0 < len(name) <= MAX_NAME_LENGTH or not name.isprintable():
            raise DataError(
                f"invalid column {name[:40]!r} of item {item!r}: use a name of 1 to "
                f"{MAX_NAME_LENGTH} characters"
            )
    for change in changes if REMOVED in named else ():
        if not isinstance(change.columns.get(REMOVED), bool | None):
            given = str(change.columns[REMOVED])[:40]
            raise DataError(
                f"item {change.item!r}: {REMOVED!r} must be true or false, not {given!r}"
            )
    texts = [context_json(change.columns, "columns of an item") for change in changes]
    for change, text in zip(changes, texts):
        if len(text) > MAX_LENGTH:
            raise DataError(
                f"item {change.item!r} has more than {MAX_LENGTH:,} characters of columns"
            )
    return texts


class StoredItem(NamedTuple):
    """An item as a database holds it: all its known columns as JSON, and its last change."""

    key: str
    item: Id
    columns: str
    change: int


def merged_changes(
    changes: Iterable[ItemChange], texts: Iterable[str], stored: Mapping[str, str], last: int
) -> list[StoredItem]:
    """Return one row per changed item, with the columns known before, numbered after `last`.

    texts: the columns of the changes as JSON; stored: those of items by key, also as JSON.
    """
    known: dict[str, Mapping[str, Any]] = dict(zip(stored, parsed(stored.values())))
    merged: dict[str, tuple[Id, str]] = {}
    for change, text in zip(changes, texts):
        key, columns = change.key, change.columns
        before = known.get(key)
        if before is not None and not before.keys() <= columns.keys():
            columns = {**before, **columns}
            text = context_json(columns)
        known[key] = columns
        merged.pop(key, None)  # the order is that of the last changes
        merged[key] = change.item, text
    return [
        StoredItem(key, item, text, number)
        for number, (key, (item, text)) in enumerate(merged.items(), last + 1)
    ]


def parsed(texts: Iterable[str]) -> list[Any]:
    """Return the values of JSON texts; one call for all takes a third of the time."""
    return json.loads(f"[{','.join(texts)}]")
