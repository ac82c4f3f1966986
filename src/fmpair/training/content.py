"""Content: lists and vectors of items that are not learned by steps, but by regression.

Items are learned as if they had no content, from a start that content gives (`start`). Then the
vectors of content are those that predict the items' learned vectors best. Items without events are
ranked by that prediction, items of few events by a mean of it and of what was learned (`settled`).

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

FOLDS = 5  # of items; each part is predicted by the others
HALVES = np.geomspace(0.1, 100, 31)  # events, see `half_learned`


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
    parameters: Parameters, design: Design, seen: Rows, seed: int, by_user: bool = True,
    settles: bool = True,
) -> Parameters:  # fmt: skip
    """Return parameters with content that predicts the items with events.

    parameters: of a training without content; seen: the items of each user; by_user: whether the
    user's vector is the query, so that users tell what an item is like (`with_choices`). settles:
    whether items of few events approach their prediction; else all items keep their scores.
    """
    users_of = np.bincount(seen.column, minlength=design.rows.size)
    known = np.flatnonzero(design.described & (users_of > 0))
    if len(known) < 2:
        return parameters
    some, whole = design.take(known), parameters.items[known]
    wanted = whole
    if by_user:
        wanted = with_choices(whole, known, parameters.users, seen, design.threads)
    strength = best_strength(some, wanted, seed)
    found = ridge(some, wanted, strength)
    if settles and len(known) >= FOLDS:
        predicted = held_out(some, wanted, strength, found, seed)
        whole = settled(whole, predicted, users_of[known])
    items, bias = parameters.items.copy(), parameters.item_bias.copy()
    items[known] = whole - some.dot(found)
    bias[known] += _inner(items[known], whole, some, found)
    features = parameters.features + found
    return parameters._replace(items=items, item_bias=bias, features=features)


def settled(learned: np.ndarray, predicted: np.ndarray, events: np.ndarray) -> np.ndarray:
    """Return the best means of learned vectors and of those that content predicts: [items, k].

    predicted: each by the other items; events: of each item. After n events a vector of
    prior 0 is n / (n + half) of what the events alone would say (`half_learned`). Around a
    prediction that explains the share r of all vectors, truth varies by 1 - r as much, so the prior
    counts as half / (1 - r) events.
    """
    weight = events / events.sum()
    left = weight @ np.square(learned - predicted).sum(axis=1)
    explained = 1 - left / max(weight @ np.square(learned).sum(axis=1), 1e-30)
    if explained <= 0:
        return learned
    half = half_learned(learned, events)
    prior = half / max(1 - explained, 1e-3)
    own, other = (events + half) / (events + prior), prior / (events + prior)
    return (own[:, None] * learned + other[:, None] * predicted).astype(np.float32)


def half_learned(vectors: np.ndarray, events: np.ndarray) -> float:
    """Return after how many events half of a vector is learned, by how lengths grow with events.

    Squared lengths are proportional to n / (n + half) on average.
    """
    square = np.square(vectors).sum(axis=1).astype(np.float64)
    errors = []
    for half in HALVES:
        share = events / (events + half)
        errors.append(np.square(square - share * (share @ square / (share @ share))).sum())
    return float(HALVES[int(np.argmin(errors))])


def held_out(
    design: Design, wanted: np.ndarray, strength: float, found: np.ndarray, seed: int
) -> np.ndarray:
    """Return what the other items predict for each item: float32 [items, k].

    found: the weights by all items, near which the others' are.
    """
    fold = np.random.default_rng([seed, 3]).permutation(len(wanted)) % FOLDS
    out = np.empty_like(wanted)
    for number in range(FOLDS):
        others, rows = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        weights = ridge(design.take(others), wanted[others], strength, found)
        out[rows] = design.take(rows).dot(weights)
    return out


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
