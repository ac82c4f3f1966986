"""Content: the lists and vectors of items, whose weights are fitted by ridge regression.

Gradient steps learn one vector per item, as if items had no content. Content only sets the initial
vectors (`start`). After training, the learned item vectors are regressed on the content. Items
without events are ranked by the vectors that this regression predicts. The vectors of items with
few events are shrunk towards the prediction (`settled`).

Gradient steps do learn the attributes of users. But they regularise them strongly, since the users'
own vectors explain the same choices. So the learned user vectors are regressed on the attributes
too, and users without events are ranked by the prediction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fmpair.arrays import Rows
from fmpair.engine.contract import Parameters, Problem
from fmpair.engine.item_side import dense_fields, split
from fmpair.features import Side
from fmpair.matrices import product, solved
from fmpair.solvers.ridge import Design, Fold, best_strength, ridge, solution
from fmpair.training.options import FMPairOptions

FOLDS = 5  # cross-validation over items: each fold is predicted from the others
# The prediction counts as much as this number of events of the item (a pseudo-count).
PSEUDO_COUNTS = (10.0, 3.0, 1.0, 0.3, 1e-9)
SAMPLED_EVENTS, SAMPLED_ITEMS = 8192, 512  # used to choose the pseudo-count
SCORED_AT_ONCE = 128


def predictive_content(side: Side, problem: Problem) -> list[bool]:
    """Return which fields of items are vectors, or lists that predict what users choose."""
    steps = problem.item_groups.sharing
    return [
        e.size > 0 and (e.is_vector or (bool(e.owners) and steps[first] == 0))
        for first, e in zip(side.offsets, side.encoders)
    ]


def content_fields(options: FMPairOptions, side: Side, problem: Problem) -> list[bool]:
    """Return which fields of items are content, and so are fitted by regression.

    With order three none is, because every feature needs a learned vector. A field with its own
    `regularization` is learned by gradient steps, to which that option applies.
    """
    given = options.regularization
    named = given if isinstance(given, Mapping) else {}
    if not options.regresses or problem.triples is not None or "item_features" in named:
        return [False] * len(side.encoders)
    free = [e.field.regularization is None and e.name not in named for e in side.encoders]
    return [a and b for a, b in zip(predictive_content(side, problem), free)]


def listed_values(problem: Problem, side: Side, content: Sequence[bool]) -> int:
    """Return how many values of content lists belong to at least two items."""
    lists = [chosen and not e.is_vector for chosen, e in zip(content, side.encoders)]
    owners = np.bincount(side.only(problem.item_rows, lists).column, minlength=side.size)
    return int(np.count_nonzero(owners > 1))


def without_content(problem: Problem, side: Side, content: Sequence[bool]) -> Problem:
    """Return the problem that gradient steps learn: items without their content."""
    if not any(content):
        return problem
    rows = side.only(problem.item_rows, [not chosen for chosen in content])
    return problem._replace(item_rows=rows)


def design_of(problem: Problem, side: Side, content: Sequence[bool], threads: int | None) -> Design:
    """Return the content of all items as the design matrix of a regression."""
    rows = side.only(problem.item_rows, content)
    sparse, dense = split(rows, dense_fields(problem.item_groups, rows))
    return Design(sparse, side.size, tuple(dense), threads)


def folded(
    parameters: Parameters, problem: Problem, side: Side, content: Sequence[bool]
) -> Parameters:
    """Return parameters with the same scores, with the content added to the items' own vectors."""
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
    """Return parameters whose content features predict the vectors of items with events.

    parameters: learned without content. design: the content of all items. seen: the items of each
    user. by_user: whether the query is the user's vector alone. Only then can item vectors also be
    estimated from the users who chose the item (`Choices`). earlier: bool [items], those that an
    earlier fit learned. They keep their scores; other items with few events are shrunk towards the
    prediction.
    """
    users_of = np.bincount(seen.column, minlength=design.rows.size)
    known = np.flatnonzero(design.described & (users_of > 0))
    if len(known) < 2:
        return parameters
    content = design if len(known) == design.rows.size else design.take(known)
    vectors = parameters.items[known]
    choices = None
    if by_user:
        choices = Choices(vectors, known, parameters.users, seen, content.threads)
    # Gradient steps sample only a few of the users who did not choose an item; least squares uses
    # all users. The two estimates have different errors, so content predicts their mean better.
    targets = vectors if choices is None else (vectors + choices.items) / 2
    strength, right = best_strength(content, targets, seed), content.back(targets)
    weights = solution(content, right, strength)
    events = users_of[known].astype(np.float64)
    if earlier is not None:
        events[earlier[known]] = np.inf
    if choices is not None and len(known) >= FOLDS and np.isfinite(events).any():
        predicted = held_out(content, targets, strength, weights, right, seed)
        worth = worth_of(predicted, known, events, parameters, seen, choices, seed)
        vectors = settled(vectors, predicted, events, worth)
    items, bias = parameters.items.copy(), parameters.item_bias.copy()
    items[known] = vectors - content.dot(weights)
    bias[known] += _inner(items[known], vectors, content, weights)
    features = parameters.features + weights
    return parameters._replace(items=items, item_bias=bias, features=features)


def settled(
    learned: np.ndarray, predicted: np.ndarray, events: np.ndarray, worth: float
) -> np.ndarray:
    """Return learned + worth / (events + worth) * predicted, for each item.

    events: the number of events of each item, inf for items that do not change. worth: the
    pseudo-count of the prediction. Training shrinks the vectors of items with few events towards 0.
    Adding a share of the prediction shrinks them towards the prediction instead.
    """
    return learned + (worth / (events + worth)).astype(np.float32)[:, None] * predicted


def worth_of(
    predicted: np.ndarray, known: np.ndarray, events: np.ndarray, parameters: Parameters,
    seen: Rows, choices: Choices, seed: int,
) -> float:  # fmt: skip
    """Return the pseudo-count of PSEUDO_COUNTS with the highest NDCG@10 of sampled events.

    The item of each event is ranked among sampled items, with its vector as it would be without
    this event. The event's contribution to the vector is computed by least squares (`Choices`).
    Items with one event say nothing about the pseudo-count. If there are no others, it is the
    largest.
    """
    rng, learned = np.random.default_rng([seed, 4]), parameters.items[known]
    row_of_item = np.full(int(seen.column.max()) + 1, -1)
    changed = np.flatnonzero(np.isfinite(events) & (events > 1))
    row_of_item[known[changed]] = changed
    pairs = np.flatnonzero(row_of_item[seen.column] >= 0)
    if not len(pairs):
        return PSEUDO_COUNTS[0]
    pairs = rng.choice(pairs, min(len(pairs), SAMPLED_EVENTS), replace=False)
    user, item = parameters.users[seen.owner[pairs]], row_of_item[seen.column[pairs]]
    others, constant = rng.integers(0, len(known), SAMPLED_ITEMS), parameters.item_bias[known]
    without = learned[item] - choices.of(user)
    # scores of the event's item and of the sampled items, by each kind of vector
    by_learned = np.einsum("pk,pk->p", user, without), product(user, learned[others].T)
    by_content = np.einsum("pk,pk->p", user, predicted[item]), product(user, predicted[others].T)
    is_other, above = others != item[:, None], np.zeros((len(PSEUDO_COUNTS), len(item)), np.int64)
    for first in range(0, len(item), SCORED_AT_ONCE):  # few, so that they stay in the cache
        some = slice(first, first + SCORED_AT_ONCE)
        for number, worth in enumerate(PSEUDO_COUNTS):
            shares = worth / (events[item[some]] - 1 + worth), worth / (events[others] + worth)
            target = by_learned[0][some] + constant[item[some]] + by_content[0][some] * shares[0]
            scores = by_learned[1][some] + constant[others] + by_content[1][some] * shares[1]
            above[number, some] = ((scores > target[:, None]) & is_other[some]).sum(axis=1)
    ndcg = np.where(above < 10, 1 / np.log2(above + 2), 0).mean(axis=1)
    return PSEUDO_COUNTS[int(np.argmax(ndcg))]


def held_out(
    design: Design, targets: np.ndarray, strength: float, start: np.ndarray, right: np.ndarray,
    seed: int,
) -> np.ndarray:  # fmt: skip
    """Return cross-validated predictions of the targets of all items: float32 [items, k].

    start: the weights fitted to all items, from which each solver starts, since the weights without
    one fold are close to them. right: X'T of all items.
    """
    number = np.random.default_rng([seed, 3]).permutation(len(targets)) % FOLDS
    out = np.empty_like(targets)
    for held in range(FOLDS):
        fold = Fold.of(design, np.flatnonzero(number == held))
        weights = solution(fold.rest, fold.right(targets, right), strength, start)
        out[fold.rows] = fold.held_out.dot(weights)
    return out


class Choices:
    """Item vectors estimated from the choices of all users by ridge regression.

    items: float32 [known items, k]. The target is 1 for the users who chose an item and 0 for all
    others, and the inputs are the user vectors. The L2 penalty is the mean diagonal entry of their
    Gram matrix. The result is scaled to the root mean square length of the learned vectors.
    """

    def __init__(
        self, learned: np.ndarray, known: np.ndarray, users: np.ndarray, seen: Rows,
        threads: int | None,
    ) -> None:  # fmt: skip
        once, size = seen._replace(value=np.ones_like(seen.value)), int(seen.column.max()) + 1
        squares = product(users, users, transposed=True)
        penalty = np.trace(squares) / len(squares) * np.eye(len(squares), dtype=np.float32)
        self.squares, self.scale = squares + penalty, 1.0
        self.items = self.of(Design(once, size, threads=threads).back(users)[known])
        lengths = [np.sqrt(np.einsum("ik,ik->", table, table)) for table in (learned, self.items)]
        self.scale = float(lengths[0] / max(lengths[1], 1e-30))
        self.items *= np.float32(self.scale)

    def of(self, users: np.ndarray) -> np.ndarray:
        """Return the vectors of items that these users chose: [rows, k].

        users: [rows, k], in each row the vector of a user, or the sum over the users of an item.
        """
        return solved(self.squares, users) * np.float32(self.scale)


def _inner(own: np.ndarray, whole: np.ndarray, design: Design, features: np.ndarray) -> np.ndarray:
    """Return what to add to the constants if `whole` vectors are split into `own` and content.

    A factorization machine adds a term for each pair of an item's features. The sum of these terms
    is half the difference between the squared length of the features' sum and the sum of their
    squared lengths. The returned constant cancels it, so that scores stay the same.
    """
    squares = design.squared_dot(np.einsum("fk,fk->f", features, features))
    lengths = [np.einsum("ik,ik->i", table, table) for table in (own, whole)]
    return (lengths[0] - lengths[1] + squares) / 2


# Attributes of users.


def described_by(options: FMPairOptions, side: Side, problem: Problem) -> list[bool]:
    """Return which fields of queries are user attributes that predict the users' vectors."""
    given = options.regularization
    named = given if isinstance(given, Mapping) else {}
    if not options.regresses or problem.triples is not None or "user_features" in named:
        return [False] * len(side.encoders)
    free = [e.field.regularization is None and e.name not in named for e in side.encoders]
    return [unset and e.role == "user" and e.size > 0 for unset, e in zip(free, side.encoders)]


def users_regressed(
    parameters: Parameters, problem: Problem, side: Side, chosen: Sequence[bool], seen: Rows,
    options: FMPairOptions,
) -> Parameters:  # fmt: skip
    """Return parameters with the same scores whose attributes predict the users with events.

    The target of the regression is the user's vector minus the mean vector, since a user without
    events gets the mean vector plus the prediction.
    """
    if not any(chosen):
        return parameters
    rows = side.only(problem.user_rows, chosen)
    sparse, dense = split(rows, dense_fields(problem.query_groups, rows))
    design = Design(sparse, side.size, tuple(dense), options.threads)
    known = np.flatnonzero(design.described & (np.diff(seen.start) > 0))
    if len(known) < 2:
        return parameters
    attributes, vectors = design.take(known), parameters.users[known]
    targets = vectors - vectors.mean(axis=0)
    weights = ridge(attributes, targets, best_strength(attributes, targets, options.seed))
    users = parameters.users.copy()
    users[known] -= attributes.dot(weights)
    return parameters._replace(users=users, query=parameters.query + weights)


def users_folded(
    parameters: Parameters, problem: Problem, side: Side, chosen: Sequence[bool]
) -> Parameters:
    """Return parameters with the same scores, with the attributes added to the users' vectors."""
    if not any(chosen):
        return parameters
    features = np.repeat(chosen, [e.size for e in side.encoders]).astype(bool)[:, None]
    predicted = side.only(problem.user_rows, chosen).dot(np.where(features, parameters.query, 0))
    query = np.where(features, np.float32(0), parameters.query)
    return parameters._replace(users=parameters.users + predicted, query=query)
