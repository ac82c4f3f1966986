"""Kept events as a frame: to be written to a file, or learned from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from fmpair.errors import DataError, notice
from fmpair.events.event import Event, packed
from fmpair.events.store import EventStore, pages
from fmpair.fitted.file import checksum_of

TIMESTAMP = "timestamp"
OURS = ("arm", "model", "position")  # what the service says of an event
PREFIX = "fmpair_"  # of these, where the context has a column of that name
TIMES = pl.Datetime("us")


def frame_of(store: EventStore, after: int = 0) -> pl.DataFrame:
    """(user, item, timestamp, the columns of the context, arm, model, position) of all events."""
    events: list[Event] = [event for page in pages(store.after, after) for event in page]
    names = sorted({name for event in events for name in event.context or ()})
    found = _plain(events, ("user", "item"))
    for name in names:
        taken = name in ("user", "item", TIMESTAMP)
        found.append(_context(events, name, f"context.{name}" if taken else name))
    found += [
        pl.Series(f"{PREFIX}{name}" if name in names else name, [getattr(e, name) for e in events])
        for name in OURS
    ]
    return pl.DataFrame(found)


def events_for(space: Any, events: Sequence[Event]) -> pl.DataFrame:
    """Events as a model learned from others: its columns of ids and context, and the times.

    space: the model's. Ids that cannot be of the model's types are left out, and counted.
    """
    frame = pl.DataFrame(_plain(events, space.id_columns))
    for name, known in zip(space.id_columns, (space.users, space.items)):
        frame = frame.with_columns(frame[name].cast(known.ids.dtype, strict=False))
    named = {name for event in events for name in event.context or ()}
    frame = frame.hstack([_context(events, name) for name in space.context if name in named])
    whole = frame.drop_nulls(space.id_columns)
    if len(whole) < len(frame):
        notice(
            f"{len(frame) - len(whole):,} of {len(frame):,} events have ids of another type than "
            "the model's, and are left out"
        )
    return whole


def column(name: str, values: Sequence[Any]) -> pl.Series:
    """Values of JSON as a column of one type: as they are, else as text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int}:
        return pl.Series(name, values, pl.Int64)
    if kinds <= {int, float}:
        return pl.Series(name, [None if v is None else float(v) for v in values], pl.Float64)
    if len(kinds) == 1 and kinds <= {str, bool}:
        return pl.Series(name, values)
    if kinds == {list}:
        texts = [None if v is None else [_text(one) for one in v] for v in values]
        return pl.Series(name, texts, pl.List(pl.String))
    return pl.Series(name, [None if v is None else _text(v) for v in values], pl.String)


def _plain(events: Sequence[Event], names: Sequence[str]) -> list[pl.Series]:
    """The columns of users, items and times."""
    user, item = names
    return [
        column(user, [event.user for event in events]),
        column(item, [event.item for event in events]),
        pl.Series(TIMESTAMP, [event.time for event in events], pl.Int64).cast(TIMES),
    ]


def _context(events: Sequence[Event], name: str, shown: str | None = None) -> pl.Series:
    return column(shown or name, [(event.context or {}).get(name) for event in events])


def _text(value: Any) -> str:
    return packed(value) if isinstance(value, dict) else str(value)


# What a model has not learned yet of the events that a service keeps.


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
