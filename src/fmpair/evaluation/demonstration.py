"""The demonstration: what context is worth on generated data, beside the best that is possible.

Test events are ranked in their own context against the whole catalogue. Nobody's earlier items are
left out, since in these data people truly choose again what they chose before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fmpair.arrays import empty_rows
from fmpair.data import Dataset
from fmpair.data.split import holdout
from fmpair.data.synthetic import World
from fmpair.metrics import Metric
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
    recipe = FMPair(seed=seed)
    yield _judged("popularity", Popularity().fit(train), test)
    yield _judged("FM-Pair without context", recipe.fit(replace(train, context=())), test)
    yield _judged("FM-Pair with context", recipe.fit(train), test)
    yield Trial("oracle", _means(_oracle_ranks(world, test)))


def busiest_user(data: Dataset) -> int:
    """The number of the user with most events."""
    return int(np.bincount(data.user).argmax())


def _judged(name: str, model: Recommender, test: Dataset) -> Trial:
    from fmpair.engine.ranking import ranks

    queries = model.query_vectors(test.frame().select("user", *model.space.context))
    nothing = empty_rows(len(test))
    above, level = ranks(queries, model.item_vectors, model.item_constants, nothing, test.item)
    return Trial(name, _means(1 + above + level / 2), model)


def _oracle_ranks(world: World, test: Dataset) -> np.ndarray:
    """float64 [events]: the rank of each test event's item by its true probability."""
    scores = world.scores(test.user, test.columns.select(test.context))
    own = np.take_along_axis(scores, test.item[:, None].astype(np.int64), axis=1)
    level = (scores == own).sum(axis=1) - 1  # the item itself is not beside itself
    return 1 + (scores > own).sum(axis=1) + level / 2


def _means(rank: np.ndarray) -> tuple[float, ...]:
    return tuple(float(Metric.parse(metric).values(rank).mean()) for metric in METRICS)
