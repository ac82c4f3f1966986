"""The features of a side grouped by field, with how often each occurs."""

from __future__ import annotations

import numpy as np

from fmpair.arrays import Rows, distinct_pairs, tally
from fmpair.engine.contract import Groups
from fmpair.features import Side
from fmpair.features.history import HISTORY

ONE_HOT = ("categorical", "binned")
SAMPLE = 200_000  # events enough to tell whether a value belongs to a few users or to many
ITEM_SHARING = 0.5  # at 0 attributes drown the items' own vectors, at 1 a new item learns too late


def query_groups(
    side: Side,
    profiles: Rows,
    user: np.ndarray,
    contexts: Rows,
    situation: np.ndarray,
    sharing: float | None = None,
) -> Groups:
    """Fields of the query side; those with one value a row are held to mean zero.

    A field then says how a situation differs from the average one. Otherwise its vectors share a
    part that every query has, a second popularity that no item bias holds in check; and leaving
    the field out of a question would mean something else than not knowing it.
    """
    times = _times(profiles, user, side.size) + _times(contexts, situation, side.size)
    before = np.array([e.role == HISTORY for e in side.encoders], bool)
    one_hot = np.array([e.field.kind in ONE_HOT for e in side.encoders], bool) & ~before
    met = _meetings(contexts, situation, user, profiles.size)
    owners = np.bincount(profiles.column, minlength=side.size)
    owners = owners + np.bincount(met.column, minlength=side.size)
    own = loyalty(met, side.field_numbers(), len(side.encoders))
    own[np.unique(side.field_numbers()[profiles.column])] = 1.0  # a user's attributes never change
    powers = own if sharing is None else np.full(len(own), sharing)
    # what came before stands for users too, but it is their own doing, and must be learned in full
    return _groups(side, times, owners, one_hot, np.where(before, 0.0, powers))


def item_groups(side: Side, rows: Rows, item: np.ndarray, sharing: float | None = None) -> Groups:
    """Fields of the item side: what all items share cancels in a pair, so none need be centred."""
    owners = np.bincount(rows.column, minlength=side.size)
    none = np.zeros(len(side.encoders), bool)
    powers = np.full(len(none), ITEM_SHARING if sharing is None else sharing)
    return _groups(side, _times(rows, item, side.size), owners, none, powers)


def loyalty(met: Rows, field: np.ndarray, fields: int) -> np.ndarray:
    """float64 [fields]: how far a field's values stand for users.

    met: by user, the values of their events, each with its number of times. Two events of one user
    have the same value with chance p, any two with chance q: (p - q) / (1 - q), so 0 for a context
    that changes freely and 1 for one that names the user's group. Events are learned from user by
    user, and what stands for users would follow the one at work.
    """
    times, value_field = met.value.astype(np.float64), field[met.column]
    of_user = met.owner.astype(np.int64) * fields + value_field
    whole = np.bincount(of_user, times, minlength=met.size * fields)
    others = whole[of_user] - 1
    able = others > 0
    agree = np.bincount(value_field[able], (times * (times - 1))[able] / others[able], fields)
    within = agree / np.maximum(np.bincount(value_field[able], times[able], fields), 1)
    events = np.bincount(met.column, times, len(field))
    share = events / np.maximum(np.bincount(field, events, fields), 1)[field]
    chance = np.bincount(field, share**2, fields)
    return np.clip((within - chance) / np.maximum(1 - chance, 1e-9), 0.0, 1.0)


def _groups(
    side: Side, times: np.ndarray, owners: np.ndarray, centred: np.ndarray, sharing: np.ndarray
) -> Groups:
    """centred, sharing: by field; times, owners: by feature."""
    field, fields = side.field_numbers(), len(side.encoders)
    total = np.bincount(field, weights=times, minlength=fields)[field]
    share = times / np.maximum(total, 1)
    usual = np.bincount(field, weights=share * owners, minlength=fields)
    powers = sharing[field].astype(np.float32)
    shares, owned = share.astype(np.float32), usual[field].astype(np.float32)
    return Groups(field, shares, owned, powers, centred[field])


def _meetings(contexts: Rows, situation: np.ndarray, user: np.ndarray, users: int) -> Rows:
    """By user, the context values of a sample of their events, each with its number of times."""
    every = slice(None, None, max(len(user) // SAMPLE, 1))
    rows = contexts.take(situation[every])
    return distinct_pairs(user[every][rows.owner], rows.column, users)


def _times(rows: Rows, number: np.ndarray, size: int) -> np.ndarray:
    """In how many events each feature occurs, given each event's row number: float64 [size]."""
    events = tally(number, rows.size)
    return np.bincount(rows.column, weights=events[rows.owner], minlength=size)
