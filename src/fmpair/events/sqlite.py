"""Events in one SQLite file, for any number of processes of one machine."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fmpair.errors import DataError, MachineError
from fmpair.events.event import Event, GroupCommit, Impression, check_id, packed
from fmpair.files import lock
from fmpair.files import shown as spelled

WAIT = 10.0  # seconds for another process that writes
FORMAT = 1  # PRAGMA user_version

# Columns of ids have no type: text and numbers come back as they were.
TABLES = """
CREATE TABLE IF NOT EXISTS events (
  position INTEGER PRIMARY KEY AUTOINCREMENT,
  user NOT NULL, item NOT NULL, time INTEGER NOT NULL, context TEXT, arm TEXT, model TEXT);
CREATE TABLE IF NOT EXISTS impressions (
  position INTEGER PRIMARY KEY AUTOINCREMENT,
  user NOT NULL, items TEXT NOT NULL, time INTEGER NOT NULL, arm TEXT, model TEXT);
CREATE TABLE IF NOT EXISTS learned (model TEXT PRIMARY KEY, position INTEGER NOT NULL);
"""
# In one statement: another process may be making the tables.
LOOK = "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
PUT = "INSERT INTO events (user, item, time, context, arm, model) VALUES (?, ?, ?, ?, ?, ?)"
SHOW = "INSERT INTO impressions (user, items, time, arm, model) VALUES (?, ?, ?, ?, ?)"


class SQLiteStore:
    """A write-ahead log that is on the disk before anyone is told so; see `EventStore`.

    Readers never wait for the writer, and the system itself undoes what a killed writer began.
    """

    def __init__(self, path: Path, make: bool = True):
        self.path = path
        self._own = threading.local()  # a connection to read by for each thread
        self._readers: list[sqlite3.Connection] = []
        self._writer: sqlite3.Connection | None = None
        if not make and not path.exists():
            raise DataError(f"there is no store of events {spelled(path)}")
        if not path.exists() and not path.parent.is_dir():
            raise DataError(f"cannot keep events in {spelled(path)}: there is no such folder")
        with self._told():
            self._made(make)
        self._file = _identity(path)
        self._group = GroupCommit(self._write, f"the store of events {spelled(path)}")

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
            "SELECT user, item, time, context, arm, model, position FROM events "
            "WHERE position > ? ORDER BY position LIMIT ?"
        )
        return [
            Event(user, item, when, None if context is None else _unpacked(context), *rest)
            for user, item, when, context, *rest in self._read(query, position, limit)
        ]

    def impressions(self, position: int, limit: int) -> list[Impression]:
        query = (
            "SELECT user, items, time, arm, model, position FROM impressions "
            "WHERE position > ? ORDER BY position LIMIT ?"
        )
        return [
            Impression(user, tuple(json.loads(items)), *rest)
            for user, items, *rest in self._read(query, position, limit)
        ]

    def position(self) -> int:
        with self._told():
            reader = self._reader()
            # Another number whenever another connection has written: no table is read otherwise.
            (version,) = reader.execute("PRAGMA data_version").fetchone()
            if version != self._own.version:
                row = reader.execute("SELECT max(position) FROM events").fetchone()
                self._own.version, self._own.position = version, row[0] or 0
        return self._own.position

    def learned(self, model: str) -> int:
        found = self._read("SELECT position FROM learned WHERE model = ?", model)
        return found[0][0] if found else 0

    def remember(self, model: str, position: int) -> None:
        with self._told(), closing(self._connected()) as own, own:
            own.execute("INSERT OR REPLACE INTO learned VALUES (?, ?)", (model, position))

    def trouble(self) -> str | None:
        return self._group.trouble

    def close(self) -> None:
        self._group.close()
        self._drop_writer()
        while self._readers:
            self._readers.pop().close()

    def _read(self, query: str, *values: Any) -> list[tuple]:
        with self._told():
            return self._reader().execute(query, values).fetchall()

    def _reader(self) -> sqlite3.Connection:
        """The connection of this thread."""
        found = getattr(self._own, "reader", None)
        if found is None:
            found = self._own.reader = self._connected()
            found.execute("PRAGMA query_only = ON")
            self._own.version = None
            self._readers.append(found)
        return found

    def _connected(self, make: bool = False) -> sqlite3.Connection:
        if not make:
            self._check_there()
        found = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode={'rwc' if make else 'rw'}",
            timeout=WAIT,
            isolation_level="IMMEDIATE",
            check_same_thread=False,
            uri=True,
        )
        found.execute("PRAGMA synchronous = FULL")  # every commit is on the disk when it returns
        return found

    def _made(self, make: bool) -> None:
        """The tables, where they are not there yet; onto the disk with the name of the file."""
        with closing(self._connected(make=True)) as own:
            version, tables = own.execute(LOOK).fetchone()
            if version > FORMAT:
                raise DataError(
                    f"{spelled(self.path)} is of a later fmpair (format {version}, this one knows "
                    f"{FORMAT}): upgrade with pip install -U fmpair"
                )
            if version < FORMAT and (tables or not make):
                raise DataError(f"{spelled(self.path)} is no store of events")
            own.execute("PRAGMA journal_mode = WAL")
            if version == FORMAT:
                return
            with own:
                own.execute("BEGIN IMMEDIATE")
                for table in TABLES.split(";")[:-1]:
                    own.execute(table)
                own.execute(f"PRAGMA user_version = {FORMAT}")
        with suppress(OSError):  # not every system opens folders
            folder = os.open(self.path.parent, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)

    def _write(self, batches: Sequence[Sequence[Event]], shown: Sequence[Impression]) -> list[int]:
        """Of the thread that writes: one transaction; the last position of each batch."""
        rows = [
            (
                e.user,
                e.item,
                e.time,
                None if e.context is None else packed(e.context),
                e.arm,
                e.model,
            )
            for events in batches
            for e in events
        ]
        lists = [(s.user, json.dumps(s.items), s.time, s.arm, s.model) for s in shown]
        try:
            with self._told():
                if self._writer is None:
                    self._writer = self._connected()
                self._check_there()
                with self._turn(), self._writer as own:
                    own.execute("BEGIN IMMEDIATE")
                    own.executemany(SHOW, lists)
                    (last,) = own.execute("SELECT max(position) FROM events").fetchone()
                    own.executemany(PUT, rows)
                    if rows:
                        (last,) = own.execute("SELECT last_insert_rowid()").fetchone()
        except Exception:
            self._drop_writer()  # whatever state it is in, the next one begins anew
            raise
        return _ends(batches, last or 0)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait in a queue with other processes: left alone, SQLite looks again now and then, and
        one may find the file busy for seconds. The system lifts the lock of a process that ends.
        """
        queue = os.open(f"{self.path}-queue", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            lock(queue, wait=True)
            yield
        finally:
            os.close(queue)

    def _check_there(self) -> None:
        """The system lets one go on writing to a file that was removed, and then forgets it."""
        if _identity(self.path) != self._file:
            raise MachineError(
                f"the store of events {spelled(self.path)} was removed or replaced: put it back, "
                "or start the service again"
            )

    def _drop_writer(self) -> None:
        if self._writer is not None:
            with suppress(sqlite3.Error):
                self._writer.close()
            self._writer = None

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What the database says, as one line that names its file."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise MachineError(
                f"the store of events {spelled(self.path)} fails: {error}{_advice(str(error))}"
            ) from error
        except OSError as error:
            said = error.strerror or error
            raise MachineError(f"the store of events {spelled(self.path)} fails: {said}") from error
        except sqlite3.DatabaseError as error:
            raise DataError(
                f"{spelled(self.path)} is no store of events, or is damaged: {error}"
            ) from error


@lru_cache(4096)
def _unpacked(context: str) -> Mapping[str, Any]:
    """Contexts come again and again, and to read one takes longer than all the rest of an event."""
    return MappingProxyType(json.loads(context))


def _identity(path: Path) -> tuple[int, int] | None:
    """What a file stays known by, whatever is written to it; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _ends(batches: Sequence[Sequence[Event]], last: int) -> list[int]:
    """The last position of each batch, where `last` is that of all: they stand in one row."""
    ends, place = [], last
    for events in reversed(batches):
        ends.append(place)
        place -= len(events)
    return ends[::-1]


def _advice(said: str) -> str:
    if "full" in said:
        return "; make room on its disk, then send the events again"
    if "locked" in said:
        return f": another process held it for more than {WAIT:g} seconds"
    if "readonly" in said or "unable to open" in said:
        return ": the service must be allowed to write the file and into its folder"
    return ""
