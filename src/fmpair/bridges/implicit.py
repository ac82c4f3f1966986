"""Bridge to implicit: alternating least squares, BPR, logistic factorization, item neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fmpair import checks
from fmpair.arrays import Rows
from fmpair.bridges import adapter
from fmpair.bridges.adapter import Requirement
from fmpair.data import as_dataset
from fmpair.features import FeatureSpace
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recipe import Recipe
from fmpair.fitted.recommender import Recommender, from_factors
from fmpair.fitted.scorers import ItemNeighbours
from fmpair.models.classic.neighbours import interactions

REQUIREMENT = Requirement("implicit", "implicit", "implicit")
FACTORS = {
    "als": ("als", "AlternatingLeastSquares"),
    "bpr": ("bpr", "BayesianPersonalizedRanking"),
    "lmf": ("lmf", "LogisticMatrixFactorization"),
}
NEIGHBOURS = {
    "item-knn": ("nearest_neighbours", "ItemItemRecommender"),
    "cosine": ("nearest_neighbours", "CosineRecommender"),
    "tfidf": ("nearest_neighbours", "TFIDFRecommender"),
    "bm25": ("nearest_neighbours", "BM25Recommender"),
}
MODELS = {**FACTORS, **NEIGHBOURS}


@dataclass(frozen=True)
class Implicit(Recipe):
    """A model of implicit, trained on the sum of the weights of each user's items.

    model: one of als, bpr, lmf, or neighbours by item-knn, cosine, tfidf, bm25.
    settings: options of the model by implicit's names, such as {"factors": 64}.
    threads: None uses all cores. seed: of random draws; with several threads bpr and lmf still
        differ from run to run.
    """

    model: str = "als"
    settings: Mapping[str, Any] = field(default_factory=dict)
    threads: int | None = None
    seed: int = 0
    requirement: ClassVar[Requirement] = REQUIREMENT
    require = staticmethod(REQUIREMENT.check)
    provenance = staticmethod(REQUIREMENT.provenance)

    def __post_init__(self) -> None:
        checks.one_of("model", self.model, tuple(MODELS))
        adapter.check_options(self)

    def fit(self, data: Any) -> Recommender | Ranker:
        """Return factors as a Recommender, neighbours as a Ranker."""
        events = as_dataset(data)
        module, name = MODELS[self.model]
        make = getattr(REQUIREMENT.load(module), name)
        what = f"implicit's {self.model}"
        options: dict[str, Any] = {"num_threads": self.threads or 0}  # 0: all
        if self.model in FACTORS:
            options["random_state"] = self.seed
        rows = interactions(events, "linear")
        with adapter.foreign_code(what):
            model = adapter.construct(what, make, self.settings, **options)
            model.fit(adapter.csr(rows, len(events.items)), show_progress=False)
        if self.model in FACTORS:
            tables = (model.user_factors, model.item_factors)
            factors = [t.to_numpy() if hasattr(t, "to_numpy") else t for t in tables]  # from a GPU
            return from_factors(self, events, *adapter.without_constants(events, *factors))
        near = model.similarity.T.tocsr()
        similar = Rows(near.indptr.astype(np.int64), near.indices, near.data.astype(np.float32))
        return Ranker.of(self, events, ItemNeighbours(rows, similar, events.items))

    def restore(
        self, arrays: Mapping[str, np.ndarray], space: FeatureSpace, seen: Rows
    ) -> ItemNeighbours:
        return ItemNeighbours.restored(arrays, space)
