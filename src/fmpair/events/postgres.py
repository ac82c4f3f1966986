"""Events in PostgreSQL, for services on several machines."""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from fmpair.errors import MachineError, UnknownError
from fmpair.events.event import Event, GroupCommit, Impression, check_id, packed

try:
    import psycopg
    from psycopg.types.json import Jsonb
except ImportError as missing:
    raise UnknownError(
        "psycopg, by which PostgreSQL is reached, is not installed: pip install 'fmpair[serve]'"
    ) from missing

Found = TypeVar("Found")

CHANNEL = "fmpair_events"
LOCK = 0x666D70616972  # one writer at a time, so that positions become visible in their order
PATIENCE = 5  # seconds to connect, and for any answer
TRY_EVERY = 1.0  # seconds between attempts to hear of new events again

TABLES = """
CREATE TABLE IF NOT EXISTS fmpair_events (
  position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, user_id jsonb NOT NULL,
  item_id jsonb NOT NULL, time bigint NOT NULL, context jsonb, arm text, model text);
CREATE TABLE IF NOT EXISTS fmpair_impressions (
  position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, user_id jsonb NOT NULL,
  items jsonb NOT NULL, time bigint NOT NULL, arm text, model text);
CREATE TABLE IF NOT EXISTS fmpair_learned (model text PRIMARY KEY, position bigint NOT NULL);
"""
PUT = """
INSERT INTO fmpair_events (user_id, item_id, time, context, arm, model)
SELECT u, i, t, c, a, m FROM unnest(%s::jsonb[], %s::jsonb[], %s::bigint[], %s::jsonb[],
  %s::text[], %s::text[]) WITH ORDINALITY AS row (u, i, t, c, a, m, place) ORDER BY place
RETURNING position
"""
SHOW = """
INSERT INTO fmpair_impressions (user_id, items, time, arm, model)
SELECT * FROM unnest(%s::jsonb[], %s::jsonb[], %s::bigint[], %s::text[], %s::text[])
"""
# Whatever else the server was told, it answers after what it says is on its disk.
DURABLE = """
SELECT set_config('synchronous_commit', 'on', true)
WHERE current_setting('synchronous_commit') = 'off'
"""
REMEMBER = """
INSERT INTO fmpair_learned VALUES (%s, %s)
ON CONFLICT (model) DO UPDATE SET position = excluded.position
"""


class PostgresStore:
    """Three tables of a database; see `EventStore`.

    What another machine kept is known here a moment later, when the database has told of it.
    """

    def __init__(self, url: str, make: bool = True):
        self.url = url
        self._shown_url = re.sub(r"//[^@/]*@", "//", url).partition("?")[0]
        self._reading, self._hearing = threading.Lock(), threading.Lock()
        self._reader: psycopg.Connection | None = None
        self._writer: psycopg.Connection | None = None
        self._ear: psycopg.Connection | None = None  # that hears of what others wrote
        self._tried, self._position = 0.0, 0
        with self._told(), self._connected() as own:
            if make:
                own.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
                own.execute(TABLES)
                own.commit()
            self._listen()
        self._group = GroupCommit(self._write, f"the store of events {self._shown_url}")

    def submit(self, events: Sequence[Event]) -> Future[int]:
        return self._group.submit(events)

    def append(self, events: Sequence[Event]) -> int:
        return self.submit(events).result()

    def record(self, impressions: Sequence[Impression]) -> None:
        for one in impressions:
            check_id("user", one.user)
        self._group.record(impressions)

    def after(self, position: int, limit: int) -> list[Event]:
        query = (
            "SELECT user_id, item_id, time, context, arm, model, position FROM fmpair_events "
            "WHERE position > %s ORDER BY position LIMIT %s"
        )
        return [Event(*row) for row in self._read(query, position, limit)]

    def impressions(self, position: int, limit: int) -> list[Impression]:
        query = (
            "SELECT user_id, items, time, arm, model, position FROM fmpair_impressions "
            "WHERE position > %s ORDER BY position LIMIT %s"
        )
        rows = self._read(query, position, limit)
        return [Impression(user, tuple(items), *rest) for user, items, *rest in rows]

    def position(self) -> int:
        with self._hearing:
            if self._ear is None:
                self._listen_soon()
                return self._position
            try:
                own = self._ear.pgconn
                own.consume_input()  # what has come in, without asking: no round trip
                while (heard := own.notifies()) is not None:
                    self._position = max(self._position, int(heard.extra))
            except psycopg.Error:
                _close(self._ear)
                self._ear = None
            return self._position

    def learned(self, model: str) -> int:
        found = self._read("SELECT position FROM fmpair_learned WHERE model = %s", model)
        return found[0][0] if found else 0

    def remember(self, model: str, position: int) -> None:
        with self._told(), self._connected() as own:
            own.execute(REMEMBER, (model, position))
            own.commit()

    def trouble(self) -> str | None:
        lost = None if self._ear is not None else f"{self._shown_url} does not answer"
        return self._group.trouble or lost

    def close(self) -> None:
        self._group.close()
        with self._hearing, self._reading:
            self._tried = math.inf
            for one in (self._reader, self._writer, self._ear):
                _close(one)
            self._reader = self._writer = self._ear = None

    def _read(self, query: str, *values: Any) -> list[tuple]:
        def run(own: psycopg.Connection) -> list[tuple]:
            found = own.execute(query, values).fetchall()
            own.commit()
            return found

        with self._reading, self._told():
            self._reader, found = self._with(self._reader, run)
        return found

    def _with(
        self, own: psycopg.Connection | None, work: Callable[[psycopg.Connection], Found]
    ) -> tuple[psycopg.Connection, Found]:
        """(the connection, what the work gave); a connection lost meanwhile is made again once.

        Only before the work began to count: what was committed is never done twice.
        """
        if own is not None and not own.closed:
            try:
                own.execute("SELECT 1")
            except psycopg.Error:
                _close(own)
                own = None
        if own is None or own.closed:
            own = self._connected()
        try:
            return own, work(own)
        except BaseException:
            with suppress(psycopg.Error):
                own.rollback()
            raise

    def _connected(self) -> psycopg.Connection:
        patience = f"-c statement_timeout={PATIENCE * 1000} -c lock_timeout={PATIENCE * 1000}"
        return psycopg.connect(
            self.url,
            connect_timeout=PATIENCE,
            options=patience,
            tcp_user_timeout=PATIENCE * 1000,
            keepalives_idle=PATIENCE,
        )

    def _listen(self) -> None:
        """Hear of what is written from now on, and learn what was written before."""
        ear = self._connected()
        ear.autocommit = True
        ear.execute(f"LISTEN {CHANNEL}")
        (last,) = ear.execute("SELECT max(position) FROM fmpair_events").fetchone() or (0,)
        self._position = max(self._position, last or 0)
        self._ear = ear

    def _listen_soon(self) -> None:
        """Try again in a thread of its own: who asks for the position waits for nobody."""
        if time.monotonic() < self._tried + TRY_EVERY:
            return
        self._tried = math.inf  # one attempt at a time

        def attempt() -> None:
            with suppress(psycopg.Error):
                self._listen()
            self._tried = time.monotonic()

        threading.Thread(target=attempt, name="fmpair-events-listen", daemon=True).start()

    def _write(self, batches: Sequence[Sequence[Event]], shown: Sequence[Impression]) -> list[int]:
        """Of the thread that writes: one transaction; the last position of each batch."""
        events = [event for batch in batches for event in batch]

        def run(own: psycopg.Connection) -> list[int]:
            own.execute(DURABLE)
            if shown:
                own.execute(SHOW, _shown_columns(shown))
            places = []
            if events:
                own.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
                places = [place for (place,) in own.execute(PUT, _event_columns(events))]
                own.execute("SELECT pg_notify(%s, %s)", (CHANNEL, str(places[-1])))
            own.commit()
            return places

        with self._told():
            self._writer, places = self._with(self._writer, run)
        self._position = max([self._position, *places[-1:]])
        ends, end = [], 0
        for batch in batches:
            end += len(batch)
            ends.append(places[end - 1] if end else self._position)
        return ends

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What the database says, as one line that names it without its password."""
        try:
            yield
        except psycopg.Error as error:
            said = " ".join(str(error).split()) or type(error).__name__
            raise MachineError(f"the store of events {self._shown_url} fails: {said}") from error


def _event_columns(events: Sequence[Event]) -> tuple[list[Any], ...]:
    return (
        [Jsonb(e.user) for e in events],
        [Jsonb(e.item) for e in events],
        [e.time for e in events],
        [None if e.context is None else packed(e.context) for e in events],
        [e.arm for e in events],
        [e.model for e in events],
    )


def _shown_columns(shown: Sequence[Impression]) -> tuple[list[Any], ...]:
    return (
        [Jsonb(one.user) for one in shown],
        [Jsonb(one.items) for one in shown],
        [one.time for one in shown],
        [one.arm for one in shown],
        [one.model for one in shown],
    )


def _close(own: psycopg.Connection | None) -> None:
    if own is not None:
        with suppress(psycopg.Error):
            own.close()
