"""Known models that are special cases of FM-Pair, by other defaults or other features."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from fmpair.arrays import distinct_pairs
from fmpair.data import Dataset, as_dataset
from fmpair.engine.contract import Parameters, Training
from fmpair.features.field import Field
from fmpair.features.layouts import HISTORY, feature_columns, with_histories, without_columns
from fmpair.fitted.query_encoder import known_rows
from fmpair.fitted.recommender import Recommender
from fmpair.models.fm_pair.fm_pair import FMPair
from fmpair.training import loop, update
from fmpair.training.epochs import Epoch
from fmpair.training.loop import Task
from fmpair.training.options import FMPairOptions, require_plain_scores
from fmpair.training.trainable import Continuation, UpdatableRecipe

FIELDS = {HISTORY: {"kind": "weighted", "normalize": False}}  # as `with_histories` provides it


@dataclass(frozen=True)
class ListwiseFM(FMPair):
    """FM-Pair with a softmax over the cosines of the chosen item and several others.

    The options are those of FM-Pair, with other defaults.
    """

    epochs: int = 60
    init_std: float = 0.1
    loss: str = "softmax"
    temperature: float | None = 0.2
    history: int | str | Mapping[str, Any] | Field | None = 0


@dataclass(frozen=True)
class PRFM(FMPair):
    """Pairwise ranking FM: FM-Pair with adaptive negatives, which it currently ranks high.

    Negatives are hard, so regularisation is stronger. The options are those of FM-Pair, with other
    defaults.
    """

    regularization: float | Mapping[str, float] | None = field(
        default_factory=lambda: {"user": 0.06, "item": 0.03}
    )
    epochs: int = 60
    negative_sampler: str = "adaptive"
    loss: str = "bpr"
    history: int | str | Mapping[str, Any] | Field | None = 0


@dataclass(frozen=True)
class BPRMF(UpdatableRecipe):
    """BPR-MF: matrix factorization learned from pairs, as FM-Pair without features.

    factors: length of the vectors. epochs: passes over the events.
    learning_rate: step size; it decreases linearly to a tenth.
    regularization: one number for user and item vectors, or a mapping with any of user, item,
        negative, bias.
    init_std: standard deviation of the initial vectors.
    positives: how events are visited: permutation, bootstrap or user, as in FM-Pair.
    weights: how an event's weight counts: log, linear or none, as in FM-Pair.
    item_bias: whether items have a constant of their own; the paper's baseline has none.
    threads: None uses all cores; the model does not depend on it. seed: of all random draws.
    """

    factors: int = 64
    epochs: int = 60
    learning_rate: float = 0.1
    regularization: float | Mapping[str, float] | None = None
    init_std: float = 0.01
    positives: str = "permutation"
    weights: str = "log"
    item_bias: bool = False
    threads: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        self._options()

    def _options(self) -> FMPairOptions:
        options = {option.name: getattr(self, option.name) for option in fields(self)}
        return FMPairOptions(loss="bpr", **options)

    def train(self, data: Any) -> Iterator[Epoch]:
        """Yield an `Epoch` after each pass over the events; the caller may stop at any time."""
        return loop.train(self, self._options(), ids_only(data))

    def continuation(self, model: Recommender, data: Any) -> Continuation:
        return Continuation(self._options(), ids_only(data))


@dataclass(frozen=True)
class FPMC(FMPairOptions, UpdatableRecipe):
    """FPMC: factorised personalised Markov chains, as FM-Pair with the last item as history.

    Its options are those of FM-Pair; context and attributes are not used.
    """

    epochs: int = 60
    loss: str = "bpr"
    item_bias: bool = False
    history: int | str | Mapping[str, Any] | Field | None = 1

    def train(self, data: Any) -> Iterator[Epoch]:
        """Yield an `Epoch` after each pass over the events; the caller may stop at any time."""
        return loop.train(self, self, ids_only(data))

    def continuation(self, model: Recommender, data: Any) -> Continuation:
        return Continuation(self, ids_only(data))


@dataclass(frozen=True)
class SVDPlusPlus(FMPairOptions, UpdatableRecipe):
    """SVD++ learned from pairs: the user's vector and one for each item the user chose.

    Its options are those of FM-Pair; the items' second vectors are a field named history.
    """

    epochs: int = 60
    loss: str = "bpr"

    def train(self, data: Any) -> Iterator[Epoch]:
        """Yield an `Epoch` after each pass over the events; the caller may stop at any time."""
        return loop.train(self, _options(self), with_histories(as_dataset(data)))

    def continuation(self, model: Recommender, data: Any) -> Continuation:
        return Continuation(self, longer_histories(model, as_dataset(data)))


@dataclass(frozen=True)
class FactorisedNeighbours(FMPairOptions, UpdatableRecipe):
    """Factorised item neighbours: SVD++ without user vectors.

    Its options are those of FM-Pair; the items' second vectors are a field named history.
    """

    epochs: int = 60
    loss: str = "bpr"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_plain_scores(self)

    def train(self, data: Any) -> Iterator[Epoch]:
        """Yield an `Epoch` after each pass over the events; the caller may stop at any time."""
        events = with_histories(as_dataset(data))
        return loop.train(self, _options(self), events, _begin_without_users)

    def continuation(self, model: Recommender, data: Any) -> Continuation:
        events = longer_histories(model, as_dataset(data))
        return Continuation(self, events, _begin_without_users)

    def fold_in(self, model: Recommender, events: Any, epochs: int | None = None) -> Recommender:
        """Add the users of the events; nothing is trained, since users have no vectors."""

        def no_vectors(task: Task, first: Parameters) -> np.ndarray:
            return np.zeros_like(first.users)

        data = longer_histories(model, as_dataset(events))
        return update.with_users(model, self, data, epochs, no_vectors)


def ids_only(data: Any) -> Dataset:
    """Return the events without context and attributes."""
    events = as_dataset(data)
    return without_columns(events, list(feature_columns(events)))


def longer_histories(model: Recommender, data: Dataset) -> Dataset:
    """Return new events whose users have all their items as history, the old and the new."""
    known = model.space
    items = known.items.extend(data.items.ids)
    old = known_rows(model.seen, known.users.numbers(data.users.ids))
    owner = np.append(old.owner, data.user)
    item = np.append(old.column, items.numbers(data.items.ids)[data.item])
    return with_histories(data, distinct_pairs(owner, item, len(data.users)), items)


def _options(recipe: FMPairOptions) -> FMPairOptions:
    return replace(recipe, fields={**FIELDS, **recipe.fields})


def _begin_without_users(task: Task, first: Parameters, frozen: Collection[str]) -> Training:
    first = first._replace(users=np.zeros_like(first.users))
    return loop.begin(task, first, (*frozen, "users"))
