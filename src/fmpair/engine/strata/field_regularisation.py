"""Regularisation of fields (group lasso, zero means), their step lengths, and AdaGrad's sums."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fmpair.arrays import Rows
from fmpair.engine.contract import Groups, History, Parameters, Problem, Settings, TripleL2
from fmpair.engine.item_side import pair_columns

FIRST = 0.1  # initial value of accumulators
WEAKEST = 0.01  # lower bound of the L2 of a field with a threshold
WEAKEST_OF_TRIPLES = 0.05  # higher, since there are many more triples than pairs to overfit


class Accumulators(NamedTuple):
    """AdaGrad: per row, the sum of the mean squares of its gradients.

    query, features: a cell's copy. mean: 1 / factors; bias: 1 where biases are learned, else 0.
    """

    users: np.ndarray
    items: np.ndarray
    query: np.ndarray
    features: np.ndarray
    mean: np.floating
    bias: np.floating


def first_accumulators(
    tables: Parameters, settings: Settings, kind: Any = np.float32
) -> Accumulators:
    """Return the accumulators of all rows before the first step."""
    learned = (tables.users, tables.items, tables.query, tables.features)
    users, items, query, features = (np.full(len(rows), FIRST, kind) for rows in learned)
    mean, bias = kind(1 / tables.users.shape[1]), kind(settings.has_bias)
    return Accumulators(users, items, query, features, mean, bias)


def shared_item_rows(history: History, count: int) -> slice:
    """Return the query features of histories that share the vectors of `count` items.

    A cell may update only the items of its block, but histories contain items of all blocks. So
    each round updates two copies of an item's vector separately, as item and as history feature,
    and then adds both updates.
    """
    first = int(history.rows.column[0])
    return slice(first, first + count)


def settled_l2(
    settings: Settings, query: np.ndarray, features: np.ndarray, problem: Problem, epoch: int
) -> Settings:
    """Return the settings with the L2 of fields for an epoch, counted from 1.

    query, features: the current tables. Triple vectors have their own strength and L2. This L2
    grows over `TripleL2.ramp` epochs: as long as the triple vectors of items are near zero, those
    of fields have small gradients, and a full L2 would shrink them to zero.
    """
    pairs = pair_columns(query.shape[1], problem.triples)
    groups = (problem.query_groups, problem.item_groups)
    triples, strongest = settings.triples, settings.strongest
    if triples is not None:
        tables = (query[:, pairs:], features[:, pairs:])
        l2 = _by_side(triples, tables, groups, (WEAKEST_OF_TRIPLES, strongest))
        triples = triples._replace(**l2)
        share = min((epoch - 1) / max(triples.ramp, 1), 1.0)
        triples = triples._replace(
            query=np.where(triples.query_threshold > 0, share, 1) * triples.query,
            features=np.where(triples.feature_threshold > 0, share, 1) * triples.features,
        )
    tables = (query[:, :pairs], features[:, :pairs])
    l2 = _by_side(settings, tables, groups, (WEAKEST, strongest))
    return settings._replace(triples=triples, **l2)


def _by_side(
    settings: Settings | TripleL2,
    tables: tuple[np.ndarray, np.ndarray],
    groups: tuple[Groups, Groups],
    bounds: tuple[float, float],
) -> dict[str, Any]:
    """Return the L2 by feature of the query side and of the item side."""
    query = field_l2(settings.query, settings.query_threshold, bounds, tables[0], groups[0])
    thresholds = settings.feature_threshold
    features = field_l2(settings.features, thresholds, bounds, tables[1], groups[1])
    return {"query": query, "features": features}


def field_l2(
    fixed: np.ndarray,
    threshold: np.ndarray,
    bounds: tuple[float, float],
    table: np.ndarray,
    groups: Groups,
) -> np.ndarray:
    """Return the L2 of each row, float32: `fixed`, or threshold / strength where there is a
    threshold.

    The strength is the root mean square of the norms of a field's vectors. The gradient of this
    penalty, threshold / strength * vector, has the same length at any strength (a group lasso). So
    a field whose gradients are below the threshold shrinks to zero, and other fields are hardly
    regularised. bounds: the lowest and the highest L2 of a field with a threshold.
    """
    if not (threshold > 0).any():
        return fixed
    squares = (table.astype(np.float64) ** 2).sum(axis=1) * groups.share
    strength = np.sqrt(np.bincount(groups.field, weights=squares))[groups.field]
    adapted = np.clip(threshold / np.maximum(strength, 1e-9), *bounds)
    return np.where(threshold > 0, adapted, fixed).astype(np.float32)


def centre(table: np.ndarray, groups: Groups) -> None:
    """Subtract from every row of a centred field the field's mean, weighted by share."""
    rows = np.flatnonzero(groups.centred)
    if len(rows):
        field = groups.field[rows]
        means = np.zeros((field.max() + 1, table.shape[1]), np.float64)
        np.add.at(means, field, groups.share[rows, None] * table[rows].astype(np.float64))
        table[rows] -= means[field].astype(table.dtype)


def query_rates(groups: Groups, *parts: Rows) -> np.ndarray:
    """Return the step length of each query feature relative to an id's: float32 [features].

    A step on a feature with value x changes the score by x squared times the step length, so steps
    are shorter for values above 1. A value that n users share is updated n times as often as a
    user, so its steps are divided by n to the power of the field's `sharing`.
    """
    largest = np.ones(len(groups.owners))
    for rows in parts:
        np.maximum.at(largest, rows.column, rows.value**2)
    return (1 / (largest * np.maximum(groups.owners, 1) ** groups.sharing)).astype(np.float32)


def item_rates(groups: Groups, rows: Rows) -> np.ndarray:
    """Return the step length of each item feature relative to an id's: float32 [features].

    One step updates all features of an item, so the sum of their squared values shortens it.
    """
    together = np.bincount(rows.owner, rows.value**2, rows.size)
    largest = np.ones(len(groups.owners))
    np.maximum.at(largest, rows.column, together[rows.owner])
    return (1 / (largest * np.maximum(groups.owners, 1) ** groups.sharing)).astype(np.float32)
