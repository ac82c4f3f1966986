"""Defaults that depend on the loss and on the data: factors, negatives, regularisation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows, distinct_pairs, multiples
from fmpair.device import CPU, resolve_device
from fmpair.engine.contract import Problem
from fmpair.features import FeatureSpace
from fmpair.training.options import FACTORS, FMPairOptions

# Found on validation parts of the public sets, see docs/model.md.
HISTORY_SHARE = 1 / 25  # regularisation of histories, as a share of that of items
# Regularisation of vectors of triples, as a share of that of the vectors of pairs.
USER3_SHARE, HISTORY3_SHARE, FIELD3_SHARE = 0.3, 1 / 20, 1.0
RAMP = 8  # epochs until fields' vectors of triples are regularised in full

# Softmax multiplies the regularisation of users by BROAD / (items of a user), by its root if users
# have more than BROAD items. Without a history, MAX_OF_SAMPLED or MAX_OF_EXACT bounds the factor.
BROAD, MAX_OF_SAMPLED, MAX_OF_EXACT = 50.0, 1.0, 2.0
# With a history, dropout is used if items have fewer events than MANY. It keeps at least the share
# MIN_KEPT and MIN_FACTORS factors. Sampled negatives add noise already, so KEPT_OF_SAMPLED times
# that share is kept with them.
MANY, MIN_KEPT, MIN_FACTORS, KEPT_OF_SAMPLED = 1000.0, 0.2, 50, 2.0
# Users with favourites (a spread below EVEN) are regularised less, by this power of the spread.
EVEN, EVEN_POWER = 0.75, 5.0

# More factors rank better. The cost is proportional to them on a CPU and small on a GPU.
MANY_EVENTS, FACTORS_OF_MANY, FACTORS_ON_GPU = 100_000, 192, 256

# Lists of more values than factors lose rank, for known items and for new ones.
FACTORS_OF_LISTS = 2  # times the usual number

NEGATIVES = 32
# Softmax draws one negative per ITEMS_EACH items, bounded.
ITEMS_EACH, MIN_NEGATIVES, MAX_NEGATIVES = 64, 8, 256
ITEMS_EACH_OF_FEW = 10  # with few items, 32 negatives would include nearly all of them
# Share of own negatives if users have favourites; 0 from an evenness of BY_DESIGN on.
OWN, BY_DESIGN = 0.08, 0.85

# FieldL2 in multiples of the regularisation of users: softmax, other losses, all losses.
FREE, BOUND = 0.8, 3.0
FREE_OF_PAIRS = 1.5
STRONGEST = 50

# Share of the learning rate in the last epoch. Histories change with every event, so they need
# shorter steps at the end.
FINAL_RATE_SHARE, FINAL_OF_HISTORIES = 0.1, 0.01

SAMPLE = 1_000_000  # events enough to tell how often users come back


class L2(NamedTuple):
    """The regularisation of users, items and item constants in a step."""

    user: float
    item: float
    bias: float

    @property
    def history(self) -> float:
        """The regularisation of histories: weak, since their features change with every event."""
        return self.item * HISTORY_SHARE

    @property
    def user3(self) -> float:
        """The regularisation of the users' vectors of triples."""
        return self.user * USER3_SHARE

    @property
    def history3(self) -> float:
        """The regularisation of the histories' vectors of triples."""
        return self.item * HISTORY3_SHARE


class FieldL2(NamedTuple):
    """Thresholds that the gradients of fields must exceed.

    free: of a field that changes from event to event; bound: of one that stands for users, and so
    repeats their own vectors. strongest: the upper bound of a field's regularisation.
    """

    free: float
    bound: float
    strongest: float


class RepeatStats(NamedTuple):
    """How users repeat items. evenness: 1 if users choose each of their items equally often, down
    towards 0 if they keep to a few of them; spread: the same without repeats by chance, which users
    of few events have most of; breadth: mean number of different items of a user.
    """

    evenness: float
    spread: float
    breadth: float


L2_BY_LOSS = {
    "bpr": L2(0.01, 0.005, 0.05),
    "hinge": L2(0.06, 0.03, 0.05),
    "logistic": L2(0.04, 0.02, 0.05),
    "softmax": L2(0.15, 0.075, 0.05),
    "warp": L2(0.15, 0.075, 0.1),
}
L2_OF_COSINES = L2(0.001, 0.0005, 0.0)  # cosines do not grow with the vectors


def final_rate_share_of(options: FMPairOptions, space: FeatureSpace) -> float:
    """Return the share of the learning rate left in the last epoch."""
    if options.final_rate_share is not None:
        return float(options.final_rate_share)
    return FINAL_RATE_SHARE if space.history is None else FINAL_OF_HISTORIES


def factors_of(options: FMPairOptions, events: int) -> int:
    """Return the length of the vectors for so many events."""
    if options.factors is not None:
        return options.factors
    if resolve_device(options.device) != CPU:
        return FACTORS_ON_GPU
    return FACTORS_OF_MANY if events >= MANY_EVENTS else FACTORS


def factors_with(factors: int, values: int) -> int:
    """Return the length of the vectors where items have lists of so many values as content."""
    return factors * FACTORS_OF_LISTS if values > factors else factors


def n_negatives_of(options: FMPairOptions, items: int) -> int:
    """Return the number of negatives per event: more items need more of them."""
    if options.n_negatives is not None:
        return int(options.n_negatives)
    if options.loss != "softmax":
        return NEGATIVES
    few = max(items // ITEMS_EACH_OF_FEW, MIN_NEGATIVES)
    return min(max(items // ITEMS_EACH, NEGATIVES), few, MAX_NEGATIVES)


def own_share_of(options: FMPairOptions, repeats: RepeatStats) -> float:
    """Return the share of negatives that are the user's other items, if users have favourites."""
    if options.own_share is not None:
        return float(options.own_share)
    corrected = options.logq_correction and options.negative_sampler != "uniform"
    if options.loss != "softmax" or corrected:
        return 0.0
    share = OWN * min(max(BY_DESIGN - repeats.evenness, 0.0) / (BY_DESIGN - EVEN), 1.0)
    return min(share, 1 - options.impression_share)  # both are shares of the same negatives


class Setting(NamedTuple):
    """What regularisation depends on besides repeats. exact: softmax over all items; history:
    whether queries have one; events_per_item: how much there is to learn a history from; factors:
    the length of the vectors.
    """

    exact: bool
    history: bool
    events_per_item: float
    factors: int


def logq_correction_of(options: FMPairOptions, setting: Setting) -> bool:
    """Return whether negatives stand for all items: by default uniform ones, with a history.

    Without the correction, softmax stops learning once the chosen item outscores the few negatives
    that were drawn. Histories can rank the chosen item above nearly all others, so they gain.
    Without a history the correction gains nothing, and few negatives are noisier with it.
    """
    if options.logq_correction is not None:
        return options.logq_correction
    uniform = options.loss == "softmax" and options.negative_sampler == "uniform"
    return uniform and setting.history and options.temperature is None


def dropout_of(options: FMPairOptions, setting: Setting) -> float:
    """Return the dropout: with few events per item, histories would fit noise.

    The share of factors that are kept grows with the root of an item's events. Short vectors have
    no factors to spare.
    """
    if options.dropout is not None:
        return options.dropout
    if not setting.history or options.loss != "softmax" or options.temperature is not None:
        return 0.0
    kept = max((setting.events_per_item / MANY) ** 0.5, MIN_KEPT)
    kept = max(kept * (1.0 if setting.exact else KEPT_OF_SAMPLED), MIN_FACTORS / setting.factors)
    return max(1.0 - kept, 0.0)


def l2_of(options: FMPairOptions, repeats: RepeatStats, setting: Setting) -> L2:
    """Return the regularisation of ids; for softmax it depends on how users choose items.

    Users of few items are regularised more with softmax over all items, whose gradients do not
    vanish, and with a history, which carries most of the signal. A repeated favourite says little
    new, but would shrink its user and itself once more.
    """
    if options.temperature is not None:
        return L2_OF_COSINES
    default = L2_BY_LOSS[options.loss]
    if options.loss != "softmax":
        return default
    few = BROAD / max(repeats.breadth, 1.0)
    user = max(few, few**0.5)
    if not setting.history:
        user = min(user, MAX_OF_EXACT if setting.exact else MAX_OF_SAMPLED)
    item = min(user, 1.0) if setting.history else user
    even = min(1.0, repeats.spread / EVEN) ** EVEN_POWER
    return L2(default.user * user * even, default.item * item * even, default.bias)


def field_l2_of(options: FMPairOptions, n_negatives: int) -> FieldL2:
    """Return the regularisation of fields, relative to that of users.

    It is weaker with few negatives, of which hardly any is hard.
    """
    if options.loss != "softmax" or options.temperature is not None:
        pull = L2_BY_LOSS["bpr" if options.temperature is not None else options.loss].user
        return FieldL2(FREE_OF_PAIRS * pull, FREE_OF_PAIRS * pull, STRONGEST * pull)
    pull = L2_BY_LOSS["softmax"].user * min(n_negatives / NEGATIVES, 1) ** 0.5
    return FieldL2(FREE * pull, BOUND * pull, STRONGEST * pull)


def triple_field_l2_of(options: FMPairOptions, of_fields: FieldL2, of_ids: L2) -> FieldL2:
    """Return the same for vectors of triples: weaker if users have favourites.

    Then there is most to learn about what a user wants in a context.
    """
    if options.temperature is not None:
        return of_fields
    share = FIELD3_SHARE * min(of_ids.user / L2_BY_LOSS[options.loss].user, 1.0)
    return FieldL2(of_fields.free * share, of_fields.bound * share, of_fields.strongest)


def repeat_stats(problem: Problem, seen: Rows | None) -> RepeatStats:
    """Return how users repeat items; seen: items of each user with counts, if known."""
    if seen is None:
        # a sample of users with all their events, since some of them would look more even
        user, item = problem.user, problem.item
        if len(user) >= 2 * SAMPLE:
            sample = multiples(user, len(user) // SAMPLE)
            user, item = user[sample], item[sample]
        seen = distinct_pairs(user, item, problem.users)
    times = seen.value.astype(np.float64)
    events = np.bincount(seen.owner, times, seen.size)
    squares = np.bincount(seen.owner, times**2, seen.size)
    different, active = np.diff(seen.start), events > 0
    if not active.any():
        return RepeatStats(1.0, 1.0, 1.0)
    events, squares, different = events[active], squares[active], different[active]
    # how many of a user's pairs of events are of one item
    same = (squares - events) / np.maximum(events * (events - 1), 1)
    spread = 1 / np.maximum(same * different, 1)
    return RepeatStats(
        float(np.average(events**2 / squares / different, weights=events)),
        float(np.average(spread, weights=events)),
        float(different.mean()),
    )
