"""Events in PostgreSQL, for services on several machines."""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from fmpair.errors import MachineError, UnknownError
from fmpair.events.event import (
    Event,
    Id,
    Impression,
    ItemChange,
    context_json,
    merged_changes,
    parsed,
)

try:
    import psycopg
    from psycopg.types.json import Jsonb
except ImportError as missing:
    raise UnknownError(
        "psycopg, the PostgreSQL driver, is not installed: pip install 'fmpair[serve]'"
    ) from missing

Result = TypeVar("Result")

CHANNEL, ITEMS_CHANNEL = "fmpair_events", "fmpair_items"
LOCK = 0x666D70616972  # one writer at a time: positions become visible in order
TIMEOUT = 5  # seconds to connect, and for any answer
UPGRADE_TIMEOUT = 300  # seconds to extend the tables of an earlier version
PING_TIMEOUT = 2  # seconds for a connection to show that it is alive
RETRY_EVERY = 1.0  # seconds between attempts to listen for new events again

TABLES = """
CREATE TABLE IF NOT EXISTS fmpair_events (
  position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, user_id jsonb NOT NULL,
  item_id jsonb NOT NULL, time bigint NOT NULL, context jsonb, arm text, model text);
ALTER TABLE fmpair_events ADD COLUMN IF NOT EXISTS id text,
  ADD COLUMN IF NOT EXISTS event text, ADD COLUMN IF NOT EXISTS value double precision;
CREATE UNIQUE INDEX IF NOT EXISTS fmpair_events_id ON fmpair_events (id);
CREATE TABLE IF NOT EXISTS fmpair_impressions (
  position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, user_id jsonb NOT NULL,
  items jsonb NOT NULL, time bigint NOT NULL, arm text, model text);
CREATE INDEX IF NOT EXISTS fmpair_impressions_user ON fmpair_impressions USING hash (user_id);
CREATE TABLE IF NOT EXISTS fmpair_learned (model text PRIMARY KEY, position bigint NOT NULL);
CREATE TABLE IF NOT EXISTS fmpair_items (
  key text PRIMARY KEY, item jsonb NOT NULL, columns text NOT NULL, change bigint NOT NULL UNIQUE);
"""
OUTDATED = """
SELECT 1 WHERE to_regclass('fmpair_events') IS NOT NULL AND to_regclass('fmpair_items') IS NULL
"""
EVENTS = """
SELECT user_id, item_id, time, context::text, arm, model, position, event, value
FROM fmpair_events
WHERE position > %s ORDER BY position LIMIT %s
"""
ITEMS = """
SELECT item::text, columns, change FROM fmpair_items WHERE change > %s ORDER BY change LIMIT %s
"""
# One JSON text takes a quarter of the processor time that the driver needs for arrays.
KNOWN_ITEMS = """
SELECT key, columns FROM fmpair_items WHERE key IN (SELECT json_array_elements_text(%s::json))
"""
LAST_CHANGE = "SELECT coalesce(max(change), 0) FROM fmpair_items"
INSERT_ITEMS = """
INSERT INTO fmpair_items (key, item, columns, change)
SELECT key, item, columns, change FROM json_to_recordset(%s::json)
  AS row (key text, item jsonb, columns text, change bigint)
ON CONFLICT (key)
DO UPDATE SET item = excluded.item, columns = excluded.columns, change = excluded.change
"""
IMPRESSIONS = """
SELECT user_id, items::text, time, arm, model, position FROM fmpair_impressions
WHERE position > %s ORDER BY position LIMIT %s
"""
READ_BACK = """
SELECT position, user_id, item_id, time FROM fmpair_events WHERE position = ANY(%s::bigint[])
"""
INSERT_EVENTS = """
INSERT INTO fmpair_events (user_id, item_id, time, context, arm, model, id, event, value)
SELECT u, i, t, c, a, m, d, e, v FROM unnest(%s::jsonb[], %s::jsonb[], %s::bigint[], %s::jsonb[],
  %s::text[], %s::text[], %s::text[], %s::text[], %s::double precision[])
  WITH ORDINALITY AS row (u, i, t, c, a, m, d, e, v, place)
ORDER BY place ON CONFLICT (id) DO NOTHING RETURNING position
"""
SHOWN = """
SELECT items::text FROM fmpair_impressions WHERE user_id = ANY(%s::jsonb[]) AND time >= %s
"""
POSITIONS = "SELECT id, position FROM fmpair_events WHERE id = ANY(%s)"
INSERT_IMPRESSIONS = """
INSERT INTO fmpair_impressions (user_id, items, time, arm, model)
SELECT * FROM unnest(%s::jsonb[], %s::jsonb[], %s::bigint[], %s::text[], %s::text[])
"""
# Commit to disk even if the server is configured not to.
DURABLE = """
SELECT set_config('synchronous_commit', 'on', true)
WHERE current_setting('synchronous_commit') = 'off'
"""
REMEMBER = """
INSERT INTO fmpair_learned VALUES (%s, %s)
ON CONFLICT (model) DO UPDATE SET position = excluded.position
"""


class Connection(psycopg.Connection):
    """A connection that is closed when the server does not answer a statement in time.

    The server's own timeouts do not work if it hangs or its machine is unreachable.
    """

    patience: float = TIMEOUT  # seconds

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        return super().wait(self._limited(gen, time.monotonic() + self.patience), *args, **options)

    def _limited(self, gen: Any, limit: float) -> Any:
        """Yield what a generator of the driver yields; it is resumed every tenth of a second."""
        try:
            state = next(gen)
            while True:
                ready = yield state
                if not ready and time.monotonic() > limit:
                    self.close()
                    raise psycopg.OperationalError(f"no answer within {self.patience:g} seconds")
                state = gen.send(ready)
        except StopIteration as end:
            return end.value


class Postgres:
    """Four tables of a database; see `Database`.

    The database notifies every machine of new events and changes of items.
    """

    def __init__(self, url: str, make: bool = True):
        self.url = url
        self._address = re.sub(r"//[^@/]*@", "//", url).partition("?")[0]  # without password
        self.name = f"the event store {self._address}"
        self._reading, self._listening = threading.Lock(), threading.Lock()
        self._reader: Connection | None = None
        self._writer: Connection | None = None
        self._listener: Connection | None = None  # receives notifications
        self._tried_at, self._last = 0.0, {CHANNEL: 0, ITEMS_CHANNEL: 0}
        self._closed = False
        with self._translated(), self._connect() as connection:
            if make or connection.execute(OUTDATED).fetchone():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
                connection.patience = UPGRADE_TIMEOUT
                connection.execute(f"SET LOCAL statement_timeout = {UPGRADE_TIMEOUT * 1000}")
                connection.execute(TABLES)
                connection.commit()
            self._listen()

    def events(self, after: int, limit: int) -> list[tuple]:
        return self._read(EVENTS, after, limit)

    def impressions(self, after: int, limit: int) -> list[tuple]:
        return self._read(IMPRESSIONS, after, limit)

    def shown(self, users: Sequence[Id], since: int) -> list[tuple]:
        return self._read(SHOWN, [Jsonb(user) for user in users], since)

    def last(self) -> tuple[int, int]:
        with self._listening:
            if self._listener is None:
                self._listen_soon()
                return self._last[CHANNEL], self._last[ITEMS_CHANNEL]
            try:
                connection = self._listener.pgconn
                connection.consume_input()  # what has arrived, without a round trip
                while (message := connection.notifies()) is not None:
                    self._advance(message.relname.decode(), int(message.extra))
            except psycopg.Error:
                _close(self._listener)
                self._listener = None
            return self._last[CHANNEL], self._last[ITEMS_CHANNEL]

    def _advance(self, channel: str, position: int) -> None:
        self._last[channel] = max(self._last[channel], position)

    def items(self, after: int, limit: int) -> list[tuple]:
        rows = self._read(ITEMS, after, limit)
        items = parsed(item for item, _, _ in rows)
        return [(item, *rest) for item, (_, *rest) in zip(items, rows)]

    def put_items(self, changes: Sequence[ItemChange], texts: Sequence[str]) -> int:
        with self._translated(), self._connect() as connection:
            connection.execute(DURABLE)
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            keys = json.dumps([change.key for change in changes])
            known: dict[str, str] = dict(connection.execute(KNOWN_ITEMS, (keys,)).fetchall())
            (last,) = connection.execute(LAST_CHANGE).fetchone() or (0,)
            merged = merged_changes(changes, texts, known, last)
            rows = json.dumps([row._asdict() for row in merged])
            connection.execute(INSERT_ITEMS, (rows,))
            last += len(merged)
            connection.execute("SELECT pg_notify(%s, %s)", (ITEMS_CHANNEL, str(last)))
            connection.commit()
        self._advance(ITEMS_CHANNEL, last)
        return last

    def read_back(self, positions: Sequence[int]) -> dict[int, tuple]:
        rows = self._read(READ_BACK, list(positions))
        return {position: tuple(row) for position, *row in rows}

    def learned(self, model: str) -> int:
        rows = self._read("SELECT position FROM fmpair_learned WHERE model = %s", model)
        return rows[0][0] if rows else 0

    def remember(self, model: str, position: int) -> None:
        with self._translated(), self._connect() as connection:
            connection.execute(REMEMBER, (model, position))
            connection.commit()

    def trouble(self) -> str | None:
        return None if self._listener is not None else f"{self._address} does not answer"

    def close(self) -> None:
        with self._listening, self._reading:
            self._closed, self._tried_at = True, math.inf
            for connection in (self._reader, self._writer, self._listener):
                _close(connection)
            self._reader = self._writer = self._listener = None

    def insert(self, events: Sequence[Event], impressions: Sequence[Impression]) -> list[int]:
        def run(connection: Connection) -> list[int]:
            connection.execute(DURABLE)
            if impressions:
                connection.execute(INSERT_IMPRESSIONS, _columns(map(_impression_row, impressions)))
            positions = []
            if events:
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
                rows = connection.execute(INSERT_EVENTS, _columns(map(_event_row, events)))
                positions = [position for (position,) in rows]
                if positions:
                    connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, str(positions[-1])))
                if len(positions) < len(events):  # some were stored before
                    keys = [event.key for event in events]
                    known: dict[str, int] = dict(connection.execute(POSITIONS, (keys,)).fetchall())
                    positions = [known[key] for key in keys]
            connection.commit()
            return positions

        with self._translated():
            self._writer, positions = self._with(self._writer, run)
        self._advance(CHANNEL, max(positions, default=0))
        return positions

    def _read(self, query: str, *values: Any) -> list[tuple]:
        def run(connection: Connection) -> list[tuple]:
            rows = connection.execute(query, values).fetchall()
            connection.commit()
            return rows

        if not self._reading.acquire(timeout=TIMEOUT):
            raise MachineError(f"{self.name} failed: no answer within {TIMEOUT} seconds")
        try:
            with self._translated():
                self._reader, rows = self._with(self._reader, run)
        finally:
            self._reading.release()
        return rows

    def _with(
        self,
        connection: Connection | None,
        work: Callable[[Connection], Result],
    ) -> tuple[Connection, Result]:
        """Return (the connection, the result of the work on it).

        A lost connection is replaced before the work starts, never later: work that was committed
        must not be repeated.
        """
        if connection is not None and not connection.closed:
            try:
                connection.patience = PING_TIMEOUT
                connection.execute("SELECT 1")
                connection.patience = TIMEOUT
            except psycopg.Error:
                _close(connection)
                connection = None
        is_new = connection is None or connection.closed
        if connection is None or is_new:
            connection = self._connect()
        try:
            return connection, work(connection)
        except BaseException:
            with suppress(psycopg.Error):
                connection.rollback()
            if is_new:  # the caller has no reference to it
                _close(connection)
            raise

    def _connect(self) -> Connection:
        timeouts = f"-c statement_timeout={TIMEOUT * 1000} -c lock_timeout={TIMEOUT * 1000}"
        return Connection.connect(
            self.url,
            connect_timeout=TIMEOUT,
            options=timeouts,
            tcp_user_timeout=TIMEOUT * 1000,
            keepalives_idle=TIMEOUT,
        )

    def _listen(self) -> None:
        """Subscribe to notifications, then read the current position."""
        listener = self._connect()
        try:
            listener.autocommit = True
            for channel, last in (
                (CHANNEL, "SELECT coalesce(max(position), 0) FROM fmpair_events"),
                (ITEMS_CHANNEL, LAST_CHANGE),
            ):
                listener.execute(f"LISTEN {channel}")
                (position,) = listener.execute(last).fetchone() or (0,)
                self._advance(channel, position)
        except BaseException:
            _close(listener)
            raise
        with self._listening:
            if self._closed:  # while this thread connected
                _close(listener)
            else:
                self._listener = listener

    def _listen_soon(self) -> None:
        """Try to listen again, in a thread so that callers of `last` do not wait."""
        if time.monotonic() < self._tried_at + RETRY_EVERY:
            return
        self._tried_at = math.inf  # one attempt at a time

        def attempt() -> None:
            with suppress(psycopg.Error):
                self._listen()
            self._tried_at = time.monotonic()

        threading.Thread(target=attempt, name="fmpair-events-listen", daemon=True).start()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise errors of the database as ours, in one line without the password."""
        try:
            yield
        except psycopg.Error as error:
            text = " ".join(str(error).split()) or type(error).__name__
            raise MachineError(f"{self.name} failed: {text}") from error


def _event_row(e: Event) -> tuple[Any, ...]:
    context = None if e.context is None else context_json(e.context)
    row = (Jsonb(e.user), Jsonb(e.item), e.time, context, e.arm, e.model, e.key)
    return *row, e.event, None if e.value is None else float(e.value)


def _impression_row(i: Impression) -> tuple[Any, ...]:
    return Jsonb(i.user), Jsonb(i.items), i.time, i.arm, i.model


def _columns(rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows)]


def _close(connection: Connection | None) -> None:
    if connection is not None:
        with suppress(psycopg.Error):
            connection.close()
