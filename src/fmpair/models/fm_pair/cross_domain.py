"""FM-Pair across domains: events of other domains as features, as events, or not used."""

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
from fmpair.errors import OptionError, listing, named
from fmpair.features.field import field_from
from fmpair.features.history_fields import history_field
from fmpair.features.layouts import CHOICES, only_domain, with_sources
from fmpair.fitted.recipe import fit_again
from fmpair.fitted.recommender import Recommender
from fmpair.training import loop
from fmpair.training.epochs import Epoch, with_models
from fmpair.training.options import FMPairOptions
from fmpair.training.trainable import Continuation, UpdatableRecipe

VALUES = ("share", "share_of_all", "binary")


@dataclass(frozen=True)
class FMPairCD(FMPairOptions, UpdatableRecipe):
    """FM-Pair-CD: items of other domains are user features, items of the target are ranked.

    target: the domain to rank; None if the data has no domains.
    most: largest number of items of each other domain, per user.
    choose: which ones: random, the most popular, or the highest rated.
    value: of each item: share (the items of a domain sum to one), share_of_all (one divided by the
        number of all the user's items of the domain, as in the paper) or binary (1 each).

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
        """Return the fields, with the value of source items unless a field sets it."""
        fields = dict(self.fields)
        for name in names:
            field = field_from(fields.get(name, {}))
            if field.normalize is None:
                field = replace(field, normalize=self.value == "share")
            fields[name] = field
        return fields

    def continuation(self, model: Recommender, data: Any) -> Continuation:
        return Continuation(self, _of_target_only(self, self.target, data))


@dataclass(frozen=True)
class FMPairAll(FMPairOptions, UpdatableRecipe):
    """FM-Pair-All: learns from events of every domain, ranks items of the target.

    target: the domain to rank; None if the data has no domains.

    All other options are those of FM-Pair.
    """

    epochs: int = 60
    loss: str = "bpr"
    target: str | None = None

    def train(self, data: Any) -> Iterator[Epoch]:
        """Learn epoch by epoch from events of all domains."""
        events = as_dataset(data)
        target = _target(events, self.target)
        if target is not None and history_field(self.history):
            raise OptionError(
                f"{named('history')} cannot be combined with {named('target')} in FMPairAll, whose "
                "model keeps only the items of the target: use FMPairCD or FMPairTarget"
            )
        epochs = loop.train(self, self, events)
        if target is None:
            return epochs
        items = np.unique(events.item[in_domain(events, target)])
        return with_models(epochs, lambda model: with_items(model, items))

    def continuation(self, model: Recommender, data: Any) -> Continuation:
        return Continuation(self, _of_target_only(self, self.target, data))

    def update(
        self, model: Recommender, data: Any, epochs: int | None = None, replay: Any = 0.0
    ) -> Recommender:
        return _with_source_users(model, super().update(model, data, epochs, replay))


@dataclass(frozen=True)
class FMPairTarget(FMPairOptions, UpdatableRecipe):
    """FM-Pair that learns from the target domain only, as a baseline for the other two.

    target: the domain to learn from and to rank; None if the data has no domains.

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

    def continuation(self, model: Recommender, data: Any) -> Continuation:
        return Continuation(self, _of_target(self.target, data))


def with_items(model: Recommender, wanted: np.ndarray) -> Recommender:
    """Return the model with these items only; wanted: int, their numbers."""
    number = np.full(len(model.space.items), -1, np.int32)
    number[wanted] = np.arange(len(wanted), dtype=np.int32)
    tables = model.parameters
    return model.replaced(
        space=replace(model.space, items=Vocabulary(model.space.items.take(wanted))),
        parameters=tables._replace(items=tables.items[wanted], item_bias=tables.item_bias[wanted]),
        item_rows=model.item_rows.take(wanted),
        seen=renumbered(model.seen, number),
    )


def _target(data: Dataset, target: str | None) -> str | None:
    """Return the target; raise OptionError if data with domains needs one, or does not have it."""
    if target is None and "domain" in data.columns.columns:
        known = data.columns["domain"].drop_nulls().unique().sort().to_list()
        raise OptionError(f"target must be one of the domains of the data: {listing(known)}")
    if target is not None:
        in_domain(data, target)
    return target


def _of_target(target: str | None, data: Any) -> Dataset:
    """Return the new events of the target; all of them if they have no domains."""
    events = as_dataset(data)
    if target is None or "domain" not in events.columns.columns:
        return events
    return events.take(in_domain(events, target)).compact()


def _of_target_only(recipe: Any, target: str | None, data: Any) -> Dataset:
    """Return the new events; raise OptionError if some are of other domains."""
    events = as_dataset(data)
    of_target = _of_target(target, events)
    if len(of_target) < len(events):
        raise fit_again(recipe, f"it can only be updated with events of domain {target!r}")
    return of_target


def _with_source_users(before: Recommender, model: Recommender) -> Recommender:
    """Restore the vectors of users who have events in other domains only.

    The model does not store those events, so these users look like users without any.
    """
    users = model.parameters.users.copy()
    unseen = np.flatnonzero(np.diff(model.seen.start)[: len(before.parameters.users)] == 0)
    users[unseen] = before.parameters.users[unseen]
    return model.replaced(parameters=model.parameters._replace(users=users))
