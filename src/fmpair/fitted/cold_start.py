"""Users and items without events: what stands in for all that was not learned about them."""

from __future__ import annotations

import numpy as np

from fmpair.arrays import Rows, tally
from fmpair.engine.contract import Parameters

RARE = 0.1  # share of the items with events that are taken for rare ones, by their events


def mean_user(users: np.ndarray, seen: Rows) -> np.ndarray:
    """float32 [factors]: the mean vector of users with events, the best guess for one unknown."""
    known = np.diff(seen.start) > 0
    return users[known].mean(axis=0) if known.any() else np.zeros(users.shape[1], np.float32)


def settle_cold(parameters: Parameters, seen: Rows) -> Parameters:
    """Ids never learned from: users get the mean user's vector, items none and a rare one's bias.

    Otherwise an item nobody chose would stand above known ones by chance. Changed in place.
    """
    times = tally(seen.column, len(parameters.items), seen.value)
    cold, warm = times == 0, times > 0
    absent = np.diff(seen.start) == 0
    parameters.users[absent] = mean_user(parameters.users, seen)
    if cold.any() and warm.any():
        rare = warm & (times <= np.quantile(times[warm], RARE))
        parameters.items[cold] = 0
        parameters.item_bias[cold] = parameters.item_bias[rare].mean()
    return parameters
