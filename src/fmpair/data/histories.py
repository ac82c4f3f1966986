"""Splits within each user's history: a share of it, its last events, or some at random."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fmpair.data.dataset import Dataset
from fmpair.data.parts import Split, by_time_order, check_shares, split_of
from fmpair.errors import DataError, OptionError

ORDERS = ("random", "time")


class Histories(NamedTuple):
    """All rows, those of one user together; int64 [events] each.

    row: the rows; later: how many of the owner's rows come after this one; events: how many rows
    the owner has.
    """

    row: np.ndarray
    later: np.ndarray
    events: np.ndarray


def per_user(
    data: Dataset,
    test: float = 0.2,
    validation: float = 0.0,
    seed: int = 0,
    order: str = "random",
) -> Split:
    """A share of each user's events for testing, and one for validation.

    order: 'random', or 'time' for each user's latest, where the order of events of one time is
    drawn by the seed. Shares are rounded, and at least one event of every user stays in training;
    so a user with one event is in the training set only.
    """
    check_shares(test, validation)
    if order not in ORDERS:
        raise OptionError(f"order must be one of {', '.join(ORDERS)}, not {order!r}")
    own = histories(
        data.user, by_time_order(data, seed) if order == "time" else shuffled(data, seed)
    )
    tested = np.minimum(np.rint(test * own.events), own.events - 1)
    validated = np.minimum(np.rint(validation * own.events), own.events - 1 - tested)
    if not tested.any():
        raise DataError(f"no user has enough events to set aside {test} of them for testing")
    return _last(own, tested, validated)


def leave_last_out(data: Dataset, count: int = 1, validation: int = 0, seed: int = 0) -> Split:
    """Each user's latest `count` events for testing, and the `validation` before them.

    A user with no more than count + validation events is in the training set only. Which of
    several events of one time is the later is drawn by the seed: the order of rows may follow
    the rating or the item.
    """
    return _leave(data, by_time_order(data, seed), count, validation)


def leave_out(data: Dataset, count: int = 1, validation: int = 0, seed: int = 0) -> Split:
    """`count` random events of each user for testing, and `validation` others.

    A user with no more than count + validation events is in the training set only.
    """
    return _leave(data, shuffled(data, seed), count, validation)


def histories(owner: np.ndarray, order: np.ndarray) -> Histories:
    """The rows by owner, each owner's in the given order."""
    row = order[np.argsort(owner[order], kind="stable")]
    own = owner[row]
    times = np.bincount(own)
    return Histories(row, np.cumsum(times)[own] - 1 - np.arange(len(own)), times[own])


def shuffled(data: Dataset, seed: int) -> np.ndarray:
    """int64 [events]: all rows in random order."""
    return np.random.default_rng(seed).permutation(len(data))


def _leave(data: Dataset, order: np.ndarray, count: int, validation: int) -> Split:
    if count < 1 or validation < 0:
        raise OptionError(
            f"count must be 1 or more and validation 0 or more, not {count} and {validation}"
        )
    own = histories(data.user, order)
    enough = own.events > count + validation
    return _last(own, enough * count, enough * validation)


def _last(own: Histories, tested: np.ndarray, validated: np.ndarray) -> Split:
    """Each owner's last `tested` rows test, the `validated` before them validate."""
    test = own.later < tested
    validation = ~test & (own.later < tested + validated)
    return split_of(own.row[~test & ~validation], own.row[validation], own.row[test])
