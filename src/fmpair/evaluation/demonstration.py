"""The best that is possible on generated data: the ranking of the oracle that made them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from fmpair.data import Dataset
from fmpair.data.split import Split
from fmpair.data.synthetic import World
from fmpair.evaluation.evaluate import evaluate
from fmpair.evaluation.protocol import Protocol


def ceiling(
    world: World, splits: Sequence[Split], protocol: Protocol, metrics: Sequence[str]
) -> dict[str, float]:
    """What the true choice model reaches, on the mean over the splits."""

    def truth(asked: Dataset) -> np.ndarray:
        return world.scores(asked.user, asked.columns.select(asked.context))

    judged = [
        evaluate(
            truth, world.data.take(split.train), world.data.take(split.test), protocol, metrics
        )
        for split in splits
    ]
    return {name: fmean(one.means[name] for one in judged) for name in judged[0].means}


def busiest_user(data: Dataset) -> int:
    """The number of the user with most events."""
    return int(np.bincount(data.user).argmax())
