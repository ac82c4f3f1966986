"""The options that learning by FM-Pair reads: declared, described and checked in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fmpair import checks
from fmpair.cluster import check_on
from fmpair.data import Dataset
from fmpair.device import CPU, DEVICES
from fmpair.engine.contract import LOSSES, NEGATIVE_SAMPLERS, OPTIMIZERS, POSITIVES
from fmpair.errors import DataError, OptionError, named
from fmpair.features.field import Field
from fmpair.features.history_fields import history_field
from fmpair.features.space import Pairing, pairs_from

# How much an event counts: its weight as it is, its logarithm, or 1.


WEIGHTS = ("log", "linear", "none")
MOST_WEIGHT = 10.0  # of one event, in mean weights


def log_weights(weight: np.ndarray) -> np.ndarray:
    """1 + ln w from 1 on, w itself below: a hundred times count six times as much as one."""
    return np.where(weight < 1, weight, 1 + np.log(np.maximum(weight, 1)))


def event_weights(weights: str, data: Dataset) -> np.ndarray:
    """float32 [events]: how much each event counts, 1 on average."""
    if weights == "none" or "weight" not in data.columns.columns:
        return np.broadcast_to(np.float32(1), len(data))  # one number, however many events
    weight = log_weights(data.weight) if weights == "log" else data.weight
    if not weight.any():
        raise DataError("all weights are 0: nothing is left to learn from")
    # a single event must not take a step that undoes all others
    return np.minimum(weight / weight.mean(), MOST_WEIGHT).astype(np.float32)


ORDERS = (2, 3)
FACTORS = 64  # unless there are many events, see `training.defaults`


@dataclass(frozen=True)
class FMPairOptions:
    """How FM-Pair learns. Recipes of the family add options of their own, and other defaults.

    factors: length of the vectors. None: 64, and 128 from 100,000 events on.
    epochs: passes over the events. learning_rate: step length; it falls in a straight line.
    loss: what is learned from: pairs (bpr, hinge), each item for itself (logistic), the chosen
        item among several (softmax), the first of several that ranks too high (warp).
    regularization: one number for user and item vectors, or a mapping with any of user, item,
        negative, bias, context, user_features, item_features, or the name of a field; what is
        not given keeps its default.
    fields: options by column, see `Field`.
    weights: how an event's weight counts: log (1 + ln w from 1 on), linear, none; relative to
        the mean, and at most ten times it.
    history: what users did before, as features of the query: how many of their latest items (10,
        or 0 for none), options by name (last, fade, within, per, of; see `Field`), or auto: as the
        data say, where they have times.
    order: 2 lets every feature of a query meet every feature of an item; 3 also every pair of
        features of one side: what this user wants in this context. See `pairs`.
    damping: share of what popularity adds to the scores that is taken off when items are ranked;
        learning does not know of it, see `Recommender.damped`.
    threads: None uses all cores; the model does not depend on it. seed: of all draws.

    Order three
    -----------
    pairs: the fields of one side that meet, such as [[user, daytime], [user, history]], or
        [item, genre]; None for all.
    factors3: length of the vectors of triples. None: half of factors.

    Negatives
    ---------
    negative_sampler: how items the user has no event with are drawn: each alike (uniform), by their
        number of events (popularity), as items of events learned at the same time (batch), or
        those the model now ranks high (adaptive).
    n_negatives: how many negatives softmax and warp look at for each event; the others take one.
        None: 32; softmax takes one for every 64 items where these are more (up to 256), and a
        tenth of them where there are few.
    popularity_power: of an item's number of events, where negatives are drawn by popularity.
    rank_share: mean rank of adaptive negatives, as a share of the items.
    own_share: share of the negatives that are items of the user's other events; above 0 it is
        learned which of their own items users come back to. None takes it from the data: some
        with softmax where users keep to a few of their items, else 0.
    impression_share: share of the negatives that are items the user was shown and did not choose,
        as far as the data say; see `Dataset.with_impressions`.
    logq_correction: whether softmax takes the logarithm of how often an item is drawn off its
        score; popularity and batch then no longer work against popular items.

    Regularisation
    --------------
    regularization_power: an epoch's pull on the vector of a user (item) with n events goes with n
        to this power; 1 holds all alike at every event, 0 all alike in an epoch.
    sharing: steps of a value that n users (items) share are divided by n to this power. None
        takes it from the data: as far as the field stands for users (1 for what is known of
        them, 0 for a context that changes freely), and 0.5 for attributes of items.
    init_std: standard deviation of the first user and item vectors; fields start at zero.
    dropout: share of the query's factors that every step leaves out; against learning by heart.

    Scores
    ------
    temperature: None scores by products; a number by cosines divided by it, without biases.
    item_bias: whether items have a constant of their own.
    normalize: whether all features of a row sum to one.

    Engine
    ------
    optimizer: plain steps (sgd), or those of every user, item and value divided by the root of
        its squared gradients so far (adagrad), so that what is rare goes farther; minibatches
        also take adam. None: sgd on the cpu, adam elsewhere, at a twentieth of the learning rate.
    device: where to learn: cpu, cuda (a GPU, by minibatches and, with softmax, against all items
        rather than some negatives), torch (the same on the CPU), or auto: a GPU if there is one.
    final_rate_share: share of the learning rate left in the last epoch; 1 keeps it as it is. None:
        0.1, and 0.01 where histories are learned from.
    positives: how events are visited: each once (permutation), drawn (bootstrap), or a user
        drawn and then one of their events (user).
    blocks: B of the strata plan, None chooses by the size of the data.
    on: a cluster to learn on: ray (that of RAY_ADDRESS, else of this machine), or ray://host:port.
        None: this process. The model does not depend on it.
    """

    factors: int | None = None
    epochs: int = 25
    learning_rate: float = 0.1
    final_rate_share: float | None = None
    optimizer: str | None = None
    regularization: float | Mapping[str, float] | None = None
    regularization_power: float = 1.0
    init_std: float = 0.01
    positives: str = "permutation"
    negative_sampler: str = "uniform"
    loss: str = "softmax"
    n_negatives: int | None = None
    temperature: float | None = None
    popularity_power: float = 0.25
    rank_share: float = 0.2
    own_share: float | None = None
    sharing: float | None = None
    impression_share: float = 0.0
    logq_correction: bool = False
    weights: str = "log"
    item_bias: bool = True
    order: int = 2
    pairs: Sequence[Sequence[str]] | None = None
    factors3: int | None = None
    damping: float = 0.0
    dropout: float = 0.0
    history: int | str | Mapping[str, Any] | Field | None = 0
    fields: Mapping[str, Any] = field(default_factory=dict)
    normalize: bool = False
    threads: int | None = None
    seed: int = 0
    blocks: int | None = None
    device: str = CPU
    on: str | None = None

    def __post_init__(self) -> None:
        if self.factors is not None:
            checks.whole("factors", self.factors, 1)
        checks.whole("epochs", self.epochs, 1)
        checks.positive("learning_rate", self.learning_rate)
        if self.final_rate_share is not None:
            checks.not_negative("final_rate_share", self.final_rate_share)
        if self.optimizer is not None:
            checks.one_of("optimizer", self.optimizer, OPTIMIZERS)
        checks.one_of("device", self.device, DEVICES)
        self._check_on()
        checks.not_negative("regularization_power", self.regularization_power)
        checks.not_negative("init_std", self.init_std)
        checks.one_of("positives", self.positives, POSITIVES)
        checks.one_of("loss", self.loss, LOSSES)
        if self.temperature is not None:
            checks.positive("temperature", self.temperature)
        if self.sharing is not None:
            checks.not_negative("sharing", self.sharing)
        self._check_negatives()
        self._check_query()
        self._check_order()
        checks.one_of("weights", self.weights, WEIGHTS)
        checks.number("damping", self.damping)
        checks.whole("seed", self.seed, 0)
        for name in ("n_negatives", "threads", "blocks"):
            if getattr(self, name) is not None:
                checks.whole(name, getattr(self, name), 1)
        checks.regularization(self.regularization)

    def _check_on(self) -> None:
        if self.on is None:
            return
        check_on(self.on)
        if self.device != CPU:
            raise OptionError(
                f"{named('on', self.on)} learns on CPUs: leave {named('device')} out, or learn on "
                "one machine"
            )

    def _check_query(self) -> None:
        history_field(self.history)
        checks.not_negative("dropout", self.dropout)
        if self.dropout >= 1:
            raise OptionError(f"{named('dropout')} must be below 1, not {self.dropout!r}")
        if self.dropout and self.temperature is not None:
            raise OptionError(
                f"{named('dropout')} is of products: leave it out, or {named('temperature')}"
            )

    def _check_order(self) -> None:
        if self.order not in ORDERS:
            raise OptionError(f"the order must be 2 or 3, not {self.order!r}")
        pairs_from(self.pairs)
        if self.factors3 is not None:
            checks.whole("factors3", self.factors3, 1)
        for name in ("pairs", "factors3"):
            if self.order == 2 and getattr(self, name) is not None:
                raise OptionError(f"{named(name)} goes with order three")

    @property
    def pairing(self) -> Pairing | None:
        """What the terms of order three are to be; None for order two."""
        if self.order == 2:
            return None
        factors = self.factors3 or max((self.factors or FACTORS) // 2, 1)
        return Pairing(factors, pairs_from(self.pairs), items=self.temperature is None)

    def _check_negatives(self) -> None:
        checks.one_of("negative_sampler", self.negative_sampler, NEGATIVE_SAMPLERS)
        checks.not_negative("popularity_power", self.popularity_power)
        checks.positive("rank_share", self.rank_share)
        if self.own_share is not None:
            checks.not_negative("own_share", self.own_share)
        checks.not_negative("impression_share", self.impression_share)
        shares = (self.own_share or 0.0) + self.impression_share
        if shares > (self.loss != "warp"):
            raise OptionError(
                f"{named('own_share')} and {named('impression_share')} must be at most 1 together, "
                f"and 0 with {named('loss', 'warp')}"
            )
        corrects = self.loss == "softmax" and self.negative_sampler in ("popularity", "batch")
        if self.logq_correction and (shares or not corrects):
            raise OptionError(
                f"{named('logq_correction')} is of {named('loss', 'softmax')} with the "
                f"{named('negative_sampler')} popularity or batch, and no {named('own_share')} or "
                f"{named('impression_share')}: they are not drawn by popularity"
            )


def refuse_histories(options: FMPairOptions) -> None:
    """Raise OptionError where a recipe whose steps know nothing of histories is to learn them."""
    if options.history or options.dropout:
        name = "history" if options.history else "dropout"
        raise OptionError(f"{type(options).__name__} has no {named(name)}: leave it out")


def refuse_triples(options: FMPairOptions) -> None:
    """Raise OptionError where a recipe whose steps know pairs alone is to learn triples."""
    if options.order != 2:
        raise OptionError(f"{type(options).__name__} is of order two: leave the order out")


def refuse_cosines(options: FMPairOptions) -> None:
    """Raise OptionError where a recipe whose steps are made for products is to score by cosines."""
    if options.temperature is not None:
        raise OptionError(f"{type(options).__name__} scores by products: leave temperature out")
