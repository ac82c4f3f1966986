"""Damping: how much of what popularity adds to the scores is taken off when items are ranked."""

from __future__ import annotations

import numpy as np


def popular_part(usual: np.ndarray, times: np.ndarray) -> np.ndarray:
    """float32 [items]: what popularity adds to the scores, 0 for an item of mean popularity.

    usual: the items' mean scores over all users; times: how many events each has, both [items].
    It is the straight line through the usual scores over ln(times), by least squares: popularity
    sits in vectors as much as in biases, and where cosines are scored in vectors alone. An item
    without events is on no line: of its score all that users have in common is taken for it,
    or it would rise above everything that anyone ever chose.
    """
    warm = times > 0
    if not warm.any() or times[warm].min() == times[warm].max():
        return np.zeros(len(times), np.float32)  # all are equally popular
    popularity, score = np.log(times[warm]), usual[warm].astype(np.float64)
    apart = popularity - popularity.mean()
    slope = apart @ (score - score.mean()) / (apart @ apart)
    if slope <= 0:  # learned against popular items, which nothing favours then
        return np.zeros(len(times), np.float32)
    part = usual - score.mean()
    part[warm] = slope * apart
    return part.astype(np.float32)
