"""Content: lists and vectors of items that are not learned by steps, but by regression.

Items are learned as if they had no content, from a start that content gives (`start`). Then the
vectors of content are those that predict the items' learned vectors best, and an item's own vector
is what they leave. So known items rank as they were learned, and new ones by a prediction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fmpair.engine.contract import Parameters, Problem
from fmpair.engine.item_side import dense_fields, split
from fmpair.features import Side
from fmpair.solvers.ridge import Design, best_strength, ridge
from fmpair.training.options import FMPairOptions


def telling_content(side: Side, problem: Problem) -> list[bool]:
    """Return which fields of items are vectors, or lists that tell what users choose."""
    steps = problem.item_groups.sharing
    return [
        e.size > 0 and (e.is_vector or (bool(e.owners) and steps[first] == 0))
        for first, e in zip(side.offsets, side.encoders)
    ]


def content_fields(options: FMPairOptions, side: Side, problem: Problem) -> list[bool]:
    """Return which fields of items are content.

    Terms of order three need the features of an item apart. Fields with a regularisation of their
    own are learned by steps, as the recipe asks.
    """
    given = options.regularization
    named = given if isinstance(given, Mapping) else {}
    if not options.regresses or problem.triples is not None or "item_features" in named:
        return [False] * len(side.encoders)
    free = [e.field.regularization is None and e.name not in named for e in side.encoders]
    return [told and own for told, own in zip(telling_content(side, problem), free)]


def listed_values(problem: Problem, side: Side, content: Sequence[bool]) -> int:
    """Return how many values of lists that are content belong to two items or more."""
    lists = [chosen and not e.is_vector for chosen, e in zip(content, side.encoders)]
    owners = np.bincount(side.only(problem.item_rows, lists).column, minlength=side.size)
    return int(np.count_nonzero(owners > 1))


def without_content(problem: Problem, side: Side, content: Sequence[bool]) -> Problem:
    """Return the problem that is learned by steps."""
    if not any(content):
        return problem
    rows = side.only(problem.item_rows, [not chosen for chosen in content])
    return problem._replace(item_rows=rows)


def design_of(problem: Problem, side: Side, content: Sequence[bool], threads: int | None) -> Design:
    """Return the content of all items."""
    rows = side.only(problem.item_rows, content)
    sparse, dense = split(rows, dense_fields(problem.item_groups, rows))
    return Design(sparse, side.size, tuple(dense), threads)


def folded(
    parameters: Parameters, problem: Problem, side: Side, content: Sequence[bool]
) -> Parameters:
    """Return parameters of the same scores whose items hold their content themselves."""
    chosen = np.repeat(content, [e.size for e in side.encoders]).astype(bool)
    features, bias = parameters.features.copy(), parameters.feature_bias.copy()
    if not features[chosen].any() and not bias[chosen].any():
        return parameters
    features[~chosen], bias[~chosen] = 0, 0
    design = design_of(problem, side, content, 1)
    items = parameters.items + design.dot(features)
    constant = parameters.item_bias + design.dot(bias[:, None])[:, 0]
    constant -= _inner(parameters.items, items, design, features)
    return parameters._replace(
        items=items,
        item_bias=constant,
        features=parameters.features - features,
        feature_bias=parameters.feature_bias - bias,
    )


def regressed(parameters: Parameters, design: Design, times: np.ndarray, seed: int) -> Parameters:
    """Return parameters with content that predicts the items with events, whose scores stay.

    parameters: of a training without content; times: how often each item was chosen.
    """
    known = np.flatnonzero(design.described & (times > 0))
    if len(known) < 2:
        return parameters
    some, whole = design.take(known), parameters.items[known]
    found = ridge(some, whole, best_strength(some, whole, seed))
    items, bias = parameters.items.copy(), parameters.item_bias.copy()
    items[known] -= some.dot(found)
    bias[known] += _inner(items[known], whole, some, found)
    features = parameters.features + found
    return parameters._replace(items=items, item_bias=bias, features=features)


def _inner(own: np.ndarray, whole: np.ndarray, design: Design, features: np.ndarray) -> np.ndarray:
    """Return by how much the constant of `whole` items exceeds that of items with content.

    The features of an item form pairs: half the square of their sum less their own squares.
    """
    alone = design.squared().dot(np.einsum("fk,fk->f", features, features)[:, None])[:, 0]
    lengths = [np.einsum("ik,ik->i", table, table) for table in (own, whole)]
    return (lengths[0] - lengths[1] + alone) / 2
