"""LensKit: any of its scorers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import isclass
from typing import Any, ClassVar

import numpy as np

from fmpair.arrays import Rows
from fmpair.bridges.adapter import (
    Requirement,
    Table,
    check_options,
    empty_table,
    foreign,
    made,
    ratings,
)
from fmpair.data import Dataset, as_dataset
from fmpair.errors import OptionError, UnknownError, unknown
from fmpair.features import FeatureSpace
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recipe import Recipe

REQUIREMENT = Requirement("lenskit", "lenskit", "lenskit")


@dataclass(frozen=True)
class LensKit(Recipe):
    """A scorer of LensKit, learned from the events, and from their ratings where there are any.

    model: where its class stands in lenskit, such as als:ImplicitMFScorer, knn:ItemKNNScorer,
        knn:UserKNNScorer, knn:EASEScorer, als:BiasedMFScorer.
    settings: the scorer's own options by LensKit's names, such as {"embedding_size": 64}.
    threads: of linear algebra, None uses all cores. seed: of its random draws.
    """

    model: str = "als:ImplicitMFScorer"
    settings: Mapping[str, Any] = field(default_factory=dict)
    threads: int | None = None
    seed: int = 0
    requirement: ClassVar[Requirement] = REQUIREMENT
    require = staticmethod(REQUIREMENT.check)
    provenance = staticmethod(REQUIREMENT.provenance)

    def __post_init__(self) -> None:
        if not all(self.model.partition(":")):
            raise OptionError(
                f"model must be module:Class of lenskit, such as als:ImplicitMFScorer, not "
                f"{self.model!r}"
            )
        check_options(self)

    def fit(self, data: Any) -> Ranker:
        """A Ranker over the scores of all users and items."""
        events = as_dataset(data)
        what = f"lenskit's {self.model}"
        make = _class(self.model)
        training = REQUIREMENT.load("training").TrainingOptions(rng=self.seed)
        table = empty_table(what, events)
        with foreign(what, self.threads):
            scorer = made(what, make, self.settings)
            scorer.train(_train_set(events), training)
            _score(scorer, events, table)
        return Ranker.of(self, events, Table.of(table))

    def restore(self, arrays: Mapping[str, np.ndarray], space: FeatureSpace, seen: Rows) -> Table:
        return Table.restored(arrays, space)


def _class(model: str) -> Any:
    module, _, name = model.partition(":")
    found = REQUIREMENT.load(module)
    # A module holds more than scorers, such as what it imports: a file must not call any of it.
    scorers = [key for key, one in vars(found).items() if isclass(one) and hasattr(one, "train")]
    if name not in scorers:
        raise UnknownError(unknown(f"scorer of lenskit.{module}", name, scorers))
    return getattr(found, name)


def _train_set(data: Dataset) -> Any:
    """The events as LensKit's data set; its ids are fmpair's numbers."""
    import pandas as pd

    rows = ratings(data)
    columns = {"user_id": rows.owner, "item_id": rows.column}
    if data.column("rating") is not None:
        columns["rating"] = rows.value
    return REQUIREMENT.load("data").from_interactions_df(pd.DataFrame(columns))


def _score(scorer: Any, data: Dataset, table: np.ndarray) -> None:
    """Fill the table [users, items] for every user who has events and every item that has."""
    lists, rows = REQUIREMENT.load("data"), ratings(data)
    every = np.unique(data.item)
    rated = data.column("rating") is not None
    for user in np.unique(data.user):
        own = slice(rows.start[user], rows.start[user + 1])
        extra = {"rating": rows.value[own]} if rated else {}
        history = lists.ItemList(item_ids=rows.column[own], **extra)
        query = lists.RecQuery(user_id=int(user), user_items=history)
        table[user, every] = scorer(query=query, items=lists.ItemList(item_ids=every)).scores()
