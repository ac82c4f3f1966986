"""Cold-start splits: test users or items with few training events, or none."""

from __future__ import annotations

import numpy as np

from fmpair.data.dataset import Dataset
from fmpair.data.histories import histories
from fmpair.data.parts import Split, by_time_order, check_shares, split_of
from fmpair.errors import DataError, OptionError


def cold_users(
    data: Dataset, test: float = 0.2, validation: float = 0.0, seed: int = 0, given: int = 0
) -> Split:
    """All events of a random share of the users for testing, and of others for validation.

    given: how many of such a user's first events (by time, ties by the seed, else by row) stay in
    training; users with no more events than that are in the training set only.
    """
    return _cold(data, data.user, "users", (test, validation), seed, given)


def cold_items(
    data: Dataset, test: float = 0.2, validation: float = 0.0, seed: int = 0, given: int = 0
) -> Split:
    """The same for items: test items have their first `given` events in training, or none."""
    return _cold(data, data.item, "items", (test, validation), seed, given)


def _cold(
    data: Dataset, owner: np.ndarray, what: str, shares: tuple[float, float], seed: int, given: int
) -> Split:
    test, validation = shares
    check_shares(test, validation)
    if given < 0:
        raise OptionError(f"given must be 0 or more, not {given}")
    times = np.bincount(owner)
    able = np.random.default_rng(seed).permutation(np.flatnonzero(times > given))
    tested, validated = (round(share * (times > 0).sum()) for share in shares)
    if not tested or tested + validated > len(able) - (given == 0):
        raise DataError(
            f"{len(able)} {what} with more than {given} events are too few to test {tested} and "
            f"validate {validated} of them"
        )
    part = np.zeros(len(times), np.int8)
    part[able[:tested]] = 2
    part[able[tested : tested + validated]] = 1
    timed = "timestamp" in data.columns.columns
    own = histories(owner, by_time_order(data, seed) if timed else np.arange(len(data)))
    place = own.events - 1 - own.later
    of = np.where(place < given, 0, part[owner[own.row]])
    return split_of(*(own.row[of == number] for number in range(3)))
