"""Content: lists and vectors of items that are not learned by steps, but by regression.

Items are learned as if they had no content, from a start that content gives (`start`). Then the
vectors of content are those that predict the items' learned vectors best, and an item's own vector
is what they leave. So known items rank as they were learned, and new ones by a prediction.

Attributes of users are learned by steps, which hold them, since users explain themselves. What they
leave to users is regressed on them too, so that new users are ranked by a prediction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fmpair.arrays import Rows
from fmpair.engine.contract import Parameters, Problem
from fmpair.engine.item_side import dense_fields, split
from fmpair.features import Side
from fmpair.solvers.ridge import Design, best_strength, ridge
from fmpair.threads import blas_on
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


def regressed(
    parameters: Parameters, design: Design, seen: Rows, seed: int, by_user: bool = True
) -> Parameters:
    """Return parameters with content that predicts the items with events, whose scores stay.

    parameters: of a training without content; seen: the items of each user; by_user: whether the
    user's vector is the query, so that users tell what an item is like (`with_choices`).
    """
    chosen = np.bincount(seen.column, minlength=design.rows.size) > 0
    known = np.flatnonzero(design.described & chosen)
    if len(known) < 2:
        return parameters
    some, whole = design.take(known), parameters.items[known]
    wanted = whole
    if by_user:
        wanted = with_choices(whole, known, parameters.users, seen, design.threads)
    found = ridge(some, wanted, best_strength(some, wanted, seed))
    items, bias = parameters.items.copy(), parameters.item_bias.copy()
    items[known] -= some.dot(found)
    bias[known] += _inner(items[known], whole, some, found)
    features = parameters.features + found
    return parameters._replace(items=items, item_bias=bias, features=features)


def with_choices(
    items: np.ndarray, known: np.ndarray, users: np.ndarray, seen: Rows, threads: int | None
) -> np.ndarray:
    """Return the means of learned items and of those that fit all users' choices best.

    The latter are the least squares of 1 for the users who chose an item and 0 for all others,
    held by the mean square of users. Steps see few of the others, and so err in other ways; the
    mean of both is predicted better. Both count alike: they get the same mean length.
    """
    once, size = seen._replace(value=np.ones_like(seen.value)), int(seen.column.max()) + 1
    every = Design(once, size, threads=threads)
    with blas_on(1):
        squares = users.T @ users
        held = np.trace(squares) / len(squares) * np.eye(len(squares), dtype=np.float32)
        fitted = np.linalg.solve(squares + held, every.back(users)[known].T).T
    lengths = [np.sqrt(np.einsum("ik,ik->", table, table)) for table in (items, fitted)]
    return (items + fitted * (lengths[0] / max(lengths[1], 1e-30))) / 2


def _inner(own: np.ndarray, whole: np.ndarray, design: Design, features: np.ndarray) -> np.ndarray:
    """Return by how much the constant of `whole` items exceeds that of items with content.

    The features of an item form pairs: half the square of their sum less their own squares.
    """
    alone = design.squared().dot(np.einsum("fk,fk->f", features, features)[:, None])[:, 0]
    lengths = [np.einsum("ik,ik->i", table, table) for table in (own, whole)]
    return (lengths[0] - lengths[1] + alone) / 2


# Attributes of users.


def described_by(options: FMPairOptions, side: Side, problem: Problem) -> list[bool]:
    """Return which fields of queries are attributes of users that predict them."""
    given = options.regularization
    named = given if isinstance(given, Mapping) else {}
    if not options.regresses or problem.triples is not None or "user_features" in named:
        return [False] * len(side.encoders)
    free = [e.field.regularization is None and e.name not in named for e in side.encoders]
    return [own and e.role == "user" and e.size > 0 for own, e in zip(free, side.encoders)]


def users_regressed(
    parameters: Parameters, problem: Problem, side: Side, chosen: Sequence[bool], seen: Rows,
    options: FMPairOptions,
) -> Parameters:  # fmt: skip
    """Return parameters of the same scores with attributes that predict the users with events.

    What they predict is how a user differs from the mean, which stands for unknown users.
    """
    if not any(chosen):
        return parameters
    rows = side.only(problem.user_rows, chosen)
    sparse, dense = split(rows, dense_fields(problem.query_groups, rows))
    design = Design(sparse, side.size, tuple(dense), options.threads)
    known = np.flatnonzero(design.described & (np.diff(seen.start) > 0))
    if len(known) < 2:
        return parameters
    some, apart = design.take(known), parameters.users[known]
    apart = apart - apart.mean(axis=0)
    found = ridge(some, apart, best_strength(some, apart, options.seed))
    users = parameters.users.copy()
    users[known] -= some.dot(found)
    return parameters._replace(users=users, query=parameters.query + found)


def users_folded(
    parameters: Parameters, problem: Problem, side: Side, chosen: Sequence[bool]
) -> Parameters:
    """Return parameters of the same scores whose users hold their attributes themselves."""
    if not any(chosen):
        return parameters
    features = np.repeat(chosen, [e.size for e in side.encoders]).astype(bool)[:, None]
    held = side.only(problem.user_rows, chosen).dot(np.where(features, parameters.query, 0))
    query = np.where(features, np.float32(0), parameters.query)
    return parameters._replace(users=parameters.users + held, query=query)
