"""Event stores: the logic that SQLite and PostgreSQL share, and how a URL is opened."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from fmpair.errors import FmpairError, MachineError, OptionError, named
from fmpair.events.event import (
    Event,
    Id,
    Impression,
    ItemChange,
    check_changes,
    check_events,
    check_id,
    parsed,
    spellings,
)
from fmpair.events.sqlite import SQLite
from fmpair.events.verification import Verification

LOG = logging.getLogger("fmpair")

SUFFIX = ".events.db"  # of the default store, a file beside the model
POSTGRES = ("postgresql://", "postgres://")
FILE = "sqlite:"
PAGE_SIZE = 10_000  # rows per query
MAX_COMMIT = 10_000  # events per transaction, unless one caller has more
MAX_PENDING = 100_000  # impressions; more are dropped and counted. Events: more are refused
SHORT_CONTEXT = 500  # characters of a context that is worth remembering
RETRY_EVERY = 1.0  # seconds between attempts to open a database
RECORD_EVERY = 1.0  # seconds that impressions may wait

Kept = TypeVar("Kept", Event, Impression, ItemChange)


class Database(Protocol):
    """What an `EventStore` needs from a database. Failures raise a MachineError."""

    name: str  # for error messages

    def events(self, after: int, limit: int) -> list[tuple]:
        """Return (user, item, time, context as JSON, arm, model, position, event, value)."""
        ...

    def impressions(self, after: int, limit: int) -> list[tuple]:
        """Return (user, items as JSON, time, arm, model, position) in order."""
        ...

    def insert(self, events: Sequence[Event], impressions: Sequence[Impression]) -> Sequence[int]:
        """Commit both in one transaction; return the positions of the events.

        An event whose key is stored already is not stored again: the known position is returned.
        """
        ...

    def shown(self, users: Sequence[Id], since: int) -> list[tuple]:
        """Return (items as JSON) of each list that any of the users was shown since a time."""
        ...

    def read_back(self, positions: Sequence[int]) -> dict[int, tuple]:
        """Return stored events by position, read by a connection that writes nothing.

        A DataError says that the database is damaged.
        """
        ...

    def items(self, after: int, limit: int) -> list[tuple]:
        """Return (item, columns as JSON, change) of items changed after a change, in order."""
        ...

    def put_items(self, changes: Sequence[ItemChange], texts: Sequence[str]) -> int:
        """Commit changes, merged with what is known of their items; return the last number.

        texts: the columns of each change as JSON.
        """
        ...

    def last(self) -> tuple[int, int]: ...
    def learned(self, model: str) -> int: ...
    def remember(self, model: str, position: int) -> None: ...
    def trouble(self) -> str | None: ...
    def close(self) -> None: ...


class EventStore:
    """Events in the order of arrival, numbered from 1 by their position.

    All methods are thread-safe. Database failures raise a MachineError.
    """

    def __init__(self, database: Database):
        self._database = database
        self._verification = Verification(database.read_back)
        self._group = GroupCommit(database, self._verification)

    def watch(self) -> None:
        """Check every second that the database answers, also while no events arrive."""
        self._verification.start()

    def submit(self, events: Sequence[Event]) -> Future[int]:
        """Store events; the future gives the last position once they would survive a power cut.

        Events of several callers share a transaction.
        """
        return self._group.submit(events)

    def append(self, events: Sequence[Event]) -> int:
        """Store events, wait, and return the last position."""
        return self.submit(events).result()

    def record(self, impressions: Sequence[Impression], at_once: bool = False) -> None:
        """Store impressions within about a second, or with the next transaction (at_once).

        The caller does not wait. While the database fails they stay in memory, and a killed
        process loses them.
        """
        for impression in impressions:
            check_id("user", impression.user)
        self._group.record(impressions, at_once)

    def shown_since(self, user: Id, time: int) -> set[Id]:
        """Return the items of the lists that a user was shown since a time (microseconds)."""
        users = spellings(user)
        waiting = self._group.pending(users, time)  # first: they move to the database
        rows = self._database.shown(users, time)
        return waiting.union(*(json.loads(items) for (items,) in rows))

    def after(self, position: int, limit: int) -> list[Event]:
        """Return at most `limit` events after a position."""
        rows = self._database.events(position, limit)
        return [
            Event(user, item, when, _context(context), arm, model, position, None, kind, value)
            for user, item, when, context, arm, model, position, kind, value in rows
        ]

    def impressions(self, position: int, limit: int) -> list[Impression]:
        """Return at most `limit` impressions after the position of one."""
        return [
            Impression(user, tuple(json.loads(items)), *rest)
            for user, items, *rest in self._database.impressions(position, limit)
        ]

    def position(self) -> int:
        """Return the last position that any process wrote, 0 for an empty store.

        Cheap enough to be called per request. If the database is gone, the last known position.
        """
        return self.last()[0]

    def last(self) -> tuple[int, int]:
        """Return `position` and `last_change`, read together."""
        return self._database.last()

    def put_items(self, changes: Sequence[ItemChange], texts: Sequence[str] | None = None) -> int:
        """Store changes of items, all or none; return the number of the last.

        They would survive a power cut once this returns. texts: what `check_changes` returned for
        them, if they were checked before.
        """
        texts = check_changes(changes) if texts is None else texts
        self._verification.require()
        return self._database.put_items(changes, texts)

    def items(self, position: int, limit: int) -> list[ItemChange]:
        """Return at most `limit` items changed after a change, each with all its known columns."""
        rows = self._database.items(position, limit)
        known = parsed(columns for _, columns, _ in rows)
        return [
            ItemChange(item, columns, change)
            for (item, _, change), columns in zip(rows, known, strict=True)
        ]

    def last_change(self) -> int:
        """Return the number of the last change of items by any process, as cheap as `position`."""
        return self.last()[1]

    def learned(self, model: str) -> int:
        """Return the position up to which a model has learned, 0 if unknown."""
        return self._database.learned(model)

    def remember(self, model: str, position: int) -> None:
        """Store the position up to which a model has learned."""
        self._database.remember(model, position)

    def trouble(self) -> str | None:
        """Return why events cannot be written or read, or None."""
        return self._verification.trouble or self._group.trouble or self._database.trouble()

    def failing_since(self) -> float | None:
        """Return when the database was last read (seconds since 1970) if that fails now."""
        return self._verification.failing_since

    def close(self) -> None:
        """Write what is pending and close the database."""
        self._group.close()
        self._verification.close()
        self._database.close()


def _context(text: str | None) -> Mapping[str, Any] | None:
    """Parse a context. Contexts repeat, and parsing one costs more than the rest of an event."""
    if text is None:
        return None
    return _parse_short(text) if len(text) <= SHORT_CONTEXT else _parse_short.__wrapped__(text)


@lru_cache(4096)
def _parse_short(text: str) -> Mapping[str, Any]:
    return MappingProxyType(json.loads(text))


def open_store(url: str | Path, make: bool = True, later: bool = False) -> EventStore:
    """Open the store of a URL; make: create it if it does not exist.

    sqlite:PATH or a path: one file, for any number of processes of one machine.
    postgresql://USER@HOST/NAME: for several machines (extra `serve`). later: if it cannot be opened
    now, return a store whose methods raise until it can.
    """
    try:
        return EventStore(_database(str(url), make))
    except FmpairError as error:
        if not later:
            raise
        return EventStore(
            cast(Database, UnopenedDatabase(partial(_database, str(url), make), error))
        )


def _database(text: str, make: bool) -> Database:
    if text.startswith(POSTGRES):
        from fmpair.events.postgres import Postgres  # its driver is an extra

        return Postgres(text, make)
    if "://" in text and not text.startswith(FILE):
        raise OptionError(
            f"{named('events')} takes sqlite:PATH, a path, or postgresql://USER@HOST/NAME, not "
            f"{text.partition('://')[0]}://..."
        )
    return SQLite(path_of(text), make)


class UnopenedDatabase:
    """Replaces a database that does not answer, and opens it once it does.

    A restarted worker thus answers lists while the database is gone.
    """

    def __init__(self, make: Callable[[], Database], error: FmpairError) -> None:
        self._make, self._error = make, error
        self._opened: Database | None = None
        self._retry_at, self._opening = 0.0, threading.Lock()
        self.name = "the event store"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database(), name)

    def last(self) -> tuple[int, int]:
        return (0, 0) if self._opened is None else self._opened.last()

    def trouble(self) -> str | None:
        return str(self._error) if self._opened is None else self._opened.trouble()

    def read_back(self, positions: Sequence[int]) -> dict[int, tuple]:
        return self._database().read_back(positions)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _database(self) -> Database:
        with self._opening:
            if self._opened is None and time.monotonic() >= self._retry_at:
                try:
                    self._opened = self._make()
                    LOG.info("%s answers again", self._opened.name)
                except FmpairError as error:
                    self._error, self._retry_at = error, time.monotonic() + RETRY_EVERY
            if self._opened is None:
                raise MachineError(str(self._error))
            return self._opened


def path_of(url: str) -> Path:
    """Return the file of an SQLite URL: sqlite:events.db, sqlite:///tmp/events.db, or a path."""
    path = url.removeprefix(FILE)
    if path.startswith("//"):
        path = path.removeprefix("//")
    if not path:
        raise OptionError(f"{named('events', url)} has no file: use sqlite:PATH")
    return Path(path)


def beside(model: str | Path) -> str:
    """Return the URL of the default store of a service: a file beside the model."""
    return f"{FILE}{Path(model).with_suffix(SUFFIX)}"


def pages(read: Callable[[int, int], list[Kept]], position: int = 0) -> Iterator[list[Kept]]:
    """Yield all rows after a position in pages; read: a method of `EventStore`, such as `after`."""
    while rows := read(position, PAGE_SIZE):
        yield rows
        position = rows[-1].position


class Submission(NamedTuple):
    """The events of one caller, and the future that waits for their last position."""

    events: Sequence[Event]
    done: Future[int]


class GroupCommit:
    """A thread that writes the events of many callers in one transaction.

    A disk takes about as long for one event as for a thousand.
    """

    def __init__(self, database: Database, verification: Verification):
        self._database, self._verification = database, verification
        self._changed = threading.Condition()
        self._batches: list[Submission] = []
        self._waiting = 0  # events of the batches
        self._impressions: list[Impression] = []
        self._writing: list[Impression] = []  # of the transaction under way
        self._recorded_at = 0.0  # of the oldest impression
        self._closed = False
        self.dropped = 0  # impressions
        self.trouble: str | None = None
        self._thread = threading.Thread(target=self._run, name="fmpair-events", daemon=True)
        self._thread.start()

    def submit(self, events: Sequence[Event]) -> Future[int]:
        """Queue events; the future gives their last position."""
        check_events(events)
        done: Future[int] = Future()
        done.set_running_or_notify_cancel()  # a caller that gives up must not cancel the others
        with self._changed:
            self._check_open()
            if self._waiting and self._waiting + len(events) > MAX_PENDING:
                raise MachineError(f"{self._database.name} does not answer: too many events wait")
            self._waiting += len(events)
            self._batches.append(Submission(events, done))
            self._changed.notify()
        return done

    def record(self, impressions: Sequence[Impression], at_once: bool = False) -> None:
        """Queue impressions."""
        with self._changed:
            self._check_open()
            if len(self._impressions) + len(impressions) > MAX_PENDING:
                self.dropped += len(impressions)
                return
            due = time.monotonic() - (RECORD_EVERY if at_once else 0)
            if not self._impressions or due < self._recorded_at:
                self._recorded_at = due
                self._changed.notify()
            self._impressions.extend(impressions)

    def pending(self, users: Sequence[Id], since: int) -> set[Id]:
        """Return the items of queued impressions of any of the users since a time."""
        with self._changed:
            waiting = [*self._writing, *self._impressions]
        events = (event for event in waiting if event.user in users and event.time >= since)
        return {item for event in events for item in event.items}

    def close(self) -> None:
        """Write everything queued, then stop."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _check_open(self) -> None:
        if self._closed:
            raise MachineError(f"{self._database.name} is closed")

    def _run(self) -> None:
        while True:
            batches, impressions = self._next()
            if not batches and not impressions:
                return
            self._commit(batches, impressions)

    def _next(self) -> tuple[list[Submission], list[Impression]]:
        """Wait for what goes into the next transaction; nothing when closed and all is written."""
        with self._changed:
            while not self._batches and not self._closed:
                left = None
                if self._impressions:
                    left = self._recorded_at + RECORD_EVERY - time.monotonic()
                    if left <= 0:
                        break
                self._changed.wait(left)
            count, size = 0, 0
            for batch in self._batches:
                size += len(batch.events)
                if count and size > MAX_COMMIT:
                    break
                count += 1
            batches, self._batches = self._batches[:count], self._batches[count:]
            self._waiting = sum(len(batch.events) for batch in self._batches)
            self._writing, self._impressions = self._impressions, []
            return batches, self._writing

    def _commit(self, batches: list[Submission], impressions: list[Impression]) -> None:
        try:
            events = [event for batch in batches for event in batch.events]
            self._verification.require()
            positions = self._database.insert(events, impressions)
            empty = any(not batch.events for batch in batches)  # they only wait for the others
            last = self._database.last()[0] if empty else 0
        except Exception as error:  # nothing of the transaction was stored
            if str(error) != self.trouble:  # log it once, not once per request
                LOG.error("%s", error)
            self.trouble = str(error)
            self._keep(impressions)
            for batch in batches:
                batch.done.set_exception(error)
            return
        self.trouble = None
        self._writing = []
        self._verification.note(positions)
        end = 0
        for batch in batches:
            end += len(batch.events)
            first = end - len(batch.events)
            batch.done.set_result(max(positions[first:end]) if batch.events else last)

    def _keep(self, impressions: list[Impression]) -> None:
        """Queue impressions again that could not be written, as far as there is room."""
        with self._changed:
            room = 0 if self._closed else max(MAX_PENDING - len(self._impressions), 0)
            self.dropped += max(len(impressions) - room, 0)
            self._impressions = [*impressions[:room], *self._impressions]
            self._recorded_at, self._writing = time.monotonic(), []
