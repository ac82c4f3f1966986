"""Weights of fields: the pairwise loss as a function of them, and its gradient."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows
from fmpair.engine.contract import Parameters, Problem

MOST_PAIRS = 20_000  # enough for a few numbers
TRIES = 20  # for an item that the user let alone
STEPS = 20  # of Newton's method, at most
PRIOR_SD = 0.5  # weights are taken to be 1, give or take this, until pairs say otherwise
SHARPNESS_SD = 5.0  # the same of the sharpness
MOST = 20.0  # of a weight, and of the sharpness


class ChosenPairs(NamedTuple):
    """user, positive, negative, situation: int [pairs]."""

    user: np.ndarray
    positive: np.ndarray
    negative: np.ndarray
    situation: np.ndarray


class ItemParts(NamedTuple):
    """An item side by field: vectors [fields, n, k], constants and squared norms [fields, n]."""

    own: np.ndarray
    own_bias: np.ndarray
    vectors: np.ndarray
    biases: np.ndarray
    squares: np.ndarray


class Parts(NamedTuple):
    """What the margins of pairs are made of, apart from the weights.

    user: [n, k]; query: [query fields, n, k].
    """

    user: np.ndarray
    query: np.ndarray
    positive: ItemParts
    negative: ItemParts


def draw_pairs(problem: Problem, events: np.ndarray, rng: np.random.Generator) -> ChosenPairs:
    """Each event (a sample of many) with an item the user has no event with, drawn uniformly."""
    if len(events) > MOST_PAIRS:
        events = np.sort(rng.permutation(events)[:MOST_PAIRS])
    user, positive = problem.user[events].astype(np.int64), problem.item[events]
    seen = np.unique(problem.user.astype(np.int64) * problem.items + problem.item)
    offered = np.flatnonzero(problem.drawn)
    negative = rng.choice(offered, len(events))
    for _ in range(TRIES):
        hit = np.flatnonzero(np.isin(user * problem.items + negative, seen))
        negative[hit] = rng.choice(offered, len(hit))
    kept = ~np.isin(user * problem.items + negative, seen)
    return ChosenPairs(user[kept], positive[kept], negative[kept], problem.situation[events][kept])


def parts_of(parameters: Parameters, problem: Problem, pairs: ChosenPairs) -> Parts:
    """The vectors of every field in every pair."""
    tables = Parameters(*(table.astype(np.float64) for table in parameters))
    fields = problem.query_groups.field
    sources = (problem.contexts.take(pairs.situation), problem.user_rows.take(pairs.user))
    count = int(fields.max(initial=-1)) + 1
    query = np.zeros((count, len(pairs.user), tables.users.shape[1]))
    for number in range(count):
        for rows in sources:
            query[number] += _of_field(rows, fields, number).dot(tables.query)
    items = (_item_parts(tables, problem, item) for item in (pairs.positive, pairs.negative))
    return Parts(tables.users[pairs.user], query, *items)


def _item_parts(tables: Parameters, problem: Problem, item: np.ndarray) -> ItemParts:
    fields = problem.item_groups.field
    count = int(fields.max(initial=-1)) + 1
    every = problem.item_rows.take(item)
    rows = [_of_field(every, fields, number) for number in range(count)]
    lengths = (tables.features**2).sum(axis=1, keepdims=True)
    vectors = [own.dot(tables.features) for own in rows]
    biases = [own.dot(tables.feature_bias[:, None])[:, 0] for own in rows]
    squares = [own._replace(value=own.value**2).dot(lengths)[:, 0] for own in rows]
    shape = (count, len(item))
    return ItemParts(
        tables.items[item],
        tables.item_bias[item],
        np.reshape(vectors, (*shape, tables.items.shape[1])),
        np.reshape(biases, shape),
        np.reshape(squares, shape),
    )


def _of_field(rows: Rows, fields: np.ndarray, number: int) -> Rows:
    """The rows with nothing but the values of one field, in double precision."""
    mine = fields[rows.column] == number if len(rows.column) else np.zeros(0, bool)
    return rows._replace(value=np.where(mine, rows.value, 0.0).astype(np.float64))


def margins(weights: np.ndarray, parts: Parts) -> tuple[np.ndarray, np.ndarray]:
    """(g [n], dg/dweight [fields, n]): how far the chosen items stand above the others."""
    asked, described = np.split(weights, [len(parts.query)])
    q = parts.user + np.einsum("f,fnk->nk", asked, parts.query)
    sides = [_side(q, described, part) for part in (parts.positive, parts.negative)]
    (p, score, slopes), (other, below, less) = sides
    towards = np.einsum("fnk,nk->fn", parts.query, p - other)
    return score - below, np.concatenate([towards, slopes - less])


def _side(
    q: np.ndarray, weights: np.ndarray, part: ItemParts
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(item vectors p, scores, d score / d weight of each item field)."""
    p = part.own + np.einsum("f,fnk->nk", weights, part.vectors)
    alone = (part.own**2).sum(axis=1) + weights**2 @ part.squares
    inner = 0.5 * ((p * p).sum(axis=1) - alone)
    score = (q * p).sum(axis=1) + part.own_bias + weights @ part.biases + inner
    slopes = np.einsum("fnk,nk->fn", part.vectors, q + p) + part.biases
    return p, score, slopes - weights[:, None] * part.squares


def loss(point: np.ndarray, parts: Parts) -> tuple[float, np.ndarray, np.ndarray]:
    """(mean -ln sigma(sharpness * g) and the pull to 1, its gradient, its curvature).

    point: the weights, and last the sharpness; curvature: a matrix, of which the part that may be
    negative is left out (Gauss and Newton).
    """
    weights, sharpness = point[:-1], point[-1]
    g, slopes = margins(weights, parts)
    slopes = np.vstack([sharpness * slopes, g])
    pull = 1 / (len(g) * np.append(np.full(len(weights), PRIOR_SD), SHARPNESS_SD) ** 2)
    wrong = 1 / (1 + np.exp(np.minimum(sharpness * g, 500)))
    value = np.logaddexp(0, -sharpness * g).mean() + (pull / 2 * (point - 1) ** 2).sum()
    gradient = -(wrong * slopes).mean(axis=1) + pull * (point - 1)
    curvature = (slopes * (wrong * (1 - wrong))) @ slopes.T / len(g) + np.diag(pull)
    return float(value), gradient, curvature


def better(weights: np.ndarray, parts: Parts) -> np.ndarray:
    """Weights with a smaller loss: float64 [fields], never below 0.

    Margins that are too small or too large as a whole, as in training that has just begun, are
    taken up by the sharpness, which is then forgotten: a field must not grow for that.
    """
    point = np.append(weights, 1.0)
    value, gradient, curvature = loss(point, parts)
    for _ in range(STEPS):
        step = np.linalg.solve(curvature, gradient)
        for share in (1.0, 0.5, 0.25, 0.1):
            tried = np.clip(point - share * step, 0.0, MOST)
            found = loss(tried, parts)
            if found[0] < value:
                break
        else:
            break
        point, (value, gradient, curvature) = tried, found
    return point[:-1]
