"""Visitors: the vector of somebody known by a few items only, in closed form.

Scores are taken for the logarithms of choices: an item is chosen with a chance that goes with
exp(scale * score). What the learned users are like says what to expect of a visitor: their mean,
and how they differ from it. One Newton step from that mean towards the items of the history is the
answer (Laplace's approximation); everything in it but the history is the same for all visitors.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from fmpair.arrays import Rows, tally
from fmpair.engine.contract import Parameters
from fmpair.fitted.question import known_rows

# Users and items without events: what stands in for all that was not learned about them.


RARE = 0.1  # share of the items with events that are taken for rare ones, by their events


def mean_user(users: np.ndarray, seen: Rows) -> np.ndarray:
    """float32 [factors]: the mean vector of users with events, the best guess for one unknown."""
    known = np.diff(seen.start) > 0
    return users[known].mean(axis=0) if known.any() else np.zeros(users.shape[1], np.float32)


def settle_cold(parameters: Parameters, seen: Rows) -> Parameters:
    """Ids never learned from: users get the mean user's vector, items none and a rare one's bias.

    Otherwise an item nobody chose would stand above known ones by chance. Changed in place.
    """
    times = tally(seen.column, len(parameters.items), seen.value)
    cold, warm = times == 0, times > 0
    absent = np.diff(seen.start) == 0
    parameters.users[absent] = mean_user(parameters.users, seen)
    if cold.any() and warm.any():
        rare = warm & (times <= np.quantile(times[warm], RARE))
        parameters.items[cold] = 0
        parameters.item_bias[cold] = parameters.item_bias[rare].mean()
    return parameters


MOST_USERS = 1 << 14  # whose vectors say how users differ
MOST_SCORES = 1 << 20  # by which the scale is found
WIDEST = 16.0  # the scale is looked for within so many times that of scores spread by 1
STEPS = 14  # halvings of that range, on a logarithmic axis


class Visitors(NamedTuple):
    """What all visitors have in common. scale: of the scores; mean: [k], the usual user's vector;
    centre: [k], the mean item vector of what a usual user chooses.

    basis: [k, k], directions in which users differ by 1; gain: [k], how much one event tells of
    each; inward: [k, k], what an event takes back of a vector that stands away from the mean.
    """

    scale: float
    mean: np.ndarray
    centre: np.ndarray
    basis: np.ndarray
    gain: np.ndarray
    inward: np.ndarray


def visitors(items: np.ndarray, constants: np.ndarray, users: np.ndarray, seen: Rows) -> Visitors:
    """Of a model: item vectors [items, k], constants [items], user vectors [users, k], events."""
    active = np.flatnonzero(np.diff(seen.start))
    some = _evenly(active, MOST_USERS)
    mean = mean_user(users, seen).astype(np.float64)
    apart = users[some] - mean
    spread = apart.T @ apart / max(len(some), 1)
    scale = _scale(items, constants, users, seen, _evenly(active, MOST_SCORES // len(items)))
    chance = _chances(scale * (items @ mean + constants))
    centre = chance @ items
    choices = scale * scale * ((items * chance[:, None]).T @ items - np.outer(centre, centre))
    variance, axes = np.linalg.eigh(spread)
    root = axes * np.sqrt(np.maximum(variance, 0))
    gain, turned = np.linalg.eigh(root.T @ choices @ root)
    basis = root @ turned
    return Visitors(scale, mean, centre, basis, np.maximum(gain, 0), choices @ basis)


class Known(Protocol):
    """What must be known to answer: see `Recommender`."""

    @property
    def parameters(self) -> Parameters: ...
    @property
    def item_vectors(self) -> np.ndarray: ...
    @property
    def user_rows(self) -> Rows: ...
    @property
    def seen(self) -> Rows: ...
    @property
    def visitors(self) -> Visitors: ...

    def folded(self, own: np.ndarray, rows: Rows) -> np.ndarray: ...


def moves(model: Known, user: np.ndarray, history: Rows) -> np.ndarray:
    """float32 [queries, k]: how far the histories of queries move their vectors.

    user: int32 [queries], -1 where unknown.
    """
    return moved(model.visitors, model.item_vectors, history, *_known(model, user))


def moves_of_items(model: Known, user: int, items: np.ndarray) -> np.ndarray:
    """float32 [items, k]: what each item of one history adds to how far it moves its query.

    user: -1 for a visitor. All that such a move divides by is how much was told in all.
    """
    one_each = Rows(np.arange(len(items) + 1), items, np.ones(len(items), np.float32))
    place, events = _known(model, np.full(len(items), user, np.int32))
    events = np.zeros(len(items)) if events is None else events
    return moved(model.visitors, model.item_vectors, one_each, place, events + len(items) - 1)


def _known(model: Known, user: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
    """(where users stand [queries, k], less the mean; how many events they were learned from).

    None where all are visitors.
    """
    if (user < 0).all():
        return None, None
    place = model.folded(model.parameters.users[user], known_rows(model.user_rows, user))
    place = place - model.visitors.mean
    place[user < 0] = 0
    start = model.seen.start
    events = np.where(user < 0, 0, start[np.maximum(user, 0) + 1] - start[np.maximum(user, 0)])
    return place, events


def moved(
    common: Visitors,
    items: np.ndarray,
    history: Rows,
    place: np.ndarray | None = None,
    events: np.ndarray | None = None,
) -> np.ndarray:
    """float32 [queries, k]: how far each history moves its query's vector.

    items: [items, k]. For users who are known: place [queries, k], where they stand, less the
    mean, and events [queries], how many they were learned from; both 0 for visitors.
    """
    count = np.diff(history.start).astype(np.float64)[:, None]
    pull = common.scale * (history.dot(items) - count * common.centre) @ common.basis
    if place is not None:
        pull -= count * (place @ common.inward)
    told = count if events is None else count + events[:, None]
    return (pull / (1 + told * common.gain) @ common.basis.T).astype(np.float32)


def _scale(
    items: np.ndarray, constants: np.ndarray, users: np.ndarray, seen: Rows, some: np.ndarray
) -> float:
    """By what scores are to be multiplied to be logarithms of chances: the most likely number.

    some: the users whose events are asked. The likelihood has one top, where it no longer rises.
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
    """[..., items]: the softmax of each row."""
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


def _evenly(numbers: np.ndarray, most: int) -> np.ndarray:
    """Up to so many of the numbers, evenly spaced, at least one where there is one."""
    count = min(len(numbers), max(most, 1))
    return numbers[np.linspace(0, len(numbers) - 1, count).astype(np.int64)] if count else numbers
