"""What an engine is given: arrays only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows

POSITIVES = ("permutation", "bootstrap", "user")
NEGATIVES = ("uniform", "popularity", "batch", "adaptive")
LOSSES = ("bpr", "hinge", "logistic", "softmax", "warp")
OPTIMIZERS = ("sgd", "adagrad")
LISTED = ("softmax", "warp")  # losses that look at several candidates for each chosen item


class Groups(NamedTuple):
    """The features of a side by field. All arrays: one entry per feature.

    field: int32. share: float32, how much of the field's occurrences a feature has; the shares of
    a field sum to 1. owners: float32, how many users (or items) the field's values have on average;
    sharing: float32, the feature's steps are divided by owners to this power, see `engine.decay`.
    centred: the vectors of the feature's field are held to a mean (weighted by share) of zero.
    """

    field: np.ndarray
    share: np.ndarray
    owners: np.ndarray
    sharing: np.ndarray
    centred: np.ndarray


class Problem(NamedTuple):
    """The events to learn from and the features of both sides.

    user, item, situation: int32 [events]; weight: float32 [events].
    known: bool [events], events that are only known to be positive and are not learned from.
    drawn: bool [items], the items that may be drawn as negatives.
    contexts: rows over the query features, one per situation; user_rows: the same, one per user.
    item_rows: rows over the item features, one per item.
    shown: rows over the items, one per user: what was shown and maybe not chosen; None: unknown.
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
    shown: Rows | None = None

    @property
    def users(self) -> int:
        return self.user_rows.size

    @property
    def items(self) -> int:
        return self.item_rows.size

    @property
    def has_query_features(self) -> bool:
        return len(self.contexts.column) > 0 or len(self.user_rows.column) > 0


class Parameters(NamedTuple):
    """What is learned. Vectors: float32 [rows, factors]; biases: float32 [rows]."""

    users: np.ndarray
    items: np.ndarray
    item_bias: np.ndarray
    query: np.ndarray
    features: np.ndarray
    feature_bias: np.ndarray


class Pull(NamedTuple):
    """Multiples of the regularisation of user and item vectors, by row: float32."""

    users: np.ndarray
    items: np.ndarray


class Settings(NamedTuple):
    """How to learn.

    user, positive, negative, bias: regularisation of the id tables; query, features: the same by
    row, float32. query_threshold, feature_threshold: by row, where above 0 the field's
    regularisation follows its strength instead, see `engine.decay`; strongest: its upper bound.
    user_rate, item_rate, feature_rate: multiples of an epoch's learning rate; 0 freezes.
    blocks: B of the strata plan; deal_every: epochs between two deals; threads: how many work.
    loss: one of LOSSES; candidates: unchosen items per chosen one, at most.
    temperature: 0 scores by products, above it by cosines divided by it; there are no biases then.
    negatives: one of NEGATIVES; power: of an item's count, for popularity; rank_share: mean rank of
    adaptive negatives, as a share of the items. own_share: of the candidates, how many are items of
    the user's other events; shown_share: such as were shown and not chosen. correction: scores
    are taken less the logarithm of how often their items are drawn.
    optimizer: one of OPTIMIZERS, see `engine.pace`. pull: None where all are 1.
    """

    seed: int
    positives: str
    blocks: int
    deal_every: int
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
    candidates: int = 1
    temperature: float = 0.0
    negatives: str = "uniform"
    power: float = 0.25
    rank_share: float = 0.2
    own_share: float = 0.0
    shown_share: float = 0.0
    correction: bool = False
    optimizer: str = "sgd"
    pull: Pull | None = None

    @property
    def in_plain_pairs(self) -> bool:
        """Whether the quick kernel of pairs will do."""
        others = self.temperature or self.own_share or self.shown_share
        paced = self.optimizer != "sgd" or self.pull
        return self.loss == "bpr" and self.negatives == "uniform" and not (others or paced)

    @property
    def has_bias(self) -> bool:
        """Whether items have constants that are learned."""
        return self.learn_bias and not self.temperature

    @property
    def drawn_power(self) -> float:
        """How often items are drawn follows their number of events to this power."""
        return self.power if self.negatives == "popularity" else 1.0
