"""What came before each event, for an engine, and what a fitted model keeps of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from fmpair.arrays import Rows
from fmpair.data import Dataset
from fmpair.data.parts import time_lines
from fmpair.data.timelines import Timelines, strictly_before, timelines
from fmpair.engine.contract import History
from fmpair.errors import DataError, unknown
from fmpair.features import FeatureSpace, Field
from fmpair.features.field import duration
from fmpair.features.history import history_weights
from fmpair.fitted.extension import moments_after
from fmpair.fitted.recent import Recent, latest, most_recent, remembers


class Past(NamedTuple):
    """Time lines of events to learn from, and of older ones, which come first in their numbers.

    older: how many these are. session: int64 [places], or empty where histories reach over all.
    """

    lines: Timelines
    older: int
    session: np.ndarray


def past_of(space: FeatureSpace, data: Dataset, recent: Recent | None = None) -> Past | None:
    """The time lines of the data's users, by the numbers of its vocabulary; None if not asked for.

    recent: what a fitted model knows of them already, which comes before what is not dated.
    """
    if not remembers(space):
        return None
    if recent is None:
        lines, older = time_lines(data), 0
    else:
        older = len(recent.item)
        user = np.concatenate([recent.owner.astype(np.int32), data.user])
        item = np.concatenate([recent.item, data.item])
        moment = np.concatenate([recent.moment, moments_after(recent, data)])
        lines = timelines(user, item, len(data.users), moment)
    return Past(lines, older, _sessions(space.history, data, lines, older))


def history_of(
    space: FeatureSpace, past: Past | None, item_rows: Rows, events: int
) -> History | None:
    """What an engine is told; events: how many there are to learn from and to know of.

    Those beyond the data's have no history.
    """
    field = space.history
    if field is None or past is None:
        return None
    lines = past.lines
    until = strictly_before(lines)
    since = _since(field, past, until)
    mine = lines.place[past.older :]

    def by_event(places: np.ndarray) -> np.ndarray:
        out = np.zeros(events, np.int32)
        out[: len(mine)] = places[mine]
        return out

    return History(
        lines.start,
        lines.item,
        by_event(until),
        by_event(since) if len(since) else since,
        history_weights(field),
        space.earlier_items(item_rows),
        field.shared,
    )


def kept(space: FeatureSpace, past: Past | None) -> Recent | None:
    """What a fitted model keeps: of each user the latest events, of the last session only."""
    if past is None:
        return None
    last = most_recent(space)
    if not len(past.session):
        return latest(past.lines, last)
    start, session = past.lines.start, past.session
    final = np.repeat(session[np.maximum(start[1:] - 1, 0)], np.diff(start))
    other = np.where(session != final, np.arange(1, len(session) + 1), 0)
    behind = np.zeros(len(start) - 1, np.int64)
    np.maximum.at(behind, np.repeat(np.arange(len(behind)), np.diff(start)), other)
    return latest(past.lines, last, np.maximum(behind, start[:-1]))


def _since(field: Field, past: Past, until: np.ndarray) -> np.ndarray:
    """int32 [places]: the first place that the event at each may look at; empty for the first."""
    if field.within is None and not len(past.session):
        return np.zeros(0, np.int32)
    lines, place = past.lines, np.arange(len(until))
    first = np.repeat(lines.start[:-1], np.diff(lines.start))
    since, going = until.astype(np.int64), np.ones(len(until), bool)
    for back in range(1, field.last + 1):  # no farther is looked anyhow
        at = np.maximum(until - back, 0)
        going &= until - back >= first
        if field.within is not None:
            going &= lines.moment[at] >= lines.moment - duration(field.within)
        if len(past.session):
            going &= past.session[at] == past.session[place]
        since = np.where(going, until - back, since)
    return since.astype(np.int32)


def _sessions(field: Field | None, data: Dataset, lines: Timelines, older: int) -> np.ndarray:
    """int64 [places]: the session of each; older events are of none that goes on."""
    if field is None or field.per is None:
        return np.zeros(0, np.int64)
    if field.per not in data.columns.columns:
        raise DataError(unknown("column for sessions", field.per, data.columns.columns))
    number = data.columns[field.per].cast(pl.String).fill_null("").rank("dense").to_numpy()
    return np.concatenate([np.full(older, -1), number.astype(np.int64)])[lines.event]
