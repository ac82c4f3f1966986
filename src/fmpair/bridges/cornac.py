"""Bridge to cornac: any of its recommenders that learns from user-item interactions."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fmpair.bridges import adapter
from fmpair.bridges.adapter import Requirement, ScoreTable
from fmpair.data import Dataset, as_dataset
from fmpair.errors import UnknownError, unknown
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recipe import Recipe
from fmpair.fitted.recommender import Recommender, from_factors

REQUIREMENT = Requirement("cornac", "cornac", "cornac")
PROBES = 20  # users whose scores are compared with the products of the vectors
TOLERANCE = 1e-3  # largest deviation, as a share of the spread of a user's scores


@dataclass(frozen=True)
class Cornac(Recipe):
    """A recommender of cornac, trained on ratings, or on weights where there are none.

    model: the name of its class in cornac.models, such as BPR, WMF, EASE, ItemKNN.
    settings: options of the class by cornac's names, such as {"k": 64, "max_iter": 50}.
    threads: None uses all cores; with a seed most models use only one.
    seed: of random draws, where the class takes one.
    """

    model: str = "BPR"
    settings: Mapping[str, Any] = field(default_factory=dict)
    threads: int | None = None
    seed: int = 0
    requirement: ClassVar[Requirement] = REQUIREMENT
    require = staticmethod(REQUIREMENT.check)
    provenance = staticmethod(REQUIREMENT.provenance)
    restore = staticmethod(ScoreTable.restored)

    def __post_init__(self) -> None:
        adapter.check_options(self)

    def fit(self, data: Any) -> Recommender | Ranker:
        """Return a Recommender where vectors give the scores, else a Ranker over all scores."""
        events = as_dataset(data)
        make, what = _class(self.model), f"cornac's {self.model}"
        options = {"seed": self.seed, "num_threads": self.threads or 0, "verbose": False}
        known = inspect.signature(make).parameters
        options = {name: value for name, value in options.items() if name in known}
        with adapter.foreign_code(what, 1 if "num_threads" in options else self.threads):
            model = adapter.construct(what, make, self.settings, **options)
            model.fit(_train_set(events, self.seed))
            vectors = _vectors(model, events)
            if vectors is not None:
                return from_factors(self, events, *adapter.without_constants(events, *vectors))
            return Ranker.of(self, events, ScoreTable.of(_scores(what, model, events)))


def _class(name: str) -> Any:
    """Return a recommender class of cornac by name."""
    models = REQUIREMENT.load("models")
    known = [n for n, value in vars(models).items() if inspect.isclass(value) and n[0] != "_"]
    if name not in known:
        raise UnknownError(unknown("cornac recommender", name, known))
    return getattr(models, name)


def _train_set(data: Dataset, seed: int) -> Any:
    """Return the events as cornac's data set, with fmpair's numbers as ids."""
    rows = adapter.ratings(data)
    users, items = ({n: n for n in range(len(ids))} for ids in (data.users, data.items))
    triple = (rows.owner, rows.column.astype(np.int64), rows.value.astype(np.float64))
    make = REQUIREMENT.load("data").Dataset
    return make(len(users), len(items), users, items, triple, seed=seed)


def _vectors(model: Any, data: Dataset) -> tuple[np.ndarray, np.ndarray] | None:
    """Return users' and items' vectors if their products are the model's scores, else None.

    cornac's vectors serve its nearest-neighbour search. Whether the scores are their products, up
    to a constant per user, is checked on some users.
    """
    measure = getattr(model, "get_vector_measure", None)
    if measure is None or "dot" not in str(measure()):
        return None
    users, items = model.get_user_vectors(), model.get_item_vectors()
    if not (isinstance(users, np.ndarray) and isinstance(items, np.ndarray)):
        return None  # EASE has the events themselves, and one factor per item
    if (len(users), len(items)) != (len(data.users), len(data.items)):
        return None
    for user in np.unique(data.user)[:PROBES]:
        score = np.asarray(model.score(int(user)), np.float64).ravel()
        residual = score - items @ users[user]
        largest = TOLERANCE * max(np.ptp(score), TOLERANCE)
        if len(score) != len(items) or np.ptp(residual) > largest:
            return None
    return users, items


def _scores(what: str, model: Any, data: Dataset) -> np.ndarray:
    """Return float32 [users, items]: the scores of every user with events."""
    table = adapter.empty_table(what, data)
    for user in np.unique(data.user):
        table[user] = model.score(int(user))
    return table
