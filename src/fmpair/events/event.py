"""What a service keeps: what users did, and what they were shown before."""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from fmpair.data.times import EXAMPLE, RANGES, UNITS, parse_times
from fmpair.errors import DataError, MachineError

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


# Group commit: what many callers want to keep goes to the disk together.


LOG = logging.getLogger("fmpair")

MOST_AT_ONCE = 10_000  # events of one transaction, unless one caller has more
MOST_WAITING = 100_000  # impressions; what comes while so many wait is dropped and counted
RECORD_EVERY = 1.0  # seconds for which impressions may wait


class Batch(NamedTuple):
    """The events of one caller, and who waits for their last position."""

    events: Sequence[Event]
    done: Future[int]


Write = Callable[[Sequence[Sequence[Event]], Sequence[Impression]], list[int]]


class GroupCommit:
    """One thread that writes. A disk takes about as long for one event as for a thousand.

    write: puts the events of several callers, and impressions, into one transaction; the last
    position of each caller.
    """

    def __init__(self, write: Write, name: str):
        self._write, self._name = write, name
        self._changed = threading.Condition()
        self._waiting: list[Batch] = []
        self._shown: list[Impression] = []
        self._shown_since = 0.0
        self._closed = False
        self.dropped = 0  # impressions
        self.trouble: str | None = None
        self._thread = threading.Thread(target=self._run, name=f"{name}-writer", daemon=True)
        self._thread.start()

    def submit(self, events: Sequence[Event]) -> Future[int]:
        """The last position, in the future."""
        check_events(events)
        done: Future[int] = Future()
        done.set_running_or_notify_cancel()  # who stops waiting must not stop the others
        with self._changed:
            self._check_open()
            self._waiting.append(Batch(events, done))
            self._changed.notify()
        return done

    def record(self, impressions: Sequence[Impression]) -> None:
        """Write them some time soon."""
        with self._changed:
            self._check_open()
            if len(self._shown) + len(impressions) > MOST_WAITING:
                self.dropped += len(impressions)
                return
            if not self._shown:
                self._shown_since = time.monotonic()
                self._changed.notify()
            self._shown.extend(impressions)

    def close(self) -> None:
        """Write all that waits, then stop."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _check_open(self) -> None:
        if self._closed:
            raise MachineError(f"{self._name} is closed: nothing more can be kept there")

    def _run(self) -> None:
        while True:
            batches, shown = self._next()
            if not batches and not shown:
                return
            self._settle(batches, shown)

    def _next(self) -> tuple[list[Batch], list[Impression]]:
        """What goes into one transaction; nothing when the store is closed and all is written."""
        with self._changed:
            while not self._waiting and not self._closed:
                left = None
                if self._shown:
                    left = self._shown_since + RECORD_EVERY - time.monotonic()
                    if left <= 0:
                        break
                self._changed.wait(left)
            count, size = 0, 0
            for batch in self._waiting:
                size += len(batch.events)
                if count and size > MOST_AT_ONCE:
                    break
                count += 1
            batches, self._waiting = self._waiting[:count], self._waiting[count:]
            shown, self._shown = self._shown, []
            return batches, shown

    def _settle(self, batches: list[Batch], shown: list[Impression]) -> None:
        try:
            places = self._write([batch.events for batch in batches], shown)
        except Exception as error:
            self._failed(error, batches, shown)
            return
        self.trouble = None
        for batch, place in zip(batches, places):
            batch.done.set_result(place)

    def _failed(self, error: Exception, batches: list[Batch], shown: list[Impression]) -> None:
        """Nothing of the transaction was kept: everyone who waits for it is told so."""
        if str(error) != self.trouble:  # once, not once a request
            LOG.error("%s", error)
        self.trouble = str(error)
        self.dropped += len(shown)
        for batch in batches:
            batch.done.set_exception(error)
