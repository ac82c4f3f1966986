"""Factors learned elsewhere, without the biases that stand among them in disguise."""

from __future__ import annotations

import numpy as np

from fmpair.data import Dataset


def without_constants(
    data: Dataset, users: np.ndarray, items: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(users' vectors [users, k], items' vectors [items, k], items' biases [items]), float32.

    Where all users have 1 the items have their bias. Where all items have 1 the users have
    theirs, which changes no ranking.
    """
    users, items = np.array(users, np.float32), np.array(items, np.float32)
    met = np.diff(data.seen.start) > 0  # an id without events may be all zeros
    bias_of_items = (users[met] == 1).all(axis=0)
    bias_of_users = (items[np.unique(data.item)] == 1).all(axis=0) & ~bias_of_items
    kept = ~(bias_of_items | bias_of_users)
    bias = items[:, bias_of_items].sum(axis=1)
    return np.ascontiguousarray(users[:, kept]), np.ascontiguousarray(items[:, kept]), bias
