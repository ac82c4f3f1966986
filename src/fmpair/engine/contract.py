"""What every engine keeps: what it is given, what it learns, and how it is asked. Arrays only.

An engine is a module with `begin(problem, parameters, settings) -> Training`, reached by
`fmpair.engine.engine(name)`. The reference engine defines what all of them learn.
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
LISTED = ("softmax", "warp")  # losses that look at several candidates for each chosen item


class Groups(NamedTuple):
    """The features of a side by field. All arrays: one entry per feature.

    field: int32. share: float32, how much of the field's occurrences a feature has; the shares of
    a field sum to 1. owners: float32, how many users (or items) the field's values have on average;
    sharing: float32, the feature's steps are divided by owners to this power, see
    `engine.strata.regularisation`. centred: the vectors of the feature's
    field keep a mean (weighted by share) of zero.
    """

    field: np.ndarray
    share: np.ndarray
    owners: np.ndarray
    sharing: np.ndarray
    centred: np.ndarray


class History(NamedTuple):
    """What users did before: the latest places of a time line are features of an event's query.

    start: int64 [users + 1], item: int32 [places]: each user's time line, oldest first.
    until: int32 [events], the place after the last that an event may look at; since: the first,
    empty for the user's first. weight: float32 [last], that of the latest place, of the one before
    it, and so on. rows: over the query features, one per item; no other row has these features,
    which come after all others. shared: the features are the items themselves, in their order, and
    have the items' vectors, see `engine.strata.lending`.
    """

    start: np.ndarray
    item: np.ndarray
    until: np.ndarray
    since: np.ndarray
    weight: np.ndarray
    rows: Rows
    shared: bool = False


class Meeting(NamedTuple):
    """Which features of a side meet in pairs, each pair then with every feature of the other side.

    own: the group of the id (the user or the item); group: int8 [features], that of each feature.
    meets: float32 [groups, groups], symmetric: 1 where features of the two groups meet, else 0.
    """

    own: int
    group: np.ndarray
    meets: np.ndarray


class Triples(NamedTuple):
    """The terms of order three: the last `factors` columns of all tables are theirs alone.

    query: which pairs of query features meet an item's; item: which pairs of an item's features
    meet those of the query. See `engine.triples`.
    """

    factors: int
    query: Meeting
    item: Meeting

    @property
    def mirrored(self) -> bool:
        """Whether any two features of an item meet."""
        return bool(self.item.meets.any())


class Problem(NamedTuple):
    """The events to learn from and the features of both sides.

    user, item, situation: int32 [events]; weight: float32 [events].
    known: bool [events], events that are only known to be positive and are not learned from.
    drawn: bool [items], the items that may be drawn as negatives.
    contexts: rows over the query features, one per situation; user_rows: the same, one per user.
    item_rows: rows over the item features, one per item.
    impressions: rows over the items, one per user: what was shown and maybe not chosen; None where
    that is not known. history: what came before each event, where that is to be learned from.
    triples: which features meet in threes; None for a machine of order two.
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
    """What is learned. Vectors: float32 [rows, factors]; biases: float32 [rows].

    With triples, rows are longer by their factors: the vector of pairs, then that of triples.
    """

    users: np.ndarray
    items: np.ndarray
    item_bias: np.ndarray
    query: np.ndarray
    features: np.ndarray
    feature_bias: np.ndarray


class L2Scale(NamedTuple):
    """Multiples of the regularisation of user and item vectors, by row: float32."""

    users: np.ndarray
    items: np.ndarray


class TripleL2(NamedTuple):
    """L2 regularisation of the vectors of triples.

    user, item: of ids. query, features: by row, float32. query_threshold, feature_threshold: by
    row, as those of `Settings`. ramp: epochs until that of fields is in full force.
    """

    user: float
    item: float
    query: np.ndarray
    features: np.ndarray
    query_threshold: np.ndarray
    feature_threshold: np.ndarray
    ramp: int = 0


class Settings(NamedTuple):
    """How to learn.

    user, positive, negative, bias: L2 regularisation of the id tables; query, features: the same
    by row, float32. query_threshold, feature_threshold: by row, where above 0 the field's
    regularisation follows its strength instead, see `engine.strata.regularisation`; strongest: its
    upper bound. user_rate, item_rate, feature_rate: multiples of an epoch's learning rate; 0
    freezes. blocks: B of the strata plan; partition_every: epochs between two partitions; threads:
    how many work. loss: one of LOSSES; n_negatives: per positive, at most.
    temperature: 0 scores by products, above it by cosines divided by it; there are no biases then.
    negative_sampler: one of NEGATIVE_SAMPLERS; popularity_power: of an item's count, for
    popularity; rank_share: mean rank of adaptive negatives, as a share of the items. own_share: of
    the negatives, how many are items of the user's other events; impression_share: such as were
    shown and not chosen. logq_correction: scores are taken less the logarithm of how often their
    items are drawn. dropout: share of the query's factors that a step leaves out, of products
    only: of nothing there is no cosine.
    optimizer: one of OPTIMIZERS. l2_scale: None where all are 1. triples: where there are any.
    engine: which one learns. all_items: softmax is over all items, not over n_negatives that are
    drawn; device: where the engine works, `cpu` or `cuda`. Both, and the optimizer adam, are of
    the engine of minibatches alone. on: the cluster that the engine of many machines works on.
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
        """Whether the quick kernel of pairs will do."""
        others = self.temperature or self.own_share or self.impression_share or self.dropout
        paced = self.optimizer != "sgd" or self.l2_scale or self.triples
        return self.loss == "bpr" and self.negative_sampler == "uniform" and not (others or paced)

    @property
    def has_bias(self) -> bool:
        """Whether items have constants that are learned."""
        return self.learn_bias and not self.temperature

    @property
    def drawn_power(self) -> float:
        """How often items are drawn follows their number of events to this power."""
        return self.popularity_power if self.negative_sampler == "popularity" else 1.0


class Pairs(NamedTuple):
    """Pairs that are given, not drawn: of two items of a user, the one to rank above the other.

    user, positive, negative, situation: int32 [pairs], by the problem's numbers; weight: float32.
    """

    user: np.ndarray
    positive: np.ndarray
    negative: np.ndarray
    situation: np.ndarray
    weight: np.ndarray


class Training(Protocol):
    """Training under way. What is learned depends on problem, settings and epochs alone."""

    def epoch(self, number: int, rate: float) -> float:
        """One pass (counted from 1) at a learning rate; the mean loss of its steps."""
        ...

    def learn_pairs(self, pairs: Pairs, rate: float) -> float:
        """A BPR step on each pair, in their order, after an epoch at that rate; the mean loss."""
        ...

    def largest(self) -> float:
        """The largest number of all tables: a run that diverges shows here first. NaN counts."""
        ...

    def snapshot(self) -> Parameters:
        """The parameters as they are now, by the problem's numbers: a copy."""
        ...

    def close(self) -> None:
        """Let go of threads and of all that only further epochs would need; snapshots go on."""
        ...


@runtime_checkable
class Resumable(Training, Protocol):
    """Training that can be kept and gone on with: to the same bits as if it never had stopped."""

    def state(self) -> dict[str, np.ndarray]:
        """What further epochs depend on beside the parameters, by name: copies."""
        ...

    def resume(self, state: dict[str, np.ndarray]) -> None:
        """Go on as after the epoch of that state; begun with the parameters of that epoch."""
        ...


class Engine(Protocol):
    """Where training runs."""

    def begin(self, problem: Problem, parameters: Parameters, settings: Settings) -> Resumable:
        """Training that starts from the given parameters, which stay as they are."""
        ...


# Events in pieces: what an engine of many machines learns from. Arrays only.


NO_NUMBERS, NO_WEIGHT = np.zeros(0, np.int32), np.zeros(0, np.float32)


class Shard(NamedTuple):
    """Some events, in their order. user, item: int32 [events], by the problem's numbers.

    All others are empty where nothing goes by them. number: int32, of each among all events.
    weight, situation: as in Problem. until, since: as in History, but counted from the first place
    of the user's own time line.
    """

    user: np.ndarray
    item: np.ndarray
    number: np.ndarray = NO_NUMBERS
    weight: np.ndarray = NO_WEIGHT
    situation: np.ndarray = NO_NUMBERS
    until: np.ndarray = NO_NUMBERS
    since: np.ndarray = NO_NUMBERS


# Makes shards of the events of these users, given their numbers: each user's in their order.
Maker = Callable[[np.ndarray], Iterator[Shard]]


@dataclass(frozen=True)
class Source:
    """Where workers find their events, which no process need ever have all of.

    activity: int64 [users], times: int64 [items]: how many events each has. shards: refs of shards
    in the object store, in the order of their events; made: what makes events where they are
    learned from.
    """

    activity: np.ndarray
    times: np.ndarray
    shards: Sequence[Any] = ()
    made: Sequence[Maker] = ()
