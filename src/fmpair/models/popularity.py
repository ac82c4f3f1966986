"""The most popular items first: the yardstick every model must beat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fmpair.arrays import empty_rows
from fmpair.data import as_dataset
from fmpair.engine.problem import Parameters
from fmpair.features import FeatureSpace
from fmpair.models.recommender import Recommender


@dataclass(frozen=True)
class Popularity:
    """Ranks items by the number of their events, the same for everyone."""

    def fit(self, data: Any) -> Recommender:
        """A recommender without vectors, whose item constants are the counts."""
        events = as_dataset(data)
        users, items = len(events.users), len(events.items)
        times = np.bincount(events.item, minlength=items).astype(np.float32)
        space = FeatureSpace.fit(events)  # so that contexts may be asked for, and change nothing
        parameters = Parameters(
            users=_no_vectors(users),
            items=_no_vectors(items),
            item_bias=times,
            query=_no_vectors(space.query.size),
            features=_no_vectors(space.item.size),
            feature_bias=np.zeros(space.item.size, np.float32),
        )
        return Recommender(
            space, parameters, empty_rows(users), empty_rows(items), events.seen, self,
            events.frame_kind,
        )  # fmt: skip

    def options(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Popularity:
        return cls(**options)


def _no_vectors(rows: int) -> np.ndarray:
    return np.zeros((rows, 0), np.float32)
