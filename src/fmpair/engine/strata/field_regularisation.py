"""How fields are regularised: L2 by strength, means of zero, step lengths by size of value."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fmpair.arrays import Rows
from fmpair.engine.contract import Groups, History, Parameters, Problem, Settings, TripleL2
from fmpair.engine.item_side import pair_columns

# AdaGrad's accumulators: per row, how much its gradients have moved it so far.


FIRST = 0.1  # where accumulators begin


class Accumulators(NamedTuple):
    """Per row, the sum of the mean squares of its gradients. query, features: a cell's own copy.

    mean: 1 / factors, what a sum of squares is multiplied by; bias: 1 where biases are learned,
    else 0.
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
    """The accumulators of all rows before the first step."""

    def begun(rows: np.ndarray) -> np.ndarray:
        return np.full(len(rows), FIRST, kind)

    users, items, query, features = map(
        begun, (tables.users, tables.items, tables.query, tables.features)
    )
    mean, bias = kind(1 / tables.users.shape[1]), kind(settings.has_bias)
    return Accumulators(users, items, query, features, mean, bias)


# Item vectors lent to histories: in a round both are learned apart, then what was moved adds up.
#
# A cell may move the items of its block only, but histories have items of all blocks.


def borrowed(history: History, count: int) -> slice:
    """The query features that stand for the items, in their order."""
    first = int(history.rows.column[0])
    return slice(first, first + count)


def lend(table: np.ndarray, rows: slice, items: np.ndarray) -> None:
    """The query features of items become the items' vectors: [items, columns]."""
    table[rows] = items


def returned(table: np.ndarray, rows: slice, items: np.ndarray) -> np.ndarray:
    """What a round moved of vectors that were lent as `items`: [items, columns]."""
    return table[rows] - items


WEAKEST = 0.01
# There are many more triples than pairs to learn by heart.
WEAKEST_OF_TRIPLES = 0.05


def settled_l2(
    settings: Settings, query: np.ndarray, features: np.ndarray, problem: Problem, epoch: int
) -> Settings:
    """The settings with the regularisation of fields settled for an epoch, counted from 1.

    query, features: the tables as they are now. Vectors of triples have a strength of their own.
    Where that counts it comes on in the course of `TripleL2.ramp` epochs: as long as those of items
    are near zero nothing pulls at those of fields, and all would have vanished before they could.
    """
    pairs = pair_columns(query.shape[1], problem.triples)
    groups = (problem.query_groups, problem.item_groups)
    triples, own = settings.triples, settings
    if triples is not None:
        tables = (query[:, pairs:], features[:, pairs:])
        bounds = (WEAKEST_OF_TRIPLES, own.strongest)
        triples = triples._replace(**_by_side(triples, tables, groups, bounds))
        share = min((epoch - 1) / max(triples.ramp, 1), 1.0)
        triples = triples._replace(
            query=np.where(triples.query_threshold > 0, share, 1) * triples.query,
            features=np.where(triples.feature_threshold > 0, share, 1) * triples.features,
        )
    tables = (query[:, :pairs], features[:, :pairs])
    found = _by_side(own, tables, groups, (WEAKEST, own.strongest))
    return own._replace(triples=triples, **found)


def _by_side(
    given: Settings | TripleL2,
    tables: tuple[np.ndarray, np.ndarray],
    groups: tuple[Groups, Groups],
    bounds: tuple[float, float],
) -> dict[str, Any]:
    """L2 by feature of the query side and of the item side."""
    query = (given.query, given.query_threshold, bounds, tables[0], groups[0])
    features = (given.features, given.feature_threshold, bounds, tables[1], groups[1])
    return {"query": field_l2(*query), "features": field_l2(*features)}


def field_l2(
    fixed: np.ndarray,
    threshold: np.ndarray,
    bounds: tuple[float, float],
    table: np.ndarray,
    groups: Groups,
) -> np.ndarray:
    """float32 [rows]: `fixed`, or where there is a threshold, threshold / strength of the field.

    The strength is the root mean square of the norms of a field's vectors. The gradient of
    threshold / strength * vector has the same length at any strength: a field whose events do not
    outweigh the threshold falls back to zero, one that does is hardly regularised (a group lasso).
    bounds: the least and the most it may be.
    """
    if not (threshold > 0).any():
        return fixed
    squares = (table.astype(np.float64) ** 2).sum(axis=1) * groups.share
    strength = np.sqrt(np.bincount(groups.field, weights=squares))[groups.field]
    adapted = np.clip(threshold / np.maximum(strength, 1e-9), *bounds)
    return np.where(threshold > 0, adapted, fixed).astype(np.float32)


def centre(table: np.ndarray, groups: Groups) -> None:
    """Take from every row of a centred field the field's mean, weighted by share."""
    rows = np.flatnonzero(groups.centred)
    if len(rows):
        field = groups.field[rows]
        means = np.zeros((field.max() + 1, table.shape[1]), np.float64)
        np.add.at(means, field, groups.share[rows, None] * table[rows].astype(np.float64))
        table[rows] -= means[field].astype(table.dtype)


def query_rates(groups: Groups, *parts: Rows) -> np.ndarray:
    """float32 [features]: step length of each query feature as a share of an id's.

    A step on a feature of value x moves the score by x squared times its length, so a feature
    whose values reach beyond 1 takes steps as much shorter. And a value that n users share moves
    n times as often as a user does, and may follow whoever is at work and forget the others: its
    steps are divided by n to the power of the field's `sharing`.
    """
    largest = np.ones(len(groups.owners))
    for rows in parts:
        np.maximum.at(largest, rows.column, rows.value**2)
    return (1 / (largest * np.maximum(groups.owners, 1) ** groups.sharing)).astype(np.float32)


def item_rates(groups: Groups, rows: Rows) -> np.ndarray:
    """The same for item features, by what all features of an item move together.

    On the item side vectors also pull at each other, so that many at full length would run away.
    """
    together = np.bincount(rows.owner, rows.value**2, rows.size)
    largest = np.ones(len(groups.owners))
    np.maximum.at(largest, rows.column, together[rows.owner])
    return (1 / (largest * np.maximum(groups.owners, 1) ** groups.sharing)).astype(np.float32)
