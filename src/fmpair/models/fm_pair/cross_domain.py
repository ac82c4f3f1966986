"""FM-Pair across domains: what users chose elsewhere, as features, as samples, or left aside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fmpair import checks
from fmpair.arrays import renumbered
from fmpair.data import Dataset, as_dataset
from fmpair.data.splits import in_domain
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import OptionError, listing
from fmpair.features.field import field_from
from fmpair.features.layouts import CHOICES, only_domain, with_sources
from fmpair.fitted.recipe import fit_again
from fmpair.fitted.recommender import Recommender
from fmpair.training import loop, update
from fmpair.training.epochs import Epoch, with_models
from fmpair.training.options import FMPairOptions
from fmpair.training.trainable import TrainableRecipe

VALUES = ("share", "share_of_all", "binary")


@dataclass(frozen=True)
class FMPairCD(FMPairOptions, TrainableRecipe):
    """FM-Pair-CD: items of other domains are features of the user, items of the target are ranked.

    target: the domain to rank; None where the data have no domains.
    most: at most this many items of each other domain, for every user.
    choose: which ones: random, the most popular, or the highest rated.
    value: of each of them: share (those chosen of a domain sum to one), share_of_all (one by the
        number of all the user's items of the domain, chosen or not: the paper's) or binary (1
        each).

    All other options are those of FM-Pair.
    """

    epochs: int = 60
    loss: str = "bpr"
    target: str | None = None
    most: int = 5
    choose: str = "random"
    value: str = "share"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.whole("most", self.most, 1)
        checks.one_of("choose", self.choose, CHOICES)
        checks.one_of("value", self.value, VALUES)

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn epoch by epoch from events of all domains."""
        events = as_dataset(data)
        target = _target(events, self.target)
        if target is None:
            return loop.train(self, self, events)
        layout = with_sources(
            events,
            target,
            most=self.most,
            choose=self.choose,
            seed=self.seed,
            everyone=True,
            share_of_all=self.value == "share_of_all",
        )
        added = [name for name in layout.user_table.columns if name not in events.user_table]
        return loop.train(self, replace(self, fields=self._source_fields(added)), layout)

    def _source_fields(self, names: list[str]) -> dict[str, Any]:
        """The fields with the value of source items, where a field does not say it itself."""
        made = dict(self.fields)
        for name in names:
            field = field_from(made.get(name, {}))
            own = self.value == "share" if field.normalize is None else field.normalize
            made[name] = replace(field, normalize=own)
        return made

    def update(
        self, model: Recommender, data: Any, epochs: int | None = None, replay: Any = 0.0
    ) -> Recommender:
        events = _of_target_only(self, self.target, data)
        return update.update(model, self, events, epochs, replay=replay)

    def fold_in(self, model: Recommender, events: Any, epochs: int | None = None) -> Recommender:
        return update.fold_in(model, self, _of_target_only(self, self.target, events), epochs)


@dataclass(frozen=True)
class FMPairAll(FMPairOptions, TrainableRecipe):
    """FM-Pair-All: events of every domain are samples, items of the target are ranked.

    target: the domain to rank; None where the data have no domains.

    All other options are those of FM-Pair.
    """

    epochs: int = 60
    loss: str = "bpr"
    target: str | None = None

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn epoch by epoch from events of all domains."""
        events = as_dataset(data)
        target = _target(events, self.target)
        epochs = loop.train(self, self, events)
        if target is None:
            return epochs
        kept = np.unique(events.item[in_domain(events, target)])
        return with_models(epochs, lambda model: with_items(model, kept))

    def update(
        self, model: Recommender, data: Any, epochs: int | None = None, replay: Any = 0.0
    ) -> Recommender:
        events = _of_target_only(self, self.target, data)
        updated = update.update(model, self, events, epochs, replay=replay)
        return _with_silent_users(model, updated)

    def fold_in(self, model: Recommender, events: Any, epochs: int | None = None) -> Recommender:
        return update.fold_in(model, self, _of_target_only(self, self.target, events), epochs)


@dataclass(frozen=True)
class FMPairTarget(FMPairOptions, TrainableRecipe):
    """FM-Pair that learns from the target domain alone: what the two others are compared with.

    target: the domain to learn from and to rank; None where the data have no domains.

    All other options are those of FM-Pair.
    """

    epochs: int = 60
    loss: str = "bpr"
    target: str | None = None

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn epoch by epoch from the target's events."""
        events = as_dataset(data)
        target = _target(events, self.target)
        if target is not None:
            events = only_domain(events, target, everyone=True)
        return loop.train(self, self, events)

    def update(
        self, model: Recommender, data: Any, epochs: int | None = None, replay: Any = 0.0
    ) -> Recommender:
        return update.update(model, self, _of_target(self.target, data), epochs, replay=replay)

    def fold_in(self, model: Recommender, events: Any, epochs: int | None = None) -> Recommender:
        return update.fold_in(model, self, _of_target(self.target, events), epochs)


def with_items(model: Recommender, kept: np.ndarray) -> Recommender:
    """A model that knows the kept items only: int [kept]."""
    place = np.full(len(model.space.items), -1, np.int32)
    place[kept] = np.arange(len(kept), dtype=np.int32)
    own = model.parameters
    return model.replaced(
        space=replace(model.space, items=Vocabulary(model.space.items.take(kept))),
        parameters=own._replace(items=own.items[kept], item_bias=own.item_bias[kept]),
        item_rows=model.item_rows.take(kept),
        seen=renumbered(model.seen, place),
    )


def _target(data: Dataset, target: str | None) -> str | None:
    """The target, which data of several domains need, and which they must know."""
    if target is None and "domain" in data.columns.columns:
        known = data.columns["domain"].drop_nulls().unique().sort().to_list()
        raise OptionError(f"target must be one of the domains of the data: {listing(known)}")
    if target is not None:
        in_domain(data, target)
    return target


def _of_target(target: str | None, data: Any) -> Dataset:
    """New events of the target; where they have no domains, all of them are taken for such."""
    events = as_dataset(data)
    if target is None or "domain" not in events.columns.columns:
        return events
    return events.take(in_domain(events, target)).compact()


def _of_target_only(recipe: Any, target: str | None, data: Any) -> Dataset:
    """The same of a recipe that other domains mean something to: it cannot leave them aside."""
    events = as_dataset(data)
    own = _of_target(target, events)
    if len(own) < len(events):
        raise fit_again(
            recipe,
            f"some are of other domains than {target!r}, of which it keeps no events; it can go "
            f"on from events of {target!r} alone",
        )
    return own


def _with_silent_users(before: Recommender, model: Recommender) -> Recommender:
    """The model with the vectors of users who have events in other domains only.

    They were learned from events that the model does not keep, and look like users without any.
    """
    users = model.parameters.users.copy()
    silent = np.flatnonzero(np.diff(model.seen.start)[: len(before.parameters.users)] == 0)
    users[silent] = before.parameters.users[silent]
    return model.replaced(parameters=model.parameters._replace(users=users))
