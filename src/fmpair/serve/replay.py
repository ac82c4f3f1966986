"""What happened since a model was fitted: told to it when it is loaded, and as it comes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fmpair.events.event import Event
from fmpair.events.store import EventStore, pages
from fmpair.fitted.live import in_service, take_in
from fmpair.models.saved import Model
from fmpair.serve.newcomers import Newcomers


def replayed(
    model: Model, store: EventStore | None, newcomers: Newcomers, position: int
) -> tuple[Model, int]:
    """(the model with all events after a position known, the last position)."""
    parts = [_numbers(model, [], newcomers)]
    for events in () if store is None else pages(store.after, position):
        parts.append(_numbers(model, events, newcomers))
        position = events[-1].position
    return in_service(model, *map(np.concatenate, zip(*parts))), position


def told(model: Model, events: Sequence[Event], newcomers: Newcomers) -> Model:
    """The model with a few further events known."""
    return take_in(model, *_numbers(model, events, newcomers))


def _numbers(
    model: Model, events: Sequence[Event], newcomers: Newcomers
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(user, item, moment) of the events whose user and item the model knows."""
    user = model.known.users.numbers([event.user for event in events])
    item = model.known.items.numbers([event.item for event in events])
    moment = np.array([event.time for event in events], np.int64)
    for place in np.flatnonzero(user < 0).tolist():
        event = events[place]
        newcomers.add(event.user, event.item, event.time)
    known = (user >= 0) & (item >= 0)
    return user[known], item[known], moment[known]
