"""The features of a side grouped by field, with how often each occurs."""

from __future__ import annotations

import numpy as np

from fmpair.arrays import Rows
from fmpair.engine.problem import Groups
from fmpair.features import Side

ONE_HOT = ("categorical", "binned")


def query_groups(
    side: Side, profiles: Rows, user: np.ndarray, contexts: Rows, situation: np.ndarray
) -> Groups:
    """Fields of the query side; those with one value a row are held to mean zero.

    A field then says how a situation differs from the average one. Otherwise its vectors share a
    part that every query has, a second popularity that no item bias holds in check; and leaving
    the field out of a question would mean something else than not knowing it.
    """
    times = _times(profiles, user, side.size) + _times(contexts, situation, side.size)
    return _groups(side, times, np.array([e.field.kind in ONE_HOT for e in side.encoders], bool))


def item_groups(side: Side, rows: Rows, item: np.ndarray) -> Groups:
    """Fields of the item side: what all items share cancels in a pair, so none need be centred."""
    return _groups(side, _times(rows, item, side.size), np.zeros(len(side.encoders), bool))


def _groups(side: Side, times: np.ndarray, centred: np.ndarray) -> Groups:
    field = side.field_numbers()
    total = np.bincount(field, weights=times, minlength=len(side.encoders))[field]
    return Groups(field, (times / np.maximum(total, 1)).astype(np.float32), centred[field])


def _times(rows: Rows, number: np.ndarray, size: int) -> np.ndarray:
    """In how many events each feature occurs, given each event's row number: float64 [size]."""
    events = np.bincount(number, minlength=rows.size)
    return np.bincount(rows.column, weights=events[rows.owner], minlength=size)
