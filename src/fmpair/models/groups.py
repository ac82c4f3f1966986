"""The features of a side grouped by field, with how often each occurs."""

from __future__ import annotations

import numpy as np

from fmpair.arrays import Rows, tally
from fmpair.engine.problem import Groups
from fmpair.features import Side

ONE_HOT = ("categorical", "binned")
SAMPLE = 200_000  # events enough to tell whether a value belongs to a few users or to many


def query_groups(
    side: Side, profiles: Rows, user: np.ndarray, contexts: Rows, situation: np.ndarray
) -> Groups:
    """Fields of the query side; those with one value a row are held to mean zero.

    A field then says how a situation differs from the average one. Otherwise its vectors share a
    part that every query has, a second popularity that no item bias holds in check; and leaving
    the field out of a question would mean something else than not knowing it.
    """
    times = _times(profiles, user, side.size) + _times(contexts, situation, side.size)
    one_hot = np.array([e.field.kind in ONE_HOT for e in side.encoders], bool)
    owners = np.bincount(profiles.column, minlength=side.size)
    owners = owners + _distinct_users(contexts, situation, user, side.size)
    return _groups(side, times, owners, one_hot)


def item_groups(side: Side, rows: Rows, item: np.ndarray) -> Groups:
    """Fields of the item side: what all items share cancels in a pair, so none need be centred."""
    owners = np.bincount(rows.column, minlength=side.size)
    none = np.zeros(len(side.encoders), bool)
    return _groups(side, _times(rows, item, side.size), owners, none)


def _groups(side: Side, times: np.ndarray, owners: np.ndarray, centred: np.ndarray) -> Groups:
    field, fields = side.field_numbers(), len(side.encoders)
    total = np.bincount(field, weights=times, minlength=fields)[field]
    share = times / np.maximum(total, 1)
    usual = np.bincount(field, weights=share * owners, minlength=fields)
    return Groups(field, share.astype(np.float32), usual[field].astype(np.float32), centred[field])


def _distinct_users(
    contexts: Rows, situation: np.ndarray, user: np.ndarray, size: int
) -> np.ndarray:
    """How many users each context value occurs with, among a sample of the events: [size]."""
    every = slice(None, None, max(len(user) // SAMPLE, 1))
    rows = contexts.take(situation[every])
    pairs = np.unique(rows.column.astype(np.int64) << 32 | user[every][rows.owner])
    return np.bincount(pairs >> 32, minlength=size)


def _times(rows: Rows, number: np.ndarray, size: int) -> np.ndarray:
    """In how many events each feature occurs, given each event's row number: float64 [size]."""
    events = tally(number, rows.size)
    return np.bincount(rows.column, weights=events[rows.owner], minlength=size)
