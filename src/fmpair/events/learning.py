"""What a model has not learned yet of the events that a service keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from fmpair.errors import DataError
from fmpair.events.frame import events_for
from fmpair.events.store import EventStore, pages
from fmpair.fitted.file import checksum_of


class News(NamedTuple):
    """Events in a model's own columns, and the positions between which they stand."""

    events: pl.DataFrame
    after: int
    last: int


def news_for(store: EventStore, file: str | Path, space: Any, after: int | None = None) -> News:
    """The events that the model of a file has not learned; after: begin there, whatever it knows.

    space: the model's.
    """
    start = store.learned(checksum_of(file)) if after is None else after
    events = [event for page in pages(store.after, start) for event in page]
    if not events:
        raise DataError(f"there are no events after position {start:,}: nothing new to learn")
    return News(events_for(space, events), start, events[-1].position)


def note_learned(store: EventStore, file: str | Path, news: News) -> None:
    """Note in the store what the model of a new file knows, so that it is not learned again."""
    store.remember(checksum_of(file), news.last)
