"""Events in one SQLite file, for any number of processes of one machine."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from fmpair.errors import DataError, FmpairError, MachineError
from fmpair.events.event import Event, Id, Impression, ItemChange, context_json, merged_changes
from fmpair.files import lock, shown

WAIT = 10.0  # seconds for another process that writes
READ_WAIT = 0.5  # seconds for one that keeps readers out
WRITER_CACHE = 32_000  # KB of pages: a push of many items writes to pages all over the table
CHECK_EVERY = 60.0  # seconds between two checks of the whole file
MAX_CHECKED = 64 << 20  # bytes of a file that is checked whole
FORMAT = 3  # PRAGMA user_version; 1 had no ids of events, 2 no types of events and no items

# Id columns have no type: text and numbers come back as they were.
TABLES = """
CREATE TABLE IF NOT EXISTS events (
  position INTEGER PRIMARY KEY AUTOINCREMENT,
  user NOT NULL, item NOT NULL, time INTEGER NOT NULL, context TEXT, arm TEXT, model TEXT,
  id TEXT, event TEXT, value REAL);
CREATE UNIQUE INDEX IF NOT EXISTS events_id ON events (id);
CREATE TABLE IF NOT EXISTS impressions (
  position INTEGER PRIMARY KEY AUTOINCREMENT,
  user NOT NULL, items TEXT NOT NULL, time INTEGER NOT NULL, arm TEXT, model TEXT);
CREATE INDEX IF NOT EXISTS impressions_user ON impressions (user, time);
CREATE TABLE IF NOT EXISTS learned (model TEXT PRIMARY KEY, position INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS items (
  key TEXT PRIMARY KEY, item NOT NULL, columns TEXT NOT NULL, change INTEGER NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS items_change ON items (change);
"""
NEW_COLUMNS = {  # since a format
    2: ("id TEXT",),
    3: ("event TEXT", "value REAL"),
}
# One statement, since another process may be creating the tables.
STATE = "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
EVENTS = """
SELECT user, item, time, context, arm, model, position, event, value FROM events
WHERE position > ? ORDER BY position LIMIT ?
"""
READ_BACK = """
SELECT position, user, item, time FROM events WHERE position IN (SELECT value FROM json_each(?))
"""
IMPRESSIONS = """
SELECT user, items, time, arm, model, position FROM impressions
WHERE position > ? ORDER BY position LIMIT ?
"""
INSERT_EVENT = """
INSERT INTO events (user, item, time, context, arm, model, event, value, id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING
"""
SHOWN = """
SELECT items FROM impressions
WHERE user IN (SELECT value FROM json_each(?)) AND time >= ?
"""
ITEMS = "SELECT item, columns, change FROM items WHERE change > ? ORDER BY change LIMIT ?"
KNOWN_ITEMS = "SELECT key, columns FROM items WHERE key IN (SELECT value FROM json_each(?))"
LAST_CHANGE = "SELECT coalesce(max(change), 0) FROM items"
INSERT_ITEM = """
INSERT INTO items (key, item, columns, change) VALUES (?, ?, ?, ?) ON CONFLICT (key)
DO UPDATE SET item = excluded.item, columns = excluded.columns, change = excluded.change
"""
POSITION = "SELECT position FROM events WHERE id = ?"
INSERT_IMPRESSION = "INSERT INTO impressions (user, items, time, arm, model) VALUES (?, ?, ?, ?, ?)"


Identity = tuple[int, int] | None
RESTORE = "Events are refused; restore the store from a backup and restart the service"


class SQLite:
    """A database file with a write-ahead log, synced to disk at every commit; see `Database`.

    Readers never wait for the writer, and SQLite rolls back what a killed writer left.
    """

    def __init__(self, path: Path, make: bool = True):
        self.path = path
        self.name = f"the event store {shown(path)}"
        self._local = threading.local()  # one connection to read per thread
        self._readers: list[sqlite3.Connection] = []
        self._writer: sqlite3.Connection | None = None
        self._log: tuple[Identity, Identity] | None = None  # as it was first opened
        self._lost_log, self._writing = False, threading.Lock()
        self._checked_at = -CHECK_EVERY
        if not make and not path.exists():
            raise DataError(f"{self.name} does not exist")
        if not path.exists() and not path.parent.is_dir():
            raise DataError(f"cannot create {self.name}: its folder does not exist")
        with self._translated(DataError):
            self._create(make)
        self._file = _identity(path)

    def events(self, after: int, limit: int) -> list[tuple]:
        return self._read(EVENTS, after, limit)

    def impressions(self, after: int, limit: int) -> list[tuple]:
        return self._read(IMPRESSIONS, after, limit)

    def shown(self, users: Sequence[Id], since: int) -> list[tuple]:
        return self._read(SHOWN, json.dumps(users), since)

    def last(self) -> tuple[int, int]:
        try:
            reader = self._reader()
            # The number changes when another connection writes; otherwise no table is read.
            (version,) = reader.execute("PRAGMA data_version").fetchone()
            if version != self._local.version:
                (last,) = reader.execute("SELECT max(position) FROM events").fetchone()
                (change,) = reader.execute(LAST_CHANGE).fetchone()
                self._local.version, self._local.last = version, (last or 0, change)
        except (sqlite3.Error, OSError):
            with self._translated():  # not around it all: this runs for every request
                raise
        return self._local.last

    def items(self, after: int, limit: int) -> list[tuple]:
        return self._read(ITEMS, after, limit)

    def put_items(self, changes: Sequence[ItemChange], texts: Sequence[str]) -> int:
        with self._transaction() as connection:
            keys = json.dumps([change.key for change in changes])
            known = dict(connection.execute(KNOWN_ITEMS, (keys,)).fetchall())
            (last,) = connection.execute(LAST_CHANGE).fetchone()
            rows = merged_changes(changes, texts, known, last)
            connection.executemany(INSERT_ITEM, rows)
        return last + len(rows)

    def read_back(self, positions: Sequence[int]) -> dict[int, tuple]:
        with self._writing:
            self._check_log(DataError)
        try:
            with closing(self._connect(READ_WAIT)) as connection:
                connection.execute("PRAGMA query_only = ON")
                rows = connection.execute(READ_BACK, (json.dumps(positions),)).fetchall()
                self._check_whole(connection)
        except sqlite3.DatabaseError as error:
            if any(word in str(error) for word in ("locked", "busy", "unable to open")):
                raise MachineError(f"{self.name} failed: {error}{_advice(str(error))}") from error
            raise DataError(f"{self.name} is damaged: {error}. {RESTORE}") from error
        return {position: tuple(row) for position, *row in rows}

    def _check_whole(self, connection: sqlite3.Connection) -> None:
        """Check all pages of a small file, once a minute."""
        if time.monotonic() < self._checked_at + CHECK_EVERY:
            return
        self._checked_at = time.monotonic()
        if self.path.stat().st_size <= MAX_CHECKED:
            (problem,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if problem != "ok":
                self._checked_at = -CHECK_EVERY  # until it is whole again
                raise sqlite3.DatabaseError(problem)

    def learned(self, model: str) -> int:
        rows = self._read("SELECT position FROM learned WHERE model = ?", model)
        return rows[0][0] if rows else 0

    def remember(self, model: str, position: int) -> None:
        with self._translated(), closing(self._connect()) as connection, connection:
            connection.execute("INSERT OR REPLACE INTO learned VALUES (?, ?)", (model, position))

    def trouble(self) -> None:
        return None

    def close(self) -> None:
        self._drop_writer()
        while self._readers:
            self._readers.pop().close()

    def insert(self, events: Sequence[Event], impressions: Sequence[Impression]) -> Sequence[int]:
        rows = [
            (e.user, e.item, e.time, _json(e), e.arm, e.model, e.event, e.value, e.key)
            for e in events
        ]
        lists = [(i.user, json.dumps(i.items), i.time, i.arm, i.model) for i in impressions]
        positions: Sequence[int] = ()
        with self._transaction() as connection:
            connection.executemany(INSERT_IMPRESSION, lists)
            new = connection.executemany(INSERT_EVENT, rows).rowcount
            if rows and new == len(rows):
                (last,) = connection.execute("SELECT last_insert_rowid()").fetchone()
                positions = range(last - new + 1, last + 1)
            elif rows:  # some were stored before
                cursors = (connection.execute(POSITION, (row[-1],)) for row in rows)
                positions = [cursor.fetchone()[0] for cursor in cursors]
        return positions

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit what a block writes, or nothing of it."""
        try:
            with self._writing, self._translated():
                if self._writer is None:
                    self._writer = self._connect()
                    self._writer.execute(f"PRAGMA cache_size = -{WRITER_CACHE}")
                self._check_file()
                with self._turn(), self._writer as connection:
                    connection.execute("BEGIN IMMEDIATE")
                    self._check_log()
                    self._log = self._log or self._found_log()
                    yield connection
                self._check_log()  # removed during the commit, it is not what others read
        except Exception:
            self._drop_writer()  # its state is unknown
            raise

    def _read(self, query: str, *values: Any) -> list[tuple]:
        with self._translated():
            return self._reader().execute(query, values).fetchall()

    def _reader(self) -> sqlite3.Connection:
        """Return the connection of this thread."""
        reader = getattr(self._local, "reader", None)
        if reader is None:
            reader = self._local.reader = self._connect(READ_WAIT)
            reader.execute("PRAGMA query_only = ON")
            reader.execute("PRAGMA schema_version").fetchone()  # opens the log, if there is one
            log = self._found_log()
            if self._log is None and None not in log:  # noticed if it is removed before we write
                self._log = log
            self._local.version = None
            self._readers.append(reader)
        return reader

    def _connect(self, wait: float = WAIT, make: bool = False) -> sqlite3.Connection:
        if not make:
            self._check_file()
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode={'rwc' if make else 'rw'}",
            timeout=wait,
            isolation_level="IMMEDIATE",
            check_same_thread=False,
            uri=True,
        )
        connection.execute("PRAGMA synchronous = FULL")  # sync every commit to disk
        return connection

    def _create(self, make: bool) -> None:
        """Create missing tables, and sync them and the file name to disk."""
        with closing(self._connect(make=True)) as connection:
            version, tables = connection.execute(STATE).fetchone()
            if version > FORMAT:
                raise DataError(
                    f"{shown(self.path)} was written by a later fmpair (format {version}, this "
                    f"one reads {FORMAT}): upgrade with pip install -U fmpair"
                )
            if version < 1 and (tables or not make):
                raise DataError(f"{shown(self.path)} is not an event store")
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            if (version, mode) == (FORMAT, "wal"):
                return
            with self._turn():  # SQLite does not wait when two processes switch to WAL
                connection.execute("PRAGMA journal_mode = WAL")
                self._create_tables(connection)
        with suppress(OSError):  # not every system opens folders
            folder = os.open(self.path.parent, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)

    def _create_tables(self, connection: sqlite3.Connection) -> None:
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            version, _ = connection.execute(STATE).fetchone()  # of another process, by now
            for since, columns in NEW_COLUMNS.items():
                for column in columns if 0 < version < since else ():
                    connection.execute(f"ALTER TABLE events ADD COLUMN {column}")
            for change in TABLES.split(";")[:-1]:
                connection.execute(change)
            connection.execute(f"PRAGMA user_version = {FORMAT}")

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Queue with other processes for the write lock.

        SQLite itself only polls, so that one process may find the file busy for seconds. The
        system releases the lock of a process that ends.
        """
        queue = os.open(f"{self.path}-queue", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            lock(queue, wait=True)
            yield
        finally:
            os.close(queue)

    def _check_file(self) -> None:
        """Refuse a removed file: writes to it would succeed and be lost."""
        if _identity(self.path) != self._file:
            raise MachineError(
                f"{self.name} was removed or replaced: put it back, or restart the service"
            )

    def _check_log(self, refused: type[FmpairError] = MachineError) -> None:
        """Refuse a removed write-ahead log: what is written to it is lost when we end.

        Its events are moved into the database, unless another process has begun a log of its own.
        """
        if self._log is None or (self._log == self._found_log() and not self._lost_log):
            return
        if not self._lost_log and self._writer is not None and self._found_log()[0] is None:
            with suppress(sqlite3.Error):
                self._writer.rollback()
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._lost_log = True
        raise refused(
            f"the write-ahead log of {self.name} was removed or replaced: restart the service"
        )

    def _found_log(self) -> tuple[Identity, Identity]:
        return _identity(Path(f"{self.path}-wal")), _identity(Path(f"{self.path}-shm"))

    def _drop_writer(self) -> None:
        if self._writer is not None:
            with suppress(sqlite3.Error):
                self._writer.close()
            self._writer = None
            if not self._readers:  # SQLite removes the log with the last connection
                self._log = None

    @contextmanager
    def _translated(self, damaged: type[FmpairError] = MachineError) -> Iterator[None]:
        """Raise errors of the database as ours, in one line; damaged: for one that is no store."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise MachineError(f"{self.name} failed: {error}{_advice(str(error))}") from error
        except OSError as error:
            raise MachineError(f"{self.name} failed: {error.strerror or error}") from error
        except sqlite3.DatabaseError as error:
            raise damaged(
                f"{shown(self.path)} is not an event store, or is damaged: {error}"
            ) from error


def _json(event: Event) -> str | None:
    return None if event.context is None else context_json(event.context)


def _identity(path: Path) -> Identity:
    """Return what identifies a file, independently of its contents; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _advice(error: str) -> str:
    if "full" in error:
        return "; free space on its disk, then send the events again"
    if "locked" in error:
        return f": another process held it for more than {WAIT:g} seconds"
    if "readonly" in error or "unable to open" in error:
        return ": the service needs write permission for the file and its folder"
    return ""
