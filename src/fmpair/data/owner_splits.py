"""Splits by owner: within each user's history, and of whole users or items for cold starts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fmpair.data.dataset import Dataset
from fmpair.data.parts import Split, by_time_order, check_shares, split_of
from fmpair.errors import DataError, OptionError

ORDERS = ("random", "time")

# Splits within each user's history: a share of it, its last events, or random ones.


class Histories(NamedTuple):
    """All rows, grouped by owner (user or item); int64 [events] each.

    row: the row; later: number of rows of the same owner after it; events: number of rows of the
    owner.
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
    """Take a share of each user's events for testing, and one for validation.

    order: 'random', or 'time' for each user's latest; the seed orders events with the same time.
    Shares are rounded, and at least one event of every user stays in training.
    """
    check_shares(test, validation)
    if order not in ORDERS:
        raise OptionError(f"order must be one of {', '.join(ORDERS)}, not {order!r}")
    rows = by_time_order(data, seed) if order == "time" else shuffled(data, seed)
    by_user = histories(data.user, rows)
    tested = np.minimum(np.rint(test * by_user.events), by_user.events - 1)
    validated = np.minimum(np.rint(validation * by_user.events), by_user.events - 1 - tested)
    if not tested.any():
        raise DataError(f"no user has enough events for a test share of {test}")
    return _last(by_user, tested, validated)


def leave_last_out(data: Dataset, count: int = 1, validation: int = 0, seed: int = 0) -> Split:
    """Take each user's latest `count` events for testing, and the `validation` before them.

    Users with no more than count + validation events are in the training part only. The seed
    orders events with the same time, since the order of rows may follow the rating or the item.
    """
    return _leave(data, by_time_order(data, seed), count, validation)


def leave_out(data: Dataset, count: int = 1, validation: int = 0, seed: int = 0) -> Split:
    """Take `count` random events of each user for testing, and `validation` others.

    Users with no more than count + validation events are in the training part only.
    """
    return _leave(data, shuffled(data, seed), count, validation)


def histories(owner: np.ndarray, order: np.ndarray) -> Histories:
    """Group rows by owner, each owner's in the given order."""
    row = order[np.argsort(owner[order], kind="stable")]
    owners = owner[row]
    counts = np.bincount(owners)
    later = np.cumsum(counts)[owners] - 1 - np.arange(len(owners))
    return Histories(row, later, counts[owners])


def shuffled(data: Dataset, seed: int) -> np.ndarray:
    """int64 [events]: all rows in random order."""
    return np.random.default_rng(seed).permutation(len(data))


def _leave(data: Dataset, order: np.ndarray, count: int, validation: int) -> Split:
    if count < 1 or validation < 0:
        raise OptionError(
            f"count must be 1 or more and validation 0 or more, not {count} and {validation}"
        )
    by_user = histories(data.user, order)
    enough = by_user.events > count + validation
    return _last(by_user, enough * count, enough * validation)


def _last(by_user: Histories, tested: np.ndarray, validated: np.ndarray) -> Split:
    """Return a Split with each user's last `tested` rows, and the `validated` before them."""
    test = by_user.later < tested
    validation = ~test & (by_user.later < tested + validated)
    row = by_user.row
    return split_of(row[~test & ~validation], row[validation], row[test])


# Cold-start splits: test users or items with few training events, or none.


def cold_users(
    data: Dataset, test: float = 0.2, validation: float = 0.0, seed: int = 0, given: int = 0
) -> Split:
    """Take all events of a random share of the users for testing, and of others for validation.

    given: how many of such a user's first events stay in training (the oldest, ties at random; in
    row order without times); users with no more events than that are in the training part only.
    """
    return _cold(data, data.user, "users", (test, validation), seed, given)


def cold_items(
    data: Dataset,
    test: float = 0.2,
    validation: float = 0.0,
    seed: int = 0,
    given: int = 0,
    warm: float = 0.0,
) -> Split:
    """Take all events of a random share of the items for testing, and of others for validation.

    given: how many first events of such an item stay in training.
    warm: a share of the other items' events, which is tested too (and validated, if there is a
    validation part), so that warm and cold items can be compared.
    """
    split = _cold(data, data.item, "items", (test, validation), seed, given)
    if not warm:
        return split
    if not 0 < warm < 0.5:
        raise OptionError(f"warm must be from 0 to below 0.5, not {warm}")
    cold = data.item[np.append(split.test, split.validation)]
    rest = split.train[~np.isin(data.item[split.train], cold)]
    mixed = np.random.default_rng((seed, 1)).permutation(rest)
    tested, validated = (round(warm * len(rest) * (share > 0)) for share in (test, validation))
    new_test, new_validation, _ = np.split(mixed, [tested, tested + validated])
    train = np.setdiff1d(split.train, mixed[: tested + validated])
    validation_rows = np.append(split.validation, new_validation)
    return split_of(train, validation_rows, np.append(split.test, new_test))


def _cold(
    data: Dataset, owner: np.ndarray, what: str, shares: tuple[float, float], seed: int, given: int
) -> Split:
    test, validation = shares
    check_shares(test, validation)
    if given < 0:
        raise OptionError(f"given must be 0 or more, not {given}")
    counts = np.bincount(owner)
    able = np.random.default_rng(seed).permutation(np.flatnonzero(counts > given))
    tested, validated = (round(share * (counts > 0).sum()) for share in shares)
    # if they keep no events in training, one must be left to train on
    if not tested or tested + validated > len(able) - (given == 0):
        raise DataError(
            f"{len(able)} {what} with more than {given} events are too few to test {tested} and "
            f"validate {validated} of them"
        )
    part_of = np.zeros(len(counts), np.int8)
    part_of[able[:tested]] = 2
    part_of[able[tested : tested + validated]] = 1
    timed = "timestamp" in data.columns.columns
    grouped = histories(owner, by_time_order(data, seed) if timed else np.arange(len(data)))
    earlier = grouped.events - 1 - grouped.later
    part = np.where(earlier < given, 0, part_of[owner[grouped.row]])
    return split_of(*(grouped.row[part == number] for number in range(3)))
