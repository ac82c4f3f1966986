"""Vectors of users and items as an ordinary fitted model."""

from __future__ import annotations

from typing import Any

import numpy as np

from fmpair.arrays import empty_rows
from fmpair.data import Dataset
from fmpair.engine.contract import Parameters
from fmpair.features import FeatureSpace
from fmpair.fitted.cold_start import settle_cold
from fmpair.fitted.recommender import Recommender


def folded(
    recipe: Any,
    data: Dataset,
    users: np.ndarray,
    items: np.ndarray,
    item_bias: np.ndarray | None = None,
    space: FeatureSpace | None = None,
) -> Recommender:
    """A recommender of vectors [users, k] and [items, k] whose products (plus bias) are the scores.

    space: by default that of the data, so that contexts may be asked for, and change nothing.
    """
    space = space or FeatureSpace.fit(data)
    factors = users.shape[1]
    parameters = Parameters(
        users=users.astype(np.float32),
        items=items.astype(np.float32),
        item_bias=np.zeros(len(items), np.float32) if item_bias is None else item_bias,
        query=np.zeros((space.query.size, factors), np.float32),
        features=np.zeros((space.item.size, factors), np.float32),
        feature_bias=np.zeros(space.item.size, np.float32),
    )
    return Recommender(
        space,
        settle_cold(parameters, data.seen),
        empty_rows(len(users)),
        empty_rows(len(items)),
        data.seen,
        recipe,
        data.frame_kind,
    )
