"""Where events are kept: a database named by a URL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol, TypeVar

from fmpair.errors import OptionError, named
from fmpair.events.event import Event, Impression
from fmpair.events.sqlite import SQLiteStore

SUFFIX = ".events.db"  # of the file beside a model
POSTGRES = ("postgresql://", "postgres://")
FILE = "sqlite:"
AT_ONCE = 10_000  # rows read at a time

Kept = TypeVar("Kept", Event, Impression)


class EventStore(Protocol):
    """Events in the order in which they were taken in, numbered from 1 on by their position.

    Any thread may call any method. What a database cannot do raises a MachineError.
    """

    def submit(self, events: Sequence[Event]) -> Future[int]:
        """Keep the events; the last position, once they would survive a power cut.

        Those of several callers go to the disk together.
        """
        ...

    def append(self, events: Sequence[Event]) -> int:
        """The same, and wait for it."""
        ...

    def record(self, impressions: Sequence[Impression]) -> None:
        """Keep what was shown within a second or so; what a kill may cost."""
        ...

    def after(self, position: int, limit: int) -> list[Event]:
        """The next events after a position, at most so many."""
        ...

    def impressions(self, position: int, limit: int) -> list[Impression]:
        """The next of what was shown after a position of these, at most so many."""
        ...

    def position(self) -> int:
        """The last position, whoever wrote it; 0 where there is none.

        Cheap enough to be asked before each answer. Where the database is gone, the last known.
        """
        ...

    def learned(self, model: str) -> int:
        """Up to which position a model has learned; 0 where that is not known."""
        ...

    def remember(self, model: str, position: int) -> None:
        """Note up to which position a model has learned."""
        ...

    def trouble(self) -> str | None:
        """Why the last attempt to write failed; None where it went well."""
        ...

    def close(self) -> None:
        """Write what waits, and let go of the database."""
        ...


def open_store(url: str | Path, make: bool = True) -> EventStore:
    """The store of a URL. make: where there is none yet, make it; else that is an error.

    sqlite:PATH or a path: one file, for any number of processes of one machine.
    postgresql://USER@HOST/NAME: for several machines (extra `serve`).
    """
    text = str(url)
    if text.startswith(POSTGRES):
        from fmpair.events.postgres import PostgresStore  # its driver is an extra

        return PostgresStore(text, make)
    if "://" in text and not text.startswith(FILE):
        raise OptionError(
            f"{named('events')} takes sqlite:PATH, a path, or postgresql://USER@HOST/NAME, not "
            f"{text.partition('://')[0]}://..."
        )
    return SQLiteStore(path_of(text), make)


def pages(read: Callable[[int, int], list[Kept]], position: int = 0) -> Iterator[list[Kept]]:
    """All that is kept after a position, in parts; read: `EventStore.after`, or `impressions`."""
    while found := read(position, AT_ONCE):
        yield found
        position = found[-1].position


def path_of(url: str) -> Path:
    """The file of an SQLite URL: sqlite:events.db, sqlite:///tmp/events.db, or a path."""
    path = url.removeprefix(FILE)
    if path.startswith("//"):
        path = path.removeprefix("//")
    if not path:
        raise OptionError(f"{named('events', url)} names no file: write sqlite:PATH")
    return Path(path)


def beside(model: str | Path) -> str:
    """The URL of the store that a service uses unless told otherwise: a file beside the model."""
    return f"{FILE}{Path(model).with_suffix(SUFFIX)}"
