"""FM-Pair: a factorization machine that learns to rank, from pairs or from lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from fmpair.data import as_dataset
from fmpair.engine.problem import LOSSES, NEGATIVES, OPTIMIZERS, POSITIVES
from fmpair.errors import OptionError, listing, named
from fmpair.models import option
from fmpair.models.recommender import Recommender
from fmpair.models.training import Epoch, train
from fmpair.models.validation import best_fit

WEIGHTS = ("log", "linear", "none")
PAPER = {
    "loss": "bpr", "factors": 10, "epochs": 300, "learning_rate": 0.005, "last_rate": 1.0,
    "initial_sd": 0.1, "positives": "user", "weights": "none",
    "regularization": {"user": 0.0025, "item": 0.0025, "negative": 0.00025, "bias": 0.0},
}  # fmt: skip
FAST = {
    "loss": "bpr",
    "factors": 32,
    "epochs": 20,
    "learning_rate": 0.2,
    "regularization": {"user": 0.02, "item": 0.01},
}
BEST = {"factors": 128}


@dataclass(frozen=True)
class FMPair:
    """FM-Pair: learns from pairs what to rank first, from ids, context and attributes.

    factors: length of the vectors. epochs: passes over the events.
    learning_rate: step length; it falls in a straight line.
    last_rate: share of the learning rate that is left in the last epoch; 1 keeps it as it is.
    optimizer: plain steps (sgd), or those of every user, item and value divided by the root of
        its squared gradients so far (adagrad), so that what is rare goes farther.
    regularization: one number for user and item vectors, or a mapping with any of user, item,
        negative, bias, context, user_features, item_features, or the name of a field; what is
        not given keeps its default.
    regularization_power: an epoch's pull on the vector of a user (item) with n events goes with n
        to this power; 1 holds all alike at every event, 0 all alike in an epoch.
    initial_sd: standard deviation of the first user and item vectors; fields start at zero.
    positives: how events are visited: each once (permutation), drawn (bootstrap), or a user
        drawn and then one of their events (user).
    negatives: how items the user has no event with are drawn: each alike (uniform), by their
        number of events (popularity), as items of events learned at the same time (batch), or
        those the model now ranks high (adaptive).
    loss: what is learned from: pairs (bpr, hinge), each item for itself (logistic), the chosen
        item among several (softmax), the first of several that ranks too high (warp).
    candidates: how many negatives softmax and warp look at for each event; the others take one.
        None: 32; softmax takes one for every 64 items where these are more (up to 256), and a
        tenth of them where there are few.
    temperature: None scores by products; a number by cosines divided by it, without biases.
    power: of an item's number of events, where negatives are drawn by popularity.
    rank_share: mean rank of adaptive negatives, as a share of the items.
    own_share: share of the negatives that are items of the user's other events; above 0 it is
        learned which of their own items users come back to. None takes it from the data: some
        with softmax where users keep to a few of their items, else 0.
    sharing: steps of a value that n users (items) share are divided by n to this power. None
        takes it from the data: as far as the field stands for users (1 for what is known of
        them, 0 for a context that changes freely), and 0.5 for attributes of items.
    shown_share: share of the negatives that are items the user was shown and did not choose, as
        far as the data say; see `Dataset.with_shown`.
    correction: whether softmax takes the logarithm of how often an item is drawn off its score;
        popularity and batch then no longer work against popular items.
    weights: how an event's weight counts: log (1 + ln w from 1 on), linear, none; relative to
        the mean, and at most ten times it.
    item_bias: whether items have a constant of their own.
    damping: share of what popularity adds to the scores that is taken off when items are ranked;
        learning does not know of it, see `Recommender.damped`.
    fields: options by column, see `Field`; normalize: all features of a row sum to one.
    threads: None uses all cores; the model does not depend on it. seed: of all draws.
    blocks: B of the strata plan, None chooses by the size of the data.
    """

    factors: int = 64
    epochs: int = 25
    learning_rate: float = 0.1
    last_rate: float = 0.1
    optimizer: str = "sgd"
    regularization: float | Mapping[str, float] | None = None
    regularization_power: float = 1.0
    initial_sd: float = 0.01
    positives: str = "permutation"
    negatives: str = "uniform"
    loss: str = "softmax"
    candidates: int | None = None
    temperature: float | None = None
    power: float = 0.25
    rank_share: float = 0.2
    own_share: float | None = None
    sharing: float | None = None
    shown_share: float = 0.0
    correction: bool = False
    weights: str = "log"
    item_bias: bool = True
    damping: float = 0.0
    fields: Mapping[str, Any] = field(default_factory=dict)
    normalize: bool = False
    threads: int | None = None
    seed: int = 0
    blocks: int | None = None

    def __post_init__(self) -> None:
        option.whole("factors", self.factors, 1)
        option.whole("epochs", self.epochs, 1)
        option.positive("learning_rate", self.learning_rate)
        option.not_negative("last_rate", self.last_rate)
        option.one_of("optimizer", self.optimizer, OPTIMIZERS)
        option.not_negative("regularization_power", self.regularization_power)
        option.not_negative("initial_sd", self.initial_sd)
        option.one_of("positives", self.positives, POSITIVES)
        option.one_of("negatives", self.negatives, NEGATIVES)
        option.one_of("loss", self.loss, LOSSES)
        if self.temperature is not None:
            option.positive("temperature", self.temperature)
        option.not_negative("power", self.power)
        option.positive("rank_share", self.rank_share)
        for name in ("own_share", "sharing"):
            if getattr(self, name) is not None:
                option.not_negative(name, getattr(self, name))
        option.not_negative("shown_share", self.shown_share)
        shares = (self.own_share or 0.0) + self.shown_share
        if shares > (self.loss != "warp"):
            raise OptionError(
                f"{named('own_share')} and {named('shown_share')} must be at most 1 together, and "
                f"0 with {named('loss', 'warp')}"
            )
        corrects = self.loss == "softmax" and self.negatives in ("popularity", "batch")
        if self.correction and (shares or not corrects):
            raise OptionError(
                f"{named('correction')} is of {named('loss', 'softmax')} with "
                f"{named('negatives')} by popularity or batch, and no {named('own_share')} or "
                f"{named('shown_share')}: they are not drawn by number of events"
            )
        option.one_of("weights", self.weights, WEIGHTS)
        option.number("damping", self.damping)
        option.whole("seed", self.seed, 0)
        for name in ("candidates", "threads", "blocks"):
            if getattr(self, name) is not None:
                option.whole(name, getattr(self, name), 1)
        option.regularization(self.regularization)

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """As in the paper's experiments: 10 factors, 300 epochs, users drawn alike, plain pairs."""
        return cls(**{**PAPER, **changes})

    @classmethod
    def fast(cls, **changes: Any) -> Self:
        """A usable model in a twentieth of the time: pairs, fewer factors, longer steps."""
        return cls(**{**FAST, **changes})

    @classmethod
    def best(cls, **changes: Any) -> Self:
        """Often better rankings, at twice the cost or more: twice as many factors."""
        return cls(**{**BEST, **changes})

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn epoch by epoch; the caller owns the loop and may stop at any time."""
        return train(self, as_dataset(data))

    def fit(
        self,
        data: Any,
        *,
        validation: Any = None,
        metric: str = "ndcg@10",
        patience: int = 5,
        seed: int | None = None,
        progress: bool | Callable[[Epoch], None] = False,
    ) -> Recommender:
        """Learn from a Dataset or a frame (user, item, every other column context).

        validation: events held out (a Dataset or frame) or the share of events to hold out;
        the epoch best by `metric` on them is kept, and training stops `patience` epochs after it.
        progress: True shows a bar; a function is called with every epoch.
        """
        return best_fit(self, data, seed, progress, validation, metric, patience)

    def options(self) -> dict[str, Any]:
        """The options as plain values; threads are left out, since no result depends on them."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "threads"}
        plain["fields"] = {name: option.field_options(f) for name, f in self.fields.items()}
        if isinstance(self.regularization, Mapping):
            plain["regularization"] = dict(self.regularization)
        return plain

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> FMPair:
        """A recipe from plain values; unknown names are refused."""
        known = [f.name for f in fields(cls)]
        wrong = sorted(set(options) - set(known))
        if wrong:
            raise OptionError(f"unknown option {wrong[0]!r}. Known: {listing(known, 20)}")
        return cls(**options)
