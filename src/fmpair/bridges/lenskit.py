"""Bridge to LensKit: any of its scorers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import isclass
from typing import Any, ClassVar

import numpy as np

from fmpair.bridges import adapter
from fmpair.bridges.adapter import Requirement, ScoreTable
from fmpair.data import Dataset, as_dataset
from fmpair.errors import OptionError, UnknownError, unknown
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recipe import Recipe

REQUIREMENT = Requirement("lenskit", "lenskit", "lenskit")


@dataclass(frozen=True)
class LensKit(Recipe):
    """A scorer of LensKit, trained on the events, with ratings where there are any.

    model: module:Class in lenskit, such as als:ImplicitMFScorer, knn:ItemKNNScorer,
        knn:UserKNNScorer, knn:EASEScorer, als:BiasedMFScorer.
    settings: options of the scorer by LensKit's names, such as {"embedding_size": 64}.
    threads: of linear algebra, None uses all cores. seed: of random draws.
    """

    model: str = "als:ImplicitMFScorer"
    settings: Mapping[str, Any] = field(default_factory=dict)
    threads: int | None = None
    seed: int = 0
    requirement: ClassVar[Requirement] = REQUIREMENT
    require = staticmethod(REQUIREMENT.check)
    provenance = staticmethod(REQUIREMENT.provenance)
    restore = staticmethod(ScoreTable.restored)

    def __post_init__(self) -> None:
        if not all(self.model.partition(":")):
            raise OptionError(
                "model must be module:Class of lenskit, such as als:ImplicitMFScorer, not "
                f"{self.model!r}"
            )
        adapter.check_options(self)

    def fit(self, data: Any) -> Ranker:
        """Return a Ranker over the scores of all users and items."""
        events = as_dataset(data)
        what = f"lenskit's {self.model}"
        make = _class(self.model)
        training = REQUIREMENT.load("training").TrainingOptions(rng=self.seed)
        table = adapter.empty_table(what, events)
        with adapter.foreign_code(what, self.threads):
            scorer = adapter.construct(what, make, self.settings)
            scorer.train(_train_set(events), training)
            _score(scorer, events, table)
        return Ranker.of(self, events, ScoreTable.of(table))


def _class(model: str) -> Any:
    module, _, name = model.partition(":")
    loaded = REQUIREMENT.load(module)
    # A module also holds what it imports, which an experiment file must not call.
    scorers = {k: v for k, v in vars(loaded).items() if isclass(v) and hasattr(v, "train")}
    if name not in scorers:
        raise UnknownError(unknown(f"scorer of lenskit.{module}", name, scorers))
    return scorers[name]


def _train_set(data: Dataset) -> Any:
    """Return the events as LensKit's data set, with fmpair's numbers as ids."""
    import pandas as pd

    rows = adapter.ratings(data)
    columns = {"user_id": rows.owner, "item_id": rows.column}
    if data.column("rating") is not None:
        columns["rating"] = rows.value
    return REQUIREMENT.load("data").from_interactions_df(pd.DataFrame(columns))


def _score(scorer: Any, data: Dataset, table: np.ndarray) -> None:
    """Fill the table [users, items] for every user and item with events."""
    lists, rows = REQUIREMENT.load("data"), adapter.ratings(data)
    every = np.unique(data.item)
    rated = data.column("rating") is not None
    for user in np.unique(data.user):
        part = slice(rows.start[user], rows.start[user + 1])
        extra = {"rating": rows.value[part]} if rated else {}
        history = lists.ItemList(item_ids=rows.column[part], **extra)
        query = lists.RecQuery(user_id=int(user), user_items=history)
        table[user, every] = scorer(query=query, items=lists.ItemList(item_ids=every)).scores()
