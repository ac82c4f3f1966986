"""What a recipe leaves open, settled by its loss and by the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fmpair.arrays import Rows, distinct_pairs

if TYPE_CHECKING:
    from fmpair.engine.contract import Problem


class L2(NamedTuple):
    """How hard users, items and their constants are held in a step."""

    user: float
    item: float
    bias: float


class FieldL2(NamedTuple):
    """What fields must pull harder than. free: one that changes from event to event; bound: one
    that stands for users, and so repeats what their own vectors say. strongest: the upper bound of
    what holds a field.
    """

    free: float
    bound: float
    strongest: float


class RepeatStats(NamedTuple):
    """What users do. evenness: from 1, where users choose each of their items as often as the
    others (or once), down towards 0, where they keep to a few of them; breadth: mean number of
    different items that a user has.
    """

    evenness: float
    breadth: float


# Found on validation parts of the public sets, see docs/model.md.
L2_BY_LOSS = {
    "bpr": L2(0.01, 0.005, 0.05),
    "hinge": L2(0.06, 0.03, 0.05),
    "logistic": L2(0.04, 0.02, 0.05),
    "softmax": L2(0.15, 0.075, 0.05),
    "warp": L2(0.15, 0.075, 0.1),
}
L2_OF_COSINES = L2(0.001, 0.0005, 0.0)  # a cosine does not grow with the vectors: little is needed
# Softmax holds users of more items less, by the root of their number.
BROAD = 50.0
NEGATIVES = 32
ITEMS_EACH, LEAST, MOST = 64, 8, 256  # softmax: a candidate for so many items, within bounds
# Users who are less even than that have favourites: they are held less, the less even they are.
EVEN = 0.75
# Share of own negatives where users have favourites; none where they are as even as by design.
OWN, BY_DESIGN = 0.08, 0.85
FREE, BOUND = 0.8, 3.0  # FieldL2 of softmax, in multiples of what holds users
SAMPLE = 1_000_000  # events enough to tell how often users come back


def n_negatives_of(recipe: Any, items: int) -> int:
    """How many negatives an event has: to rank more items well takes more of them."""
    if recipe.n_negatives is not None:
        return int(recipe.n_negatives)
    if recipe.loss != "softmax":
        return NEGATIVES
    few = max(items // 10, LEAST)  # of few items 32 are nearly all, the good ones among them
    return min(max(items // ITEMS_EACH, NEGATIVES), few, MOST)


def own_share_of(recipe: Any, repeats: RepeatStats) -> float:
    """The share of negatives that are the user's other items: some, where users have favourites."""
    if recipe.own_share is not None:
        return float(recipe.own_share)
    if recipe.loss != "softmax" or recipe.logq_correction:
        return 0.0
    share = OWN * min(max(BY_DESIGN - repeats.evenness, 0.0) / (BY_DESIGN - EVEN), 1.0)
    return min(share, 1 - recipe.impression_share)  # both are shares of the same negatives


def l2_of(recipe: Any, repeats: RepeatStats) -> L2:
    """How hard ids are held: softmax by what users do, the others always alike.

    A favourite chosen again says little new, but holds its user and itself once more.
    """
    if recipe.temperature is not None:
        return L2_OF_COSINES
    usual = L2_BY_LOSS[recipe.loss]
    if recipe.loss != "softmax":
        return usual
    share = min(1.0, (BROAD / max(repeats.breadth, 1.0)) ** 0.5)
    share *= min(1.0, repeats.evenness / EVEN) ** 2.5
    return L2(usual.user * share, usual.item * share, usual.bias)


def field_l2_of(recipe: Any, n_negatives: int) -> FieldL2:
    """How hard fields are held, in proportion to what the loss usually holds users by.

    Of few candidates hardly any is hard, so they pull less.
    """
    if recipe.loss != "softmax" or recipe.temperature is not None:
        pull = L2_BY_LOSS["bpr" if recipe.temperature is not None else recipe.loss].user
        return FieldL2(1.5 * pull, 1.5 * pull, 50 * pull)
    pull = L2_BY_LOSS["softmax"].user * min(n_negatives / NEGATIVES, 1) ** 0.5
    return FieldL2(FREE * pull, BOUND * pull, 50 * pull)


def repeat_stats(problem: Problem, seen: Rows | None) -> RepeatStats:
    """What users do, by the events to learn from, or by all that was seen where that is known."""
    if seen is None:
        # whole users, since a part of one's events would look more even
        mine = problem.user % max(len(problem.user) // SAMPLE, 1) == 0
        seen = distinct_pairs(problem.user[mine], problem.item[mine], problem.users)
    times = seen.value.astype(np.float64)
    events = np.bincount(seen.owner, times, seen.size)
    squares = np.bincount(seen.owner, times**2, seen.size)
    different, active = np.diff(seen.start), events > 0
    if not active.any():
        return RepeatStats(1.0, 1.0)
    even = events[active] ** 2 / squares[active] / different[active]
    return RepeatStats(
        float(np.average(even, weights=events[active])), float(different[active].mean())
    )
