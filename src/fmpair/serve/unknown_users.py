"""The recent events of users that a model does not know, in bounded memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

MAX_HISTORY = 50  # events kept per user
MAX_USERS = 50_000  # above this, the user who was added first is dropped
MAX_ITEMS = 1_000_000  # above this, everything is dropped; most models have fewer items


class UnknownUsers:
    """Events of users that a model does not know, in order of time.

    A user takes about 250 bytes, and 16 bytes per event, for ids of any length: a user is stored as
    a digest, and an event as a time and the number of an item.
    """

    def __init__(self) -> None:
        self._events: dict[bytes, array[int]] = {}  # time, item, time, item, ...
        self._items: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def add(self, user: Any, item: Any, time: int) -> None:
        """Add an event of an item that a model knows; adding it twice counts once."""
        if len(self._items) >= MAX_ITEMS:
            self._events, self._items, self._numbers = {}, [], {}
        number = self._numbers.setdefault(item, len(self._items))
        if number == len(self._items):
            self._items.append(item)
        key = _key(user)
        events = dict.fromkeys([*_pairs(self._events.get(key, ())), (time, number)])
        latest = sorted(events, key=_time)[-MAX_HISTORY:]
        self._events[key] = array("q", (value for event in latest for value in event))
        if len(self._events) > MAX_USERS:
            del self._events[next(iter(self._events))]

    def history(self, user: Any) -> list[Any] | None:
        """Return the items of a user, oldest first, or None."""
        events, items = self._events.get(_key(user)), self._items
        return None if events is None else [items[item] for _, item in _pairs(events)]


def _key(user: Any) -> bytes:
    """Return a digest: 7 and "7" are one user, as in models."""
    return blake2b(str(user).encode("utf-8", "replace"), digest_size=16).digest()


def _pairs(values: Iterable[int]) -> Iterable[tuple[int, int]]:
    rest = iter(values)
    return zip(rest, rest)


def _time(event: tuple[int, int]) -> int:
    return event[0]
