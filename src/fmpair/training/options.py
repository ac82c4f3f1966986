"""The options of FM-Pair training: declared, described and checked in one place."""

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

FACTORS = 128  # the default, see `training.defaults.factors_of` for more
WEIGHTS = ("log", "linear", "none")
MAX_WEIGHT = 10.0  # largest weight of an event, in multiples of the mean weight


@dataclass(frozen=True)
class FMPairOptions:
    """The training options of FM-Pair. Recipes of the family add their own, and other defaults.

    factors: length of the vectors. None: 128, 256 from 100,000 events on and on a GPU; with
        softmax twice that if lists of items have more values and predict what users choose, and on
        a GPU if there are users and items alone (up to 5 million events).
    epochs: passes over the events. learning_rate: step size; it decreases linearly. On the CPU,
        steps in minibatches are up to twice as long.
    loss: what a step compares: bpr and hinge pairs of items, logistic single items with 0 or 1,
        softmax the chosen item with several, warp with the first of several that ranks too high.
    regularization: one number for user and item vectors, or a mapping with any of user, item,
        negative, bias, context, user_features, item_features, or the name of a field; groups that
        are not given keep their defaults. None: chosen from the data; `FMPair` also compares more
        and less of it in trials (softmax, no history, up to 5 million events).
    fields: options by column, see `Field`.
    weights: how an event's weight counts: log (1 + ln w from 1 on), linear, none; relative to
        the mean weight, and at most ten times as much.
    history: the user's previous items as features of the query: how many of the latest (10, or 0
        for none), options by name (last, fade, within, per, of, repeat; see `Field`), or auto: the
        last 20 if the events have times and a trial shows that they help.
    order: 2 for products of query and item features; 3 also for products of three features, two of
        them of one side, such as user, context and item; auto: 3 for users in their contexts, or
        for pairs of earlier items, if a trial shows that it helps. See `pairs`.
    damping: share of an item's popularity that is subtracted from its score when items are ranked;
        training ignores it, see `Recommender.damped`.
    threads: None uses all cores; the model does not depend on it. seed: of all random draws.

    Order three
    -----------
    pairs: the fields of one side that are combined, such as [[user, daytime], [user, history]], or
        [item, genre]; None for all.
    factors3: length of the vectors of triples. None: half of factors; if a trial chose pairs of
        earlier items, a quarter of all factors are of triples.

    Negatives
    ---------
    negative_sampler: how to draw items that the user has no event with: uniform, popularity (by
        number of events), batch (items of events trained at the same time), or adaptive (items
        that the model ranks high).
    n_negatives: sampled negatives per event for softmax and warp; the other losses use one.
        None: softmax compares an event with all items on a GPU, and on the CPU with all items of a
        block if there are users, items and a history alone. Else it takes 32, one per 64 items if
        these are more (up to 256), or a tenth of the items (at least 8) if that is less. warp takes
        32.
    popularity_power: exponent of an item's number of events, for drawing by popularity.
    rank_share: mean rank of adaptive negatives, as a share of the items.
    own_share: share of negatives that are items of the user's other events; above 0 the model
        learns which of their items users come back to. None: chosen from the data; above 0 only
        with softmax, if most events of users are of a few of their items.
    impression_share: share of negatives that the user was shown and did not choose, if the data
        has impressions; see `Dataset.with_impressions`.
    logq_correction: whether softmax subtracts the logarithm of an item's sampling probability from
        its score, so that popularity and batch sampling do not penalise popular items, and uniform
        negatives represent all items. None: only for the items of a block, and for uniform
        negatives of queries with a history.

    Regularisation
    --------------
    regularization_power: the regularisation of a user (item) with n events in an epoch grows with n
        to this power; 1 regularises once per event, 0 equally per epoch.
    sharing: steps of a value shared by n users (items) are divided by n to this power. None:
        chosen from the data: from 0 for a context that changes with every event to 1 for
        attributes of users, and 0.5 for attributes of items.
    init_std: standard deviation of the initial user and item vectors; fields start at zero.
    dropout: share of the query's factors left out in every step. None: 0 without a history; with a
        history and softmax, larger if items have fewer events.

    Scores
    ------
    temperature: None scores by dot products; a number scores by cosines divided by it, without
        biases.
    item_bias: whether items have a constant of their own.
    normalize: whether all features of a row sum to one.

    Engine
    ------
    optimizer: how steps are made: sgd (plain steps), adagrad (steps divided by the root of the
        squared gradients so far of a user, item or value), or, on torch, adam. None: sgd on the
        cpu, else adam, whose rate is the learning rate times 0.8 / sqrt(factors).
    device: where to train: cpu, cuda (a GPU with minibatches; softmax then uses all items instead
        of those of a block), torch (the same on the CPU), or auto: a GPU if there is one.
    final_rate_share: share of the learning rate left in the last epoch; 1 keeps it constant. None:
        0.1, or 0.01 with histories.
    positives: how events are visited: each once (permutation), drawn (bootstrap), or a user
        drawn and then one of their events (user).
    blocks: B of the strata plan. None: chosen by the size of the data.
    on: a cluster to train on: ray (that of RAY_ADDRESS, else a new one on this machine), or
        ray://host:port. None: this process. The model does not depend on it.
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
    logq_correction: bool | None = None
    weights: str = "log"
    item_bias: bool = True
    order: int | str = 2
    pairs: Sequence[Sequence[str]] | None = None
    factors3: int | None = None
    damping: float = 0.0
    dropout: float | None = None
    history: int | str | Mapping[str, Any] | Field | None = 0
    fields: Mapping[str, Any] = field(default_factory=dict)
    normalize: bool = False
    threads: int | None = None
    seed: int = 0
    blocks: int | None = None
    device: str = CPU
    on: str | None = None

    def __post_init__(self) -> None:
        for name in ("factors", "n_negatives", "threads", "blocks", "factors3"):
            if getattr(self, name) is not None:
                checks.whole(name, getattr(self, name), 1)
        checks.whole("epochs", self.epochs, 1)
        checks.positive("learning_rate", self.learning_rate)
        for name in ("final_rate_share", "sharing", "own_share"):
            if getattr(self, name) is not None:
                checks.not_negative(name, getattr(self, name))
        if self.optimizer is not None:
            checks.one_of("optimizer", self.optimizer, OPTIMIZERS)
        if self.device == "gpu":
            raise OptionError(f"{named('device')} takes 'cuda' for a GPU, not 'gpu'")
        checks.one_of("device", self.device, DEVICES)
        self._check_on()
        checks.not_negative("regularization_power", self.regularization_power)
        checks.not_negative("init_std", self.init_std)
        checks.one_of("positives", self.positives, POSITIVES)
        checks.one_of("loss", self.loss, LOSSES)
        if self.temperature is not None:
            checks.positive("temperature", self.temperature)
        self._check_negatives()
        self._check_query()
        self._check_order()
        checks.one_of("weights", self.weights, WEIGHTS)
        checks.number("damping", self.damping)
        checks.whole("seed", self.seed, 0)
        checks.regularization(self.regularization)

    def _check_on(self) -> None:
        if self.on is None:
            return
        check_on(self.on)
        if self.device != CPU:
            raise OptionError(
                f"{named('on', self.on)} and {named('device', self.device)} cannot be combined: a "
                "cluster trains on CPUs"
            )

    def _check_query(self) -> None:
        history = history_field(self.history)
        if history is not None and history.repeat and self.temperature is not None:
            raise OptionError(
                f"repeat of {named('history')} and {named('temperature')} cannot be combined"
            )
        if self.dropout is not None:
            checks.not_negative("dropout", self.dropout)
        if self.dropout is not None and self.dropout >= 1:
            raise OptionError(f"{named('dropout')} must be below 1, not {self.dropout!r}")
        if self.dropout and self.temperature is not None:
            raise OptionError(f"{named('dropout')} and {named('temperature')} cannot be combined")

    def _check_order(self) -> None:
        if self.order not in self._orders():
            allowed = " or ".join(map(str, self._orders()))
            raise OptionError(f"{named('order')} must be {allowed}, not {self.order!r}")
        pairs_from(self.pairs)
        for name in ("pairs", "factors3"):
            if self.order != 3 and getattr(self, name) is not None:
                raise OptionError(f"{named(name)} requires {named('order', 3)}")

    def _check_negatives(self) -> None:
        checks.one_of("negative_sampler", self.negative_sampler, NEGATIVE_SAMPLERS)
        checks.not_negative("popularity_power", self.popularity_power)
        checks.positive("rank_share", self.rank_share)
        checks.not_negative("impression_share", self.impression_share)
        shares = (self.own_share or 0.0) + self.impression_share
        if shares > (self.loss != "warp"):
            raise OptionError(
                f"{named('own_share')} and {named('impression_share')} must sum to at most 1, and "
                f"to 0 with {named('loss', 'warp')}"
            )
        sampler, uniform = self.negative_sampler, self.negative_sampler == "uniform"
        corrects = self.loss == "softmax" and sampler in ("uniform", "popularity", "batch")
        if self.logq_correction and (not corrects or (shares and not uniform)):
            raise OptionError(
                f"{named('logq_correction')} requires {named('loss', 'softmax')} and "
                f"{named('negative_sampler')} uniform, popularity or batch, the last two without "
                f"{named('own_share')} and {named('impression_share')}"
            )

    def _orders(self) -> tuple[int | str, ...]:
        return (2, 3)

    @property
    def places_new(self) -> bool:
        """Whether items without events are ranked by their content, see `fitted.visitor`."""
        return self.loss == "softmax" and self.temperature is None

    @property
    def regresses(self) -> bool:
        """Whether content is fitted to item vectors by regression, see `training.content`."""
        return self.places_new and self.sharing is None

    @property
    def pairing(self) -> Pairing | None:
        """The terms of order three; None for order two."""
        if self.order != 3:
            return None
        factors = self.factors3 or max((self.factors or FACTORS) // 2, 1)
        return Pairing(factors, pairs_from(self.pairs), items=self.temperature is None)


def require_plain_scores(options: FMPairOptions) -> None:
    """Raise OptionError for options that recipes with a special training step do not support."""
    unsupported = {
        "temperature": options.temperature is not None,
        "history": bool(options.history),
        "dropout": bool(options.dropout),
        "order": options.order != 2,
    }
    for name, given in unsupported.items():
        if given:
            raise OptionError(f"{type(options).__name__} does not support {named(name)}")


def log_weights(weight: np.ndarray) -> np.ndarray:
    """Return 1 + ln w for w from 1 on, else w: a weight of 100 counts as much as 6 of 1."""
    return np.where(weight < 1, weight, 1 + np.log(np.maximum(weight, 1)))


def event_weights(weights: str, data: Dataset) -> np.ndarray:
    """Return how much each event counts, 1 on average: float32 [events]."""
    if weights == "none" or "weight" not in data.columns.columns:
        return np.broadcast_to(np.float32(1), len(data))  # one number in memory
    weight = log_weights(data.weight) if weights == "log" else data.weight
    if not weight.any():
        raise DataError("all event weights are 0: there is nothing to learn from")
    # a single event must not take a step that undoes all others
    return np.minimum(weight / weight.mean(), MAX_WEIGHT).astype(np.float32)
