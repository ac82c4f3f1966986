"""Vectors of visitors, who are known by a few items only, and of items and users without events.

A visitor's vector has a closed form. The probability of an item is proportional to
exp(scale * score). The prior is normal, with the mean and covariance of the learned users. The
vector is one Newton step from the mean, for the likelihood of the visitor's items (Laplace's
approximation).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows, tally
from fmpair.engine.contract import Parameters, Triples
from fmpair.engine.item_side import item_sides, pair_columns

SHORTEST = 1e-3  # a sum of attributes shorter than this share of the mean length is ignored
MAX_KNOWN = 1 << 13  # known items from which means are computed
RARE = 0.1  # share of the items with events that count as rare
MAX_USERS = 1 << 14  # users from whose vectors the covariance is computed
MAX_SCORES = 1 << 20  # scores from which the scale is computed
WIDEST = 16.0  # the scale times the scores' standard deviation is at most this, at least 1 / this
STEPS = 14  # bisection steps for the logarithm of the scale


def mean_user(users: np.ndarray, seen: Rows) -> np.ndarray:
    """Return the mean vector of users with events: float32 [factors]."""
    known = np.diff(seen.start) > 0
    return users[known].mean(axis=0) if known.any() else np.zeros(users.shape[1], np.float32)


@dataclass(frozen=True, eq=False)
class UserSide:
    """The mean user vector, computed once.

    Copies of a model share it as long as they have the same table of users and the same events.
    """

    users: np.ndarray
    seen: Rows

    @cached_property
    def mean(self) -> np.ndarray:
        return mean_user(self.users, self.seen)


def settle_cold(parameters: Parameters, seen: Rows, times: np.ndarray | None = None) -> Parameters:
    """Set users without events to the mean vector, and items without events to `rare_bias`.

    The vectors of these items become 0. Otherwise an item that nobody chose could rank above known
    items by chance. Changes the tables in place.
    times: number of events of each item, None to count it in `seen`.
    """
    if times is None:
        times = tally(seen.column, len(parameters.items), seen.value)
    cold = times == 0
    absent = np.diff(seen.start) == 0
    parameters.users[absent] = mean_user(parameters.users, seen)
    if cold.any() and not cold.all():
        parameters.items[cold] = 0
        parameters.item_bias[cold] = rare_bias(parameters.item_bias, times)
    return parameters


class Placing(NamedTuple):
    """How items without events are placed by the sum of the vectors of their content.

    length: to which the sum is scaled. constant: of the item's scores.
    """

    length: float
    constant: float


def placing(
    parameters: Parameters, rows: Rows, content: Rows, times: np.ndarray, triples: Triples | None
) -> Placing | None:
    """Return how new items are placed; None if no item with events has content.

    rows: the attributes of items; content: their lists and vectors only; times: number of events of
    each item.

    The sum of a list's vectors is longer if training has seen more of its values, which says
    nothing about the item. So sums of new items are scaled to the root mean square length of known
    ones. The biases of known items compensate for the constants of their values, so new items get
    the mean constant of rare items.
    """
    known = np.flatnonzero((np.diff(content.start) > 0) & (times > 0))
    if not len(known):
        return None
    pairs = pair_columns(parameters.items.shape[1], triples)
    sums = content.take(_evenly(known, MAX_KNOWN)).dot(parameters.features[:, :pairs])
    warm = np.flatnonzero(times > 0)
    rare = _evenly(warm[times[warm] <= np.quantile(times[warm], RARE)], MAX_KNOWN)
    return Placing(
        np.sqrt(np.einsum("ik,ik->i", sums, sums).mean()),
        _constants(parameters, rows, rare, triples).mean(),
    )


def place_new(
    parameters: Parameters, rows: Rows, content: Rows, times: np.ndarray, triples: Triples | None
) -> Parameters:
    """Return parameters that rank items without events by the direction of their content.

    Changes the tables in place. The arguments are those of `placing`.
    """
    new = np.flatnonzero((np.diff(content.start) > 0) & (times == 0))
    found = placing(parameters, rows, content, times, triples) if len(new) else None
    if found is None:
        return parameters
    pairs = pair_columns(parameters.items.shape[1], triples)
    sums = content.take(new).dot(parameters.features[:, :pairs])
    length = np.sqrt(np.einsum("ik,ik->i", sums, sums))[:, None]
    long = length > SHORTEST * found.length
    parameters.items[new, :pairs] = long * (found.length / np.where(long, length, 1) - 1) * sums
    parameters.item_bias[new] += found.constant - _constants(parameters, rows, new, triples)
    return parameters


def _constants(
    parameters: Parameters, rows: Rows, items: np.ndarray, triples: Triples | None
) -> np.ndarray:
    """Return the constants of these items, given by their numbers."""
    p = parameters
    vectors, bias = p.items[items], p.item_bias[items]
    return item_sides(vectors, bias, rows.take(items), p.features, p.feature_bias, triples)[1]


def rare_bias(item_bias: np.ndarray, times: np.ndarray) -> float:
    """Return the mean bias of the rarest items with events, for items without; 0 if none has any.

    item_bias: [items]. times: [items], the number of events of each.
    """
    warm = times > 0
    if not warm.any():
        return 0.0
    return float(item_bias[warm & (times <= np.quantile(times[warm], RARE))].mean())


class Visitors(NamedTuple):
    """The arrays that the vectors of all visitors are computed from.

    scale: of the scores. mean: [k], the mean user vector. centre: [k], the expected item vector of
    an event of the mean user. basis: [k, k], directions in which users have variance 1. gain: [k],
    the Fisher information of one event in each direction. inward: [k, k], the Fisher information
    times the basis: how an event pulls a vector back to the mean.
    """

    scale: float
    mean: np.ndarray
    centre: np.ndarray
    basis: np.ndarray
    gain: np.ndarray
    inward: np.ndarray


def visitors(items: np.ndarray, constants: np.ndarray, users: np.ndarray, seen: Rows) -> Visitors:
    """Compute `Visitors` from items [items, k], constants [items], users [users, k] and events."""
    active = np.flatnonzero(np.diff(seen.start))
    sample = _evenly(active, MAX_USERS)
    mean = mean_user(users, seen).astype(np.float64)
    centred = users[sample] - mean
    covariance = centred.T @ centred / max(len(sample), 1)
    scale = _scale(items, constants, users, seen, _evenly(active, MAX_SCORES // len(items)))
    chance = _chances(scale * (items @ mean + constants))
    centre = chance @ items
    information = scale * scale * ((items * chance[:, None]).T @ items - np.outer(centre, centre))
    variance, axes = np.linalg.eigh(covariance)
    root = axes * np.sqrt(np.maximum(variance, 0))
    gain, rotation = np.linalg.eigh(root.T @ information @ root)
    basis = root @ rotation
    return Visitors(scale, mean, centre, basis, np.maximum(gain, 0), information @ basis)


def history_moves(
    common: Visitors,
    items: np.ndarray,
    history: Rows,
    offset: np.ndarray | None = None,
    events: np.ndarray | None = None,
) -> np.ndarray:
    """Return how far each history moves its query's vector: float32 [queries, k].

    items: [items, k]. offset: [queries, k], the vector of a known user minus the mean, 0 for
    visitors. events: [queries], the number of the user's training events, 0 for visitors.
    """
    count = np.diff(history.start).astype(np.float64)[:, None]
    pull = common.scale * (history.dot(items) - count * common.centre) @ common.basis
    if offset is not None:
        pull -= count * (offset @ common.inward)
    total = count if events is None else count + events[:, None]
    return (pull / (1 + total * common.gain) @ common.basis.T).astype(np.float32)


def _scale(
    items: np.ndarray, constants: np.ndarray, users: np.ndarray, seen: Rows, sample: np.ndarray
) -> float:
    """Return the factor that makes scores log-probabilities, by maximum likelihood.

    sample: numbers of the users whose events are used. The likelihood has one maximum, which
    bisection finds.
    """
    rows = seen.take(sample)
    if not len(rows.column):
        return 1.0
    scores = users[sample].astype(np.float32) @ items.T + constants
    observed = float(scores[rows.owner, rows.column].mean())
    share = np.diff(rows.start) / len(rows.column)
    spread = float(scores.std()) or 1.0
    low, high = -np.log(WIDEST * spread), np.log(WIDEST / spread)
    for _ in range(STEPS):
        middle = (low + high) / 2
        chance = _chances(np.float32(np.exp(middle)) * scores)
        expected = float(share @ np.einsum("ui,ui->u", chance, scores))
        low, high = (middle, high) if expected < observed else (low, middle)
    return float(np.exp((low + high) / 2))


def _chances(scores: np.ndarray) -> np.ndarray:
    """Return the softmax of each row: [..., items]."""
    odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)


def _evenly(numbers: np.ndarray, most: int) -> np.ndarray:
    """Return up to `most` of the numbers, evenly spaced, at least one if there is one."""
    count = min(len(numbers), max(most, 1))
    return numbers[np.linspace(0, len(numbers) - 1, count).astype(np.int64)] if count else numbers
