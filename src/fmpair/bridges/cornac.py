"""cornac: any of its recommenders that learns from who chose what."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
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
    without_constants,
)
from fmpair.data import Dataset, as_dataset
from fmpair.errors import UnknownError, unknown
from fmpair.features import FeatureSpace
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recipe import Recipe
from fmpair.fitted.recommender import Recommender, from_factors

REQUIREMENT = Requirement("cornac", "cornac", "cornac")
PROBES = 20  # users whose scores say whether the vectors are all there is to a model
CLOSE = 1e-3  # of the spread of a user's scores


@dataclass(frozen=True)
class Cornac(Recipe):
    """A recommender of cornac, learned from the ratings, or from the weights where there are none.

    model: the name of its class in cornac.models, such as BPR, WMF, EASE, ItemKNN.
    settings: the class's own options by cornac's names, such as {"k": 64, "max_iter": 50}.
    threads: None uses all cores; most of its models use one only, because they are given a seed.
    seed: of its random draws, where the class takes one.
    """

    model: str = "BPR"
    settings: Mapping[str, Any] = field(default_factory=dict)
    threads: int | None = None
    seed: int = 0
    requirement: ClassVar[Requirement] = REQUIREMENT
    require = staticmethod(REQUIREMENT.check)
    provenance = staticmethod(REQUIREMENT.provenance)

    def __post_init__(self) -> None:
        check_options(self)

    def fit(self, data: Any) -> Recommender | Ranker:
        """A Recommender where vectors give the model's scores, else a Ranker over all of them."""
        events = as_dataset(data)
        make, what = _class(self.model), f"cornac's {self.model}"
        usual = {"seed": self.seed, "num_threads": self.threads or 0, "verbose": False}
        taken = inspect.signature(make).parameters
        usual = {name: value for name, value in usual.items() if name in taken}
        with foreign(what, 1 if "num_threads" in usual else self.threads):
            model = made(what, make, self.settings, **usual)
            model.fit(_train_set(events, self.seed))
            vectors = _vectors(model, events)
            if vectors is not None:
                return from_factors(self, events, *without_constants(events, *vectors))
            return Ranker.of(self, events, Table.of(_scores(what, model, events)))

    def restore(self, arrays: Mapping[str, np.ndarray], space: FeatureSpace, seen: Rows) -> Table:
        return Table.restored(arrays, space)


def _class(name: str) -> Any:
    """A recommender of cornac by its name."""
    models = REQUIREMENT.load("models")
    known = [n for n, value in vars(models).items() if inspect.isclass(value) and n[0] != "_"]
    if name not in known:
        raise UnknownError(unknown("recommender of cornac", name, known))
    return getattr(models, name)


def _train_set(data: Dataset, seed: int) -> Any:
    """The events as cornac's data set; its ids are fmpair's numbers."""
    rows = ratings(data)
    users, items = ({n: n for n in range(len(ids))} for ids in (data.users, data.items))
    triple = (rows.owner, rows.column.astype(np.int64), rows.value.astype(np.float64))
    make = REQUIREMENT.load("data").Dataset
    return make(len(users), len(items), users, items, triple, seed=seed)


def _vectors(model: Any, data: Dataset) -> tuple[np.ndarray, np.ndarray] | None:
    """(users' vectors, items' vectors) if their products are the model's scores, else None.

    What cornac calls vectors serves its search for near neighbours; that a model's scores are
    their products, up to a constant of each user, has to be seen.
    """
    measure = getattr(model, "get_vector_measure", None)
    if measure is None or "dot" not in str(measure()):
        return None
    users, items = model.get_user_vectors(), model.get_item_vectors()
    if not (isinstance(users, np.ndarray) and isinstance(items, np.ndarray)):
        return None  # EASE: the events themselves, and one factor per item
    if (len(users), len(items)) != (len(data.users), len(data.items)):
        return None
    for user in np.unique(data.user)[:PROBES]:
        score = np.asarray(model.score(int(user)), np.float64).ravel()
        apart = score - items @ users[user]
        if len(score) != len(items) or np.ptp(apart) > CLOSE * max(np.ptp(score), CLOSE):
            return None
    return users, items


def _scores(what: str, model: Any, data: Dataset) -> np.ndarray:
    """float32 [users, items]: what the model says of every user who has events."""
    table = empty_table(what, data)
    for user in np.unique(data.user):
        table[user] = model.score(int(user))
    return table
