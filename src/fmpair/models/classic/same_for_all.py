"""Models that rank items the same for everyone: nothing but a constant per item."""

from __future__ import annotations

from typing import Any

import numpy as np

from fmpair.arrays import Rows, empty_rows
from fmpair.data import Dataset
from fmpair.engine.contract import Parameters
from fmpair.features import FeatureSpace
from fmpair.fitted.recommender import Recommender


def same_for_all(recipe: Any, data: Dataset, constants: np.ndarray) -> Recommender:
    """A recommender whose scores are the items' constants; contexts may be asked for."""
    nothing = np.zeros((len(constants), 0), np.float32)
    space = FeatureSpace.fit(data)
    query = np.zeros((space.query.size, 0), np.float32)
    users = empty_rows(len(data.users))
    return by_counts(recipe, data, space, (nothing, constants, query), users)


def by_counts(
    recipe: Any,
    data: Dataset,
    space: FeatureSpace,
    tables: tuple[np.ndarray, np.ndarray, np.ndarray],
    users: Rows,
) -> Recommender:
    """A recommender of items [items, values], constants [items] and query [features, values]."""
    items, constants, query = tables
    values = items.shape[1]
    parameters = Parameters(
        users=np.zeros((len(data.users), values), np.float32),
        items=items,
        item_bias=constants.astype(np.float32),
        query=query,
        features=np.zeros((space.item.size, values), np.float32),
        feature_bias=np.zeros(space.item.size, np.float32),
    )
    nothing = empty_rows(len(data.items))
    return Recommender(space, parameters, users, nothing, data.seen, recipe, data.frame_kind)
