"""Defaults that depend on the loss and on the data: factors, negatives, regularisation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows, distinct_pairs, multiples
from fmpair.device import CPU, resolve_device
from fmpair.engine.contract import Problem
from fmpair.features import FeatureSpace
from fmpair.training.options import FACTORS, FMPairOptions

# These values were chosen on validation parts of the public sets, see docs/model.md.
HISTORY_SHARE = 1 / 25  # regularisation of histories, as a share of that of items
# Regularisation of vectors of triples, as a share of that of the vectors of pairs (histories: of
# that of items).
USER3_SHARE, HISTORY3_SHARE, FIELD3_SHARE = 0.3, 1 / 80, 1.0
# Epochs over which the regularisation of fields' vectors of triples grows to its full value.
RAMP = 8

# With softmax, the regularisation of users is multiplied by BROAD / (mean items of a user), or by
# its square root if that is below 1. Without a history, the factor is at most MAX_OF_SAMPLED
# (sampled negatives) or MAX_OF_EXACT (softmax over all items).
BROAD, MAX_OF_SAMPLED, MAX_OF_EXACT = 50.0, 1.0, 2.0
MAX_PACE = 2.0  # in minibatches, steps are up to MAX_PACE times as long for such users
# With a history, dropout is used if items have fewer than MANY events on average. The share of kept
# factors is at least MIN_KEPT, and at least MIN_FACTORS factors are kept. Sampled negatives and the
# items of a block already add noise, so the share is multiplied by KEPT_OF_SAMPLED with them.
MANY, MIN_KEPT, MIN_FACTORS, KEPT_OF_SAMPLED = 1000.0, 0.2, 50, 2.0
# If users come once, their own vectors are learned at the end: OWN_EPOCHS epochs at OWN_PACE times
# the learning rate, while all else is fixed.
OWN_EPOCHS, OWN_PACE = 5, 6
# If users have favourites (a spread below EVEN), the regularisation is multiplied by
# (spread / EVEN) ** EVEN_POWER.
EVEN, EVEN_POWER = 0.75, 5.0

# Rankings improve with more factors. Training time is proportional to the number of factors on a
# CPU, and grows little on a GPU, where few events have FACTORS_OF_MANY too. On a GPU, ids alone
# have FACTORS_OF_IDS if there are at most MAX_REPEATED events. Histories, whose factors have
# dropout, and contexts gain nothing from more than FACTORS_OF_MANY.
MANY_EVENTS, FACTORS_OF_MANY, FACTORS_OF_IDS = 100_000, 256, 512
MAX_REPEATED = 5_000_000  # with more events, a fit takes too long to be repeated in trials

# If lists have more values than there are factors, known and new items are ranked better with more
# factors.
FACTORS_OF_LISTS = 2  # multiplies the usual number

NEGATIVES = 32
# Softmax draws one negative per ITEMS_EACH items, but at least NEGATIVES and at most MAX_NEGATIVES.
ITEMS_EACH, MIN_NEGATIVES, MAX_NEGATIVES = 64, 8, 256
# Small catalogues have one negative per ITEMS_EACH_OF_FEW items, but at least MIN_NEGATIVES:
# NEGATIVES would include nearly all items.
ITEMS_EACH_OF_FEW = 10
# The largest share of negatives drawn from the user's own items. It is reached at an evenness of
# EVEN and falls to 0 at an evenness of BY_DESIGN.
OWN, BY_DESIGN = 0.08, 0.85

# FieldL2 in multiples of the regularisation of users.
FREE, BOUND = 0.8, 3.0  # with softmax
FREE_OF_PAIRS = 1.5  # with other losses
STRONGEST = 50  # with all losses

# Share of the learning rate in the last epoch. It is smaller with a history, whose features change
# with every event.
FINAL_RATE_SHARE, FINAL_OF_HISTORIES = 0.1, 0.01

SAMPLE = 1_000_000  # events from which `repeat_stats` are estimated


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
    """Thresholds of the group lasso: a field whose gradients stay below its threshold becomes zero.

    free: the threshold of a field whose value changes from event to event. bound: that of a field
    which identifies users, and so duplicates their own vectors. strongest: the upper bound of a
    field's regularisation.
    """

    free: float
    bound: float
    strongest: float


class RepeatStats(NamedTuple):
    """How users repeat items.

    evenness: 1 if users choose each of their items equally often, near 0 if most of their events
    are of a few items. spread: the same, corrected for repeats by chance, which matter most for
    users with few events. breadth: the mean number of different items of a user.
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
L2_OF_COSINES = L2(0.001, 0.0005, 0.0)  # cosines do not grow with the length of the vectors


def final_rate_share_of(options: FMPairOptions, space: FeatureSpace) -> float:
    """Return the share of the learning rate left in the last epoch."""
    if options.final_rate_share is not None:
        return float(options.final_rate_share)
    return FINAL_RATE_SHARE if space.history is None else FINAL_OF_HISTORIES


def pace_of(repeats: RepeatStats) -> float:
    """Return what the learning rate is multiplied by in minibatches.

    Slopes of softmax over all items are less steep than those of sampled negatives, so vectors of
    users with few items need longer steps to be learned.
    """
    return min(max(BROAD / max(repeats.breadth, 1.0), 1.0), MAX_PACE)


def factors_of(options: FMPairOptions, events: int) -> int:
    """Return the number of factors for this number of events."""
    if options.factors is not None:
        return options.factors
    many = events >= MANY_EVENTS or resolve_device(options.device) != CPU
    return FACTORS_OF_MANY if many else FACTORS


def factors_with(factors: int, values: int) -> int:
    """Return the number of factors if the content of items has lists of `values` values."""
    return factors * FACTORS_OF_LISTS if values > factors else factors


def factors_of_ids(options: FMPairOptions, factors: int, events: int) -> int:
    """Return the number of factors if events have users and items alone."""
    on_gpu = resolve_device(options.device) != CPU and options.loss == "softmax"
    return FACTORS_OF_IDS if on_gpu and events <= MAX_REPEATED else factors


def n_negatives_of(options: FMPairOptions, items: int) -> int:
    """Return the number of negatives per event, which grows with the number of items."""
    if options.n_negatives is not None:
        return int(options.n_negatives)
    if options.loss != "softmax":
        return NEGATIVES
    few = max(items // ITEMS_EACH_OF_FEW, MIN_NEGATIVES)
    return min(max(items // ITEMS_EACH, NEGATIVES), few, MAX_NEGATIVES)


def own_share_of(options: FMPairOptions, repeats: RepeatStats) -> float:
    """Return the share of negatives drawn from the user's other items; 0 without favourites."""
    if options.own_share is not None:
        return float(options.own_share)
    corrected = options.logq_correction and options.negative_sampler != "uniform"
    if options.loss != "softmax" or corrected:
        return 0.0
    share = OWN * min(max(BY_DESIGN - repeats.evenness, 0.0) / (BY_DESIGN - EVEN), 1.0)
    return min(share, 1 - options.impression_share)  # both are shares of the same negatives


class Setting(NamedTuple):
    """What regularisation depends on besides `RepeatStats`.

    exact: whether the softmax is over all items; in_blocks: whether it is over those of a block,
    which stand for all items. history: whether queries have a history. events_per_item: the mean
    number of events of an item. factors: the length of the vectors.
    """

    exact: bool
    in_blocks: bool
    history: bool
    events_per_item: float
    factors: int


def logq_correction_of(options: FMPairOptions, setting: Setting) -> bool:
    """Return whether the scores of sampled negatives are corrected to estimate the full softmax.

    By default they are for the items of a block, and for uniform negatives with a history. Without
    the correction, the gradient vanishes once the chosen item outscores the few sampled negatives.
    A model with a history can rank the chosen item above nearly all others, so the correction
    improves it. Without a history it makes gradients with few negatives noisier.
    """
    if options.logq_correction is not None:
        return options.logq_correction
    uniform = options.loss == "softmax" and options.negative_sampler == "uniform"
    return uniform and (setting.history or setting.in_blocks) and options.temperature is None


def dropout_of(options: FMPairOptions, setting: Setting) -> float:
    """Return the dropout, which keeps histories from overfitting if items have few events.

    The share of kept factors grows with the square root of the events per item. Short vectors lose
    fewer factors, or none.
    """
    if options.dropout is not None:
        return options.dropout
    if not setting.history or options.loss != "softmax" or options.temperature is not None:
        return 0.0
    kept, least = (setting.events_per_item / MANY) ** 0.5, MIN_KEPT
    if not setting.exact:
        kept *= KEPT_OF_SAMPLED
    if not (setting.exact or setting.in_blocks):
        least *= KEPT_OF_SAMPLED
    return max(1.0 - max(kept, least, MIN_FACTORS / setting.factors), 0.0)


def l2_of(options: FMPairOptions, repeats: RepeatStats, setting: Setting) -> L2:
    """Return the regularisation of ids; for softmax it depends on how users choose items.

    Users with few items are regularised more in two cases: with softmax over all items or those of
    a block, whose gradients do not vanish, and with a history, which explains most choices. Users
    with favourites are regularised less: each repeat of a favourite adds little information, but
    shrinks the vectors of the user and the item once more.
    """
    if options.temperature is not None:
        return L2_OF_COSINES
    default = L2_BY_LOSS[options.loss]
    if options.loss != "softmax":
        return default
    few = BROAD / max(repeats.breadth, 1.0)
    user = max(few, few**0.5)
    if not setting.history:
        user = min(user, MAX_OF_EXACT if setting.exact or setting.in_blocks else MAX_OF_SAMPLED)
    item = min(user, 1.0) if setting.history else user
    even = min(1.0, repeats.spread / EVEN) ** EVEN_POWER
    return L2(default.user * user * even, default.item * item * even, default.bias)


def options_of_own(
    options: FMPairOptions, repeats: RepeatStats, given: Mapping[str, float]
) -> FMPairOptions:
    """Return the options by which users' own vectors are learned after a history.

    given: the regularisation of all else.
    """
    setting = Setting(exact=True, in_blocks=True, history=False, events_per_item=1.0, factors=1)
    return replace(
        options,
        epochs=OWN_EPOCHS,
        learning_rate=options.learning_rate * OWN_PACE,
        dropout=0.0,
        regularization={**given, "user": l2_of(options, repeats, setting).user},
        on=None,  # too little work for a cluster
    )


def field_l2_of(options: FMPairOptions, n_negatives: int) -> FieldL2:
    """Return the regularisation of fields, a multiple of that of users.

    It is weaker with few negatives, since few of them score near the chosen item.
    """
    if options.loss != "softmax" or options.temperature is not None:
        l2 = L2_BY_LOSS["bpr" if options.temperature is not None else options.loss].user
        return FieldL2(FREE_OF_PAIRS * l2, FREE_OF_PAIRS * l2, STRONGEST * l2)
    l2 = L2_BY_LOSS["softmax"].user * min(n_negatives / NEGATIVES, 1) ** 0.5
    return FieldL2(FREE * l2, BOUND * l2, STRONGEST * l2)


def triple_field_l2_of(options: FMPairOptions, of_fields: FieldL2, of_ids: L2) -> FieldL2:
    """Return the regularisation of fields' vectors of triples.

    It is weaker if users have favourites: from such data, most can be learned about what a user
    wants in a context.
    """
    if options.temperature is not None:
        return of_fields
    share = FIELD3_SHARE * min(of_ids.user / L2_BY_LOSS[options.loss].user, 1.0)
    return FieldL2(of_fields.free * share, of_fields.bound * share, of_fields.strongest)


def sampled(user: np.ndarray) -> slice | np.ndarray:
    """Return the events of a sample of users, which has about SAMPLE, or of all if there are few.

    A sample of events would have fewer repeats.
    """
    every = len(user) // SAMPLE
    return multiples(user, every) if every >= 2 else slice(None)


def repeat_stats(problem: Problem, seen: Rows | None) -> RepeatStats:
    """Return how users repeat items; seen: items of each user with counts, if known."""
    if seen is None:
        some = sampled(problem.user)
        seen = distinct_pairs(problem.user[some], problem.item[some], problem.users)
    times = seen.value.astype(np.float64)
    events = np.bincount(seen.owner, times, seen.size)
    squares = np.bincount(seen.owner, times**2, seen.size)
    different, active = np.diff(seen.start), events > 0
    if not active.any():
        return RepeatStats(1.0, 1.0, 1.0)
    events, squares, different = events[active], squares[active], different[active]
    # the share of a user's pairs of events in which both are of the same item
    same = (squares - events) / np.maximum(events * (events - 1), 1)
    spread = 1 / np.maximum(same * different, 1)
    return RepeatStats(
        float(np.average(events**2 / squares / different, weights=events)),
        float(np.average(spread, weights=events)),
        float(different.mean()),
    )
