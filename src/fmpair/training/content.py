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
# How many events a prediction may be worth, and by how many events and items that is chosen.
WORTHS = (10.0, 3.0, 1.0, 0.3, 1e-9)  # the first of equal ones is chosen
PAIRS, OTHERS = 8192, 512


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
    earlier: np.ndarray | None = None,
) -> Parameters:  # fmt: skip
    """Return parameters with content that predicts the items with events.

    parameters: of a training without content; seen: the items of each user; by_user: whether the
    user's vector is the query, so that users tell what an item is like (`Choices`). earlier:
    bool [items], those that an earlier fit learned. They keep their scores; others approach their
    prediction.
    """
    users_of = np.bincount(seen.column, minlength=design.rows.size)
    known = np.flatnonzero(design.described & (users_of > 0))
    if len(known) < 2:
        return parameters
    some, whole = design.take(known), parameters.items[known]
    fits = None
    if by_user:
        fits = Choices(whole, known, parameters.users, seen, design.threads)
    # Steps see few of the users who did not choose an item, and so err in other ways than least
    # squares; the mean of both is predicted better.
    wanted = whole if fits is None else (whole + fits.items) / 2
    strength = best_strength(some, wanted, seed)
    found = ridge(some, wanted, strength)
    events = users_of[known].astype(np.float64)
    if earlier is not None:
        events[earlier[known]] = np.inf
    if fits is not None and len(known) >= FOLDS and np.isfinite(events).any():
        predicted = held_out(some, wanted, strength, found, seed)
        worth = worth_of(predicted, known, events, parameters, seen, fits, seed)
        whole = settled(whole, predicted, events, worth)
    items, bias = parameters.items.copy(), parameters.item_bias.copy()
    items[known] = whole - some.dot(found)
    bias[known] += _inner(items[known], whole, some, found)
    features = parameters.features + found
    return parameters._replace(items=items, item_bias=bias, features=features)


def settled(
    learned: np.ndarray, predicted: np.ndarray, events: np.ndarray, worth: float
) -> np.ndarray:
    """Return learned vectors with the part of the prediction that their events do not replace.

    events: of each item, inf if it keeps what was learned; worth: how many of them the prediction
    counts as. Learning shrinks the
    vectors of items of few events towards 0; this makes it a shrinkage towards the prediction.
    """
    return learned + (worth / (events + worth)).astype(np.float32)[:, None] * predicted


def worth_of(
    predicted: np.ndarray, known: np.ndarray, events: np.ndarray, parameters: Parameters,
    seen: Rows, fits: Choices, seed: int,
) -> float:  # fmt: skip
    """Return how many events a prediction is worth: the number that ranks single events best.

    An event is ranked among drawn items as if its item had not learned from it. What it added to
    the item is what it adds to least squares. Single events of items say nothing about the number,
    which is then the largest.
    """
    rng, learned = np.random.default_rng([seed, 4]), parameters.items[known]
    place = np.full(int(seen.column.max()) + 1, -1)
    place[known[np.isfinite(events)]] = np.flatnonzero(np.isfinite(events))
    pairs = np.flatnonzero(place[seen.column] >= 0)
    pairs = rng.choice(pairs, min(len(pairs), PAIRS), replace=False)
    user, item = parameters.users[seen.owner[pairs]], place[seen.column[pairs]]
    others, constant = rng.integers(0, len(known), OTHERS), parameters.item_bias[known]
    without = learned[item] - fits.of(user)
    with blas_on(1):
        own = np.einsum("pk,pk->p", user, without), user @ learned[others].T
        told = np.einsum("pk,pk->p", user, predicted[item]), user @ predicted[others].T
    apart, values = others != item[:, None], []
    for worth in WORTHS:
        mine = own[0] + constant[item] + told[0] * (worth / (events[item] - 1 + worth))
        theirs = own[1] + constant[others] + told[1] * (worth / (events[others] + worth))
        above = ((theirs > mine[:, None]) & apart).sum(axis=1)
        values.append(np.where(above < 10, 1 / np.log2(above + 2), 0).mean())
    return WORTHS[int(np.argmax(values))]


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


class Choices:
    """Items that fit all users' choices best: float32 [known items, k].

    They are the least squares of 1 for the users who chose an item and 0 for all others, held by
    the mean square of users, and as long as the learned items on average.
    """

    def __init__(
        self, learned: np.ndarray, known: np.ndarray, users: np.ndarray, seen: Rows,
        threads: int | None,
    ) -> None:  # fmt: skip
        once, size = seen._replace(value=np.ones_like(seen.value)), int(seen.column.max()) + 1
        with blas_on(1):
            squares = users.T @ users
        held = np.trace(squares) / len(squares) * np.eye(len(squares), dtype=np.float32)
        self.squares, self.scale = squares + held, 1.0
        self.items = self.of(Design(once, size, threads=threads).back(users)[known])
        lengths = [np.sqrt(np.einsum("ik,ik->", table, table)) for table in (learned, self.items)]
        self.scale = float(lengths[0] / max(lengths[1], 1e-30))
        self.items *= np.float32(self.scale)

    def of(self, users: np.ndarray) -> np.ndarray:
        """Return the items that such users, or sums of users, have chosen: [rows, k]."""
        with blas_on(1):
            return np.linalg.solve(self.squares, users.T).T * np.float32(self.scale)


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
