"""Stored events and changes of items as frames: to export them, or to learn from them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from fmpair.data.event_types import is_refund_type
from fmpair.errors import DataError, notice
from fmpair.events.event import Event, context_json, now
from fmpair.events.store import EventStore, pages
from fmpair.features.field import duration
from fmpair.fitted.file import checksum_of

TIMESTAMP = "timestamp"
SERVICE_COLUMNS = ("arm", "model", "position")
EVENT_TYPE = "event_type"
PREFIX = "fmpair_"  # for service columns whose name is also a context column


def frame_of(store: EventStore, after: int = 0) -> pl.DataFrame:
    """Return (user, item, timestamp, context columns, arm, model, position) of all events.

    If any event has them, the columns event_type and value precede arm.
    """
    events: list[Event] = [event for page in pages(store.after, after) for event in page]
    names = sorted({name for event in events for name in event.context or ()})
    columns = _basic_columns(events, ("user", "item"))
    for name in names:
        taken = name in ("user", "item", TIMESTAMP)
        columns.append(_context_column(events, name, f"context.{name}" if taken else name))
    values: dict[str, list[Any]] = {
        EVENT_TYPE: [event.event for event in events],
        "value": [event.value for event in events],
    }
    values = {
        name: column_values
        for name, column_values in values.items()
        if any(value is not None for value in column_values)
    }
    values |= {name: [getattr(event, name) for event in events] for name in SERVICE_COLUMNS}
    for name, column_values in values.items():
        columns.append(column(f"{PREFIX}{name}" if name in names else name, column_values))
    return pl.DataFrame(columns)


class UnlearnedEvents(NamedTuple):
    """Events with the columns of a model; their positions are in (after, last]."""

    events: pl.DataFrame
    after: int
    last: int


def unlearned_events(
    store: EventStore, file: str | Path, model: Any, after: int | None = None
) -> UnlearnedEvents:
    """Return the events that the model of a file has not learned.

    model: the fitted model. after: overrides the stored position to start after.
    """
    start = store.learned(checksum_of(file)) if after is None else after
    events = [event for page in pages(store.after, start) for event in page]
    if not events:
        raise DataError(f"no events after position {start:,}: nothing new to learn")
    chosen = [event for event in events if not is_refund(event, model.space)]
    if not chosen:
        raise DataError(
            f"all {len(events):,} events after position {start:,} are refunds: nothing new to learn"
        )
    if len(chosen) < len(events):
        notice(f"left out {len(events) - len(chosen):,} of {len(events):,} events that are refunds")
    frame = events_for(model.space, chosen, model.recipe)
    return UnlearnedEvents(frame, start, events[-1].position)


def is_refund(event: Any, space: Any) -> bool:
    """Return whether an event is a refund by its type or value, and the model leaves these out."""
    if space.refunds.choice == "keep":
        return False
    return (event.event is not None and is_refund_type(event.event)) or (event.value or 0) < 0


def mark_learned(store: EventStore, file: str | Path, new: UnlearnedEvents) -> None:
    """Store the position up to which the model of a new file has learned."""
    store.remember(checksum_of(file), new.last)


def events_for(space: Any, events: Sequence[Event], recipe: Any = None) -> pl.DataFrame:
    """Return events with the id and context columns of a model's `space`, and their times.

    Models with event weights or levels (of the recipe) also get the event types. Events whose ids
    do not fit the model's id types are dropped with a notice.
    """
    frame = pl.DataFrame(_basic_columns(events, space.id_columns))
    for name, known in zip(space.id_columns, (space.users, space.items)):
        frame = frame.with_columns(frame[name].cast(known.ids.dtype, strict=False))
    names = {name for event in events for name in event.context or ()}
    frame = frame.hstack([_context_column(events, name) for name in space.context if name in names])
    types = event_types_of(space, recipe)
    if types is not None and any(event.event is not None for event in events):
        frame = frame.with_columns(_type_column(events, types))
    usable = frame.drop_nulls(space.id_columns)
    if len(usable) < len(frame):
        notice(
            f"dropped {len(frame) - len(usable):,} of {len(frame):,} events: their ids have "
            "another type than the model's"
        )
    return usable


class EventTypes(NamedTuple):
    """The event types that a model knows. column: of types in its events.

    weakest: the weakest one that counts, as which events of other types or without one count.
    """

    column: str
    names: tuple[str, ...]
    weakest: str


def event_types_of(space: Any, recipe: Any) -> EventTypes | None:
    """Return the event types of a model with event weights or levels, None for others."""
    if space.event_weights is not None:
        column, weights = space.event_weights
        counting = [entry for entry in weights if entry[1] > 0]
        weakest = min(counting, key=itemgetter(1))[0]
        return EventTypes(column, tuple(kind for kind, _ in weights), weakest)
    levels = getattr(recipe, "levels", None)
    if levels is None:
        return None
    names = tuple(str(level) for level in levels)
    return EventTypes(getattr(recipe, "level", None) or EVENT_TYPE, names, names[0])


def _type_column(events: Sequence[Event], known: EventTypes) -> pl.Series:
    """Return the types of events; others than the known ones count as the weakest of these."""
    wanted = set(known.names)
    other = sum(event.event not in wanted for event in events)
    if other:
        notice(
            f"{other:,} of {len(events):,} events have no type, or one that the model was not "
            f"fitted with: they count as {known.weakest!r}"
        )
    types = [event.event if event.event in wanted else known.weakest for event in events]
    return pl.Series(known.column, types, pl.String)


def shown_lists(store: EventStore, within: str) -> pl.DataFrame:
    """Return (user, item) of all lists that users were shown within a time such as 7d."""
    since = now() - duration(within, "exclude_shown")
    pairs = {
        (shown.user, item)
        for page in pages(store.impressions)
        for shown in page
        if shown.time >= since
        for item in shown.items
    }
    users, items = zip(*pairs) if pairs else ((), ())
    return pl.DataFrame([column("user", users), column("item", items)])


def column(name: str, values: Sequence[Any]) -> pl.Series:
    """Return JSON values as a column of their common type, else of text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int}:
        return pl.Series(name, values, pl.Int64)
    if kinds <= {int, float}:
        return pl.Series(name, [None if v is None else float(v) for v in values], pl.Float64)
    if len(kinds) == 1 and kinds <= {str, bool}:
        return pl.Series(name, values)
    if kinds == {list}:
        texts = [None if v is None else [_text(part) for part in v] for v in values]
        return pl.Series(name, texts, pl.List(pl.String))
    return pl.Series(name, [None if v is None else _text(v) for v in values], pl.String)


def _basic_columns(events: Sequence[Event], id_columns: Sequence[str]) -> list[pl.Series]:
    user, item = id_columns
    times = pl.Series(TIMESTAMP, [event.time for event in events], pl.Int64)
    return [
        column(user, [event.user for event in events]),
        column(item, [event.item for event in events]),
        times.cast(pl.Datetime("us")),
    ]


def _context_column(events: Sequence[Event], name: str, shown: str | None = None) -> pl.Series:
    return column(shown or name, [(event.context or {}).get(name) for event in events])


def _text(value: Any) -> str:
    return context_json(value) if isinstance(value, dict) else str(value)
