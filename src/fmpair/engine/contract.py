"""The contract of all engines: their input, the parameters they learn, and their methods.

An engine is a module with `begin(problem, parameters, settings) -> Training`, obtained by
`fmpair.engine.engine(name)`. The reference engine defines the result. All data are arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from fmpair.arrays import Rows

POSITIVES = ("permutation", "bootstrap", "user")
NEGATIVE_SAMPLERS = ("uniform", "popularity", "batch", "adaptive")
LOSSES = ("bpr", "hinge", "logistic", "softmax", "warp")
OPTIMIZERS = ("sgd", "adagrad", "adam")
LISTED = ("softmax", "warp")  # losses over several candidates per positive
# Steps with dropout are divided by 1 + STEEPEST * rate * square of the query: an implicit step for
# p (1 - p), the largest curvature of a sigmoid or softmax, so that no rate makes them diverge.
STEEPEST = 0.25


class Groups(NamedTuple):
    """The fields that the features of a side belong to. One entry per feature in every array.

    field: int32. share: float32, the feature's share of its field's occurrences. owners: float32,
    the mean number of users (or items) per value of the field; sharing: float32, steps are divided
    by owners to this power, see `strata.field_regularisation`. centred: whether the vectors of the
    field keep a mean (weighted by share) of zero.
    """

    field: np.ndarray
    share: np.ndarray
    owners: np.ndarray
    sharing: np.ndarray
    centred: np.ndarray


class History(NamedTuple):
    """Earlier items of each user, used as query features of an event.

    start: int64 [users + 1], item: int32 [entries]: the items of each user, oldest first. until:
    int32 [events], the entry after the last one that an event may use; since: the first one, empty
    for the user's first entry. weight: float32 [length], by recency, the latest entry first. rows:
    over the query features, one row per item; these features come last and occur in no other row.
    shared: the features are the items, in their order, and use the item vectors, see
    `shared_item_rows`.
    """

    start: np.ndarray
    item: np.ndarray
    until: np.ndarray
    since: np.ndarray
    weight: np.ndarray
    rows: Rows
    shared: bool = False


class Meeting(NamedTuple):
    """The pairs of features of a side that take part in triples.

    own: the group of the id (user or item); group: int8 [features]. meets: float32 [groups,
    groups], symmetric: 1 where the features of two groups form pairs, else 0.
    """

    own: int
    group: np.ndarray
    meets: np.ndarray


class Triples(NamedTuple):
    """Terms of order three; the last `factors` columns of all tables belong to them.

    query: pairs of query features, combined with each item feature; item: pairs of item features,
    combined with each query feature. See `engine.item_side`.
    """

    factors: int
    query: Meeting
    item: Meeting

    @property
    def mirrored(self) -> bool:
        """Whether item features form pairs."""
        return bool(self.item.meets.any())


class Problem(NamedTuple):
    """The events to learn from and the features of both sides.

    user, item, situation: int32 [events]; weight: float32 [events]. known: bool [events], positives
    that are not learned from. drawn: bool [items], items that may be drawn as negatives. contexts,
    user_rows: rows over the query features, one per situation and per user. item_rows: rows over
    the item features, one per item. impressions: rows over the items, one per user: items shown to
    the user. history, triples: None where unused.
    """

    user: np.ndarray
    item: np.ndarray
    weight: np.ndarray
    known: np.ndarray
    drawn: np.ndarray
    situation: np.ndarray
    contexts: Rows
    user_rows: Rows
    item_rows: Rows
    query_groups: Groups
    item_groups: Groups
    impressions: Rows | None = None
    history: History | None = None
    triples: Triples | None = None

    @property
    def users(self) -> int:
        return self.user_rows.size

    @property
    def items(self) -> int:
        return self.item_rows.size

    @property
    def has_query_features(self) -> bool:
        rows = len(self.contexts.column) > 0 or len(self.user_rows.column) > 0
        return rows or self.history is not None


class Parameters(NamedTuple):
    """The learned tables, float32: vectors [rows, factors] (of pairs, then of triples), biases
    [rows]."""

    users: np.ndarray
    items: np.ndarray
    item_bias: np.ndarray
    query: np.ndarray
    features: np.ndarray
    feature_bias: np.ndarray


class L2Scale(NamedTuple):
    """Factors on the L2 regularisation of user and item vectors: float32, by row."""

    users: np.ndarray
    items: np.ndarray


class TripleL2(NamedTuple):
    """L2 regularisation of triple vectors.

    user, item: of ids. query, features: float32, by row. query_threshold, feature_threshold: as in
    `Settings`. ramp: epochs until the regularisation of fields is in full force.
    """

    user: float
    item: float
    query: np.ndarray
    features: np.ndarray
    query_threshold: np.ndarray
    feature_threshold: np.ndarray
    ramp: int = 0


class Settings(NamedTuple):
    """Options of training.

    user, positive, negative, bias: L2 of the id tables; query, features: L2 by row, float32.
    query_threshold, feature_threshold: by row; where above 0, L2 follows the strength of the field,
    see `strata.field_regularisation`; strongest: its upper bound. user_rate, item_rate,
    feature_rate: factors on the learning rate; 0 freezes. blocks: B of the strata plan;
    partition_every: epochs between partitions. loss: one of LOSSES; n_negatives: at most, per
    positive. temperature: 0 for products, else cosines divided by it, without biases.
    negative_sampler: one of NEGATIVE_SAMPLERS; popularity_power: exponent of item counts;
    rank_share: mean rank of adaptive negatives as a share of the items. own_share,
    impression_share: shares of negatives taken from the user's other items, and from items shown
    but not chosen. logq_correction: subtract log sampling probabilities from scores; of uniform
    negatives, the logarithm of their share of all items. dropout: share of query factors dropped
    per step; products only. optimizer: one of OPTIMIZERS. l2_scale: None for 1. all_items: softmax
    over all items, in the strata plan over those of the block, see `strata.minibatches`. device:
    `cpu` or `cuda`; it and adam belong to the torch engine. on: address of the Ray cluster.
    """

    seed: int
    positives: str
    blocks: int
    partition_every: int
    threads: int
    user: float
    positive: float
    negative: float
    bias: float
    query: np.ndarray
    features: np.ndarray
    query_threshold: np.ndarray
    feature_threshold: np.ndarray
    strongest: float = 0.5
    user_rate: float = 1.0
    item_rate: float = 1.0
    feature_rate: float = 1.0
    learn_bias: bool = True
    loss: str = "bpr"
    n_negatives: int = 1
    temperature: float = 0.0
    negative_sampler: str = "uniform"
    popularity_power: float = 0.25
    rank_share: float = 0.2
    own_share: float = 0.0
    impression_share: float = 0.0
    logq_correction: bool = False
    dropout: float = 0.0
    optimizer: str = "sgd"
    l2_scale: L2Scale | None = None
    triples: TripleL2 | None = None
    engine: str = "cpu"
    all_items: bool = False
    device: str = "cpu"
    on: str = ""

    @property
    def in_plain_pairs(self) -> bool:
        """Whether the fast kernel for BPR pairs can be used."""
        others = self.temperature or self.own_share or self.impression_share or self.dropout
        paced = self.optimizer != "sgd" or self.l2_scale or self.triples
        return self.loss == "bpr" and self.negative_sampler == "uniform" and not (others or paced)

    @property
    def in_minibatches(self) -> bool:
        """Whether the cells of the strata plan are learned in minibatches."""
        return self.all_items and self.engine != "torch"

    @property
    def has_bias(self) -> bool:
        """Whether item biases are learned."""
        return self.learn_bias and not self.temperature

    @property
    def drawn_power(self) -> float:
        """The exponent of item counts in the sampling probabilities."""
        return self.popularity_power if self.negative_sampler == "popularity" else 1.0


class Pairs(NamedTuple):
    """Given pairs of items of a user: `positive` should rank above `negative`.

    user, positive, negative, situation: int32 [pairs], numbered as in the problem; weight: float32.
    """

    user: np.ndarray
    positive: np.ndarray
    negative: np.ndarray
    situation: np.ndarray
    weight: np.ndarray


class Training(Protocol):
    """Training in progress. The result depends only on problem, settings and epochs."""

    def epoch(self, number: int, rate: float) -> float:
        """Run one epoch (counted from 1) at a learning rate; return the mean loss of its steps."""
        ...

    def learn_pairs(self, pairs: Pairs, rate: float) -> float:
        """Take a BPR step on each pair in order, after an epoch; return the mean loss."""
        ...

    def largest(self) -> float:
        """Return the largest absolute parameter, NaN if there is any: shows divergence."""
        ...

    def snapshot(self) -> Parameters:
        """Return a copy of the current parameters, numbered as in the problem."""
        ...

    def close(self) -> None:
        """Release threads and all else that only further epochs need; snapshots still work."""
        ...


@runtime_checkable
class Resumable(Training, Protocol):
    """Training that can be saved and resumed with bit-identical results."""

    def state(self) -> dict[str, np.ndarray]:
        """Return copies of all state that further epochs need besides the parameters."""
        ...

    def resume(self, state: dict[str, np.ndarray]) -> None:
        """Continue from a state; the training was begun with the parameters of that epoch."""
        ...


class Engine(Protocol):
    """A back end of training."""

    def begin(self, problem: Problem, parameters: Parameters, settings: Settings) -> Resumable:
        """Begin training from the given parameters, which are not modified."""
        ...


# Sharded events, for the Ray engine.

NO_NUMBERS, NO_WEIGHT = np.zeros(0, np.int32), np.zeros(0, np.float32)


class Shard(NamedTuple):
    """Part of the events, in order. user, item: int32 [events], numbered as in the problem.

    The other arrays are empty where unused. number: int32, the event's number among all events.
    weight, situation: as in Problem. until, since: as in History, but relative to the user's first
    entry.
    """

    user: np.ndarray
    item: np.ndarray
    number: np.ndarray = NO_NUMBERS
    weight: np.ndarray = NO_WEIGHT
    situation: np.ndarray = NO_NUMBERS
    until: np.ndarray = NO_NUMBERS
    since: np.ndarray = NO_NUMBERS


# Creates the shards of the given users, each user's events in order.
Maker = Callable[[np.ndarray], Iterator[Shard]]


@dataclass(frozen=True)
class ShardSource:
    """The events of a problem that no single process holds completely.

    activity: int64 [users], times: int64 [items]: event counts. shards: references to shards in the
    object store, in order; made: functions that create events on the workers.
    """

    activity: np.ndarray
    times: np.ndarray
    shards: Sequence[Any] = ()
    made: Sequence[Maker] = ()
