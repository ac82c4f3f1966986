"""The demonstration: what context is worth on generated data, beside the best that is possible.

Test events are ranked in their own context against the whole catalogue. Nobody's earlier items are
left out, since in these data people truly choose again what they chose before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fmpair.data import Dataset
from fmpair.data.split import holdout
from fmpair.data.synthetic import World
from fmpair.evaluation.evaluate import evaluate
from fmpair.evaluation.protocol import Protocol
from fmpair.models.fm_pair import FMPair
from fmpair.models.popularity import Popularity
from fmpair.models.recommender import Recommender

TEST_SHARE = 0.2
METRICS = ("recall@10", "ndcg@10")


@dataclass(frozen=True)
class Trial:
    """How well one way of ranking does; values: the mean of each of METRICS.

    model: None for the oracle.
    """

    name: str
    values: tuple[float, ...]
    model: Recommender | None = None


def parts(world: World, seed: int = 0) -> tuple[Dataset, Dataset]:
    """The events to learn from and those to test on."""
    train, _, test = holdout(world.data, test=TEST_SHARE, seed=seed).parts(world.data)
    return train, test


def trials(world: World, seed: int = 0) -> Iterator[Trial]:
    """Ways to rank, from the simplest to the best possible."""
    train, test = parts(world, seed)
    blind = replace(train, context=())
    fits: list[tuple[str, Any, Dataset]] = [
        ("popularity", Popularity(), train),
        ("FM-Pair without context", FMPair(seed=seed), blind),
        ("FM-Pair with context", FMPair(seed=seed), train),
    ]
    for name, recipe, events in fits:
        model = recipe.fit(events)
        yield Trial(name, _values(model, train, test), model)

    def truth(asked: Dataset) -> np.ndarray:
        return world.scores(asked.user, asked.columns.select(asked.context))

    yield Trial("oracle", _values(truth, train, test))


def busiest_user(data: Dataset) -> int:
    """The number of the user with most events."""
    return int(np.bincount(data.user).argmax())


def _values(model: Any, train: Dataset, test: Dataset) -> tuple[float, ...]:
    judged = evaluate(model, train, test, Protocol(seen="none"), METRICS)
    return tuple(judged.means.values())
