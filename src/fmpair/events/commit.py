"""Group commit: what many callers want to keep goes to the disk together."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from fmpair.errors import MachineError
from fmpair.events.event import Event, Impression, check_events

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
