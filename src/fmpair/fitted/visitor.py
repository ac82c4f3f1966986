"""Visitors: the vector of somebody known by a few items only, in closed form.

An item is chosen with a probability proportional to exp(scale * score). The learned users are the
prior of a visitor: their mean and covariance. One Newton step from the mean towards the items of
the history gives the vector (Laplace's approximation); only the history differs between visitors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows, tally
from fmpair.engine.contract import Parameters, Triples
from fmpair.engine.item_side import item_sides, pair_columns

FAINTEST = 1e-3  # a sum of attributes shorter than this share of the usual one has no direction
MAX_KNOWN = 1 << 13  # known items that new ones are compared with
RARE = 0.1  # share of the items with events that count as rare
MAX_USERS = 1 << 14  # whose vectors give the covariance
MAX_SCORES = 1 << 20  # from which the scale is found
WIDEST = 16.0  # the scale is searched within this factor of the one for scores of spread 1
STEPS = 14  # halvings of that range, on a logarithmic axis


def mean_user(users: np.ndarray, seen: Rows) -> np.ndarray:
    """Return the mean vector of users with events: float32 [factors]."""
    known = np.diff(seen.start) > 0
    return users[known].mean(axis=0) if known.any() else np.zeros(users.shape[1], np.float32)


def settle_cold(parameters: Parameters, seen: Rows, times: np.ndarray | None = None) -> Parameters:
    """Give users without events the mean vector, items without events no vector and a rare bias.

    Otherwise an item nobody chose could rank above known ones by chance. Changes the tables.
    times: how often each item was chosen, None to count it in `seen`.
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


def place_new(
    parameters: Parameters, rows: Rows, content: Rows, times: np.ndarray, triples: Triples | None
) -> Parameters:
    """Return parameters with items without events placed by the direction of their content.

    rows: the attributes of items; content: those of lists and vectors only; times: how often each
    was chosen. How long the sum of a list's vectors is tells how many of its values are known, not
    how good the item is; and the constants of values are learned beside the biases of known items,
    which make up for them. So the sums of new items get the usual length of those of known ones,
    and new items the mean constant of rare ones. Changes the tables.
    """
    described = np.diff(content.start) > 0
    new, known = np.flatnonzero(described & (times == 0)), np.flatnonzero(described & (times > 0))
    if not len(new) or not len(known):
        return parameters
    pairs, features = pair_columns(parameters.items.shape[1], triples), parameters.features
    usual = np.sqrt(_squares(content, features[:, :pairs], _evenly(known, MAX_KNOWN)).mean())
    sums = content.take(new).dot(features[:, :pairs])
    length = np.sqrt(np.einsum("ik,ik->i", sums, sums))[:, None]
    some = length > FAINTEST * usual
    parameters.items[new, :pairs] = some * (usual / np.where(some, length, 1) - 1) * sums
    warm = np.flatnonzero(times > 0)
    rare = _evenly(warm[times[warm] <= np.quantile(times[warm], RARE)], MAX_KNOWN)
    wanted = _constants(parameters, rows, rare, triples).mean()
    parameters.item_bias[new] += wanted - _constants(parameters, rows, new, triples)
    return parameters


def _squares(content: Rows, features: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Return the squared lengths of the sums of some items."""
    sums = content.take(some).dot(features)
    return np.einsum("ik,ik->i", sums, sums)


def _constants(
    parameters: Parameters, rows: Rows, some: np.ndarray, triples: Triples | None
) -> np.ndarray:
    """Return the constants of some items."""
    p = parameters
    own = (p.items[some], p.item_bias[some], rows.take(some), p.features, p.feature_bias)
    return item_sides(*own, triples)[1]


def rare_bias(item_bias: np.ndarray, times: np.ndarray) -> float:
    """Return the mean bias of rare items, for items that nobody chose yet; 0 without events.

    item_bias, times: [items]; times: how often each was chosen.
    """
    warm = times > 0
    if not warm.any():
        return 0.0
    return float(item_bias[warm & (times <= np.quantile(times[warm], RARE))].mean())


class Visitors(NamedTuple):
    """What all visitors have in common.

    scale: of the scores; mean: [k], the average user's vector; centre: [k], the mean item vector of
    what an average user chooses; basis: [k, k], directions in which users have variance 1; gain:
    [k], the information of one event in each direction; inward: [k, k], the pull of an event back
    to the mean.
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
    some = _evenly(active, MAX_USERS)
    mean = mean_user(users, seen).astype(np.float64)
    apart = users[some] - mean
    spread = apart.T @ apart / max(len(some), 1)
    scale = _scale(items, constants, users, seen, _evenly(active, MAX_SCORES // len(items)))
    chance = _chances(scale * (items @ mean + constants))
    centre = chance @ items
    choices = scale * scale * ((items * chance[:, None]).T @ items - np.outer(centre, centre))
    variance, axes = np.linalg.eigh(spread)
    root = axes * np.sqrt(np.maximum(variance, 0))
    gain, turned = np.linalg.eigh(root.T @ choices @ root)
    basis = root @ turned
    return Visitors(scale, mean, centre, basis, np.maximum(gain, 0), choices @ basis)


def history_moves(
    common: Visitors,
    items: np.ndarray,
    history: Rows,
    place: np.ndarray | None = None,
    events: np.ndarray | None = None,
) -> np.ndarray:
    """Return how far each history moves its query's vector: float32 [queries, k].

    items: [items, k]. For known users place [queries, k] is their vector less the mean, and events
    [queries] the number of their training events; both are 0 for visitors.
    """
    count = np.diff(history.start).astype(np.float64)[:, None]
    pull = common.scale * (history.dot(items) - count * common.centre) @ common.basis
    if place is not None:
        pull -= count * (place @ common.inward)
    total = count if events is None else count + events[:, None]
    return (pull / (1 + total * common.gain) @ common.basis.T).astype(np.float32)


def _scale(
    items: np.ndarray, constants: np.ndarray, users: np.ndarray, seen: Rows, some: np.ndarray
) -> float:
    """Return the factor that makes scores log-probabilities, by maximum likelihood.

    some: the users whose events count. The likelihood has one maximum, found by bisection.
    """
    own = seen.take(some)
    if not len(own.column):
        return 1.0
    scores = users[some].astype(np.float32) @ items.T + constants
    wanted = float(scores[own.owner, own.column].mean())
    share = np.diff(own.start) / len(own.column)
    spread = float(scores.std()) or 1.0
    low, high = -np.log(WIDEST * spread), np.log(WIDEST / spread)
    for _ in range(STEPS):
        middle = (low + high) / 2
        chance = _chances(np.float32(np.exp(middle)) * scores)
        expected = float(share @ np.einsum("ui,ui->u", chance, scores))
        low, high = (middle, high) if expected < wanted else (low, middle)
    return float(np.exp((low + high) / 2))


def _chances(scores: np.ndarray) -> np.ndarray:
    """Return the softmax of each row: [..., items]."""
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


def _evenly(numbers: np.ndarray, most: int) -> np.ndarray:
    """Return up to `most` of the numbers, evenly spaced, at least one if there is one."""
    count = min(len(numbers), max(most, 1))
    return numbers[np.linspace(0, len(numbers) - 1, count).astype(np.int64)] if count else numbers
