"""What a recipe leaves open, settled by its loss and by the data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows, distinct_pairs
from fmpair.engine.contract import Problem
from fmpair.features import FeatureSpace
from fmpair.training.options import FACTORS, FMPairOptions


class L2(NamedTuple):
    """How hard users, items and their constants are regularised in a step."""

    user: float
    item: float
    bias: float

    @property
    def history(self) -> float:
        """What came before an event is told anew at every event: little is needed."""
        return self.item * HISTORY_SHARE

    @property
    def user3(self) -> float:
        """Of users' vectors of triples."""
        return self.user * USER3_SHARE

    @property
    def history3(self) -> float:
        """Of those of what came before."""
        return self.item * HISTORY3_SHARE


class FieldL2(NamedTuple):
    """What fields must pull harder than. free: one that changes from event to event; bound: one
    that stands for users, and so repeats what their own vectors say. strongest: the upper bound of
    a field's regularisation.
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
# Softmax regularises users of more items than this less, by the root of their number.
BROAD = 50.0
HISTORY_SHARE = 1 / 75  # of what regularises items, what does histories
# Of what regularises users and items, what does the vectors of triples of users and histories; of
# what a field must pull harder than, what its vectors of triples must.
USER3_SHARE, HISTORY3_SHARE, FIELD3_SHARE = 0.3, 1 / 20, 1.0
RAMP = 8  # epochs until fields' vectors of triples are regularised in full
# Users who are less even than this have favourites: they are regularised less, the less even they
# are, by this power of it.
EVEN, EVEN_POWER = 0.75, 2.5

# More factors rank better where there are events to learn them from, and cost as many times more.
MANY_EVENTS, FACTORS_OF_MANY = 100_000, 128

NEGATIVES = 32
# Softmax takes a negative for so many items, within bounds.
ITEMS_EACH, LEAST, MOST = 64, 8, 256
ITEMS_EACH_OF_FEW = 10  # of few items 32 are nearly all, the good ones among them
# Share of own negatives where users have favourites; none where they are as even as by design.
OWN, BY_DESIGN = 0.08, 0.85

# FieldL2 in multiples of what regularises users: of softmax, of the other losses, of all.
FREE, BOUND = 0.8, 3.0
FREE_OF_PAIRS = 1.5
STRONGEST = 50

# Of the learning rate, what is left in the last epoch. What came before changes with every event:
# only short steps at the end settle what is made of it.
FINAL_RATE_SHARE, FINAL_OF_HISTORIES = 0.1, 0.01

SAMPLE = 1_000_000  # events enough to tell how often users come back


def final_rate_share_of(options: FMPairOptions, space: FeatureSpace) -> float:
    """The share of the learning rate that is left in the last epoch."""
    if options.final_rate_share is not None:
        return float(options.final_rate_share)
    return FINAL_RATE_SHARE if space.history is None else FINAL_OF_HISTORIES


def factors_of(options: FMPairOptions, events: int) -> int:
    """The length of the vectors, with so many events to learn them from."""
    if options.factors is not None:
        return options.factors
    return FACTORS_OF_MANY if events >= MANY_EVENTS else FACTORS


def n_negatives_of(options: FMPairOptions, items: int) -> int:
    """How many negatives an event has: to rank more items well takes more of them."""
    if options.n_negatives is not None:
        return int(options.n_negatives)
    if options.loss != "softmax":
        return NEGATIVES
    few = max(items // ITEMS_EACH_OF_FEW, LEAST)
    return min(max(items // ITEMS_EACH, NEGATIVES), few, MOST)


def own_share_of(options: FMPairOptions, repeats: RepeatStats) -> float:
    """The share of negatives that are the user's other items: some, where users have favourites."""
    if options.own_share is not None:
        return float(options.own_share)
    if options.loss != "softmax" or options.logq_correction:
        return 0.0
    share = OWN * min(max(BY_DESIGN - repeats.evenness, 0.0) / (BY_DESIGN - EVEN), 1.0)
    return min(share, 1 - options.impression_share)  # both are shares of the same negatives


def l2_of(options: FMPairOptions, repeats: RepeatStats) -> L2:
    """How hard ids are regularised: softmax by what users do, the others always alike.

    A favourite chosen again says little new, but shrinks its user and itself once more.
    """
    if options.temperature is not None:
        return L2_OF_COSINES
    default = L2_BY_LOSS[options.loss]
    if options.loss != "softmax":
        return default
    share = min(1.0, (BROAD / max(repeats.breadth, 1.0)) ** 0.5)
    share *= min(1.0, repeats.evenness / EVEN) ** EVEN_POWER
    return L2(default.user * share, default.item * share, default.bias)


def field_l2_of(options: FMPairOptions, n_negatives: int) -> FieldL2:
    """How hard fields are regularised, in proportion to what the loss asks of users by default.

    Of few negatives hardly any is hard, so they pull less.
    """
    if options.loss != "softmax" or options.temperature is not None:
        pull = L2_BY_LOSS["bpr" if options.temperature is not None else options.loss].user
        return FieldL2(FREE_OF_PAIRS * pull, FREE_OF_PAIRS * pull, STRONGEST * pull)
    pull = L2_BY_LOSS["softmax"].user * min(n_negatives / NEGATIVES, 1) ** 0.5
    return FieldL2(FREE * pull, BOUND * pull, STRONGEST * pull)


def triple_field_l2_of(options: FMPairOptions, of_fields: FieldL2, of_ids: L2) -> FieldL2:
    """The same of vectors of triples: less where users are held less, since they have favourites.

    There is most to be learned of what one of them wants in one context.
    """
    if options.temperature is not None:
        return of_fields
    share = FIELD3_SHARE * min(of_ids.user / L2_BY_LOSS[options.loss].user, 1.0)
    return FieldL2(of_fields.free * share, of_fields.bound * share, of_fields.strongest)


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
