"""Bridge to lightfm-next: BPR, WARP and similar losses over ids and attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fmpair import checks
from fmpair.arrays import Rows, empty_rows, group_rows, join_rows
from fmpair.bridges import adapter
from fmpair.bridges.adapter import Requirement, csr
from fmpair.data import Dataset, as_dataset
from fmpair.engine.contract import Parameters
from fmpair.engine.item_side import item_sums
from fmpair.features import FeatureSpace
from fmpair.fitted.recipe import Recipe
from fmpair.fitted.recommender import Recommender
from fmpair.fitted.visitor import settle_cold
from fmpair.models.classic.neighbours import interactions
from fmpair.threads import all_threads

REQUIREMENT = Requirement("lightfm", "lightfm-next", "lightfm")
LOSSES = ("bpr", "warp", "warp-kos", "logistic")


@dataclass(frozen=True)
class LightFM(Recipe):
    """LightFM (lightfm-next): users and items are sums of the vectors of their ids and attributes.

    loss: one of bpr, warp, warp-kos, logistic. epochs: passes over the events.
    fields: options by column, as in FM-Pair; contexts are not supported.
    normalize: scale the features of a row to sum to one.
    settings: options of the library by its names, such as {"no_components": 64}.
    threads: None uses all cores. seed: of random draws; with several threads results still differ
        from run to run.
    """

    loss: str = "warp"
    epochs: int = 30
    fields: Mapping[str, Any] = field(default_factory=dict)
    normalize: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    threads: int | None = None
    seed: int = 0
    requirement: ClassVar[Requirement] = REQUIREMENT
    require = staticmethod(REQUIREMENT.check)
    provenance = staticmethod(REQUIREMENT.provenance)

    def __post_init__(self) -> None:
        checks.one_of("loss", self.loss, LOSSES)
        checks.whole("epochs", self.epochs, 1)
        adapter.check_options(self)

    def fit(self, data: Any) -> Recommender:
        """Return a recommender that accepts new users described by their attributes."""
        events = as_dataset(data)
        space = FeatureSpace.fit(events, self.fields, self.normalize).without_past()
        user_rows = space.user_rows(events.user_table, len(space.users))
        item_rows = space.item_rows(events.item_table, len(space.items))
        make, what = REQUIREMENT.load().LightFM, f"lightfm's {self.loss}"
        chosen, weight = _interactions(events)
        with adapter.foreign_code(what):
            options = {"loss": self.loss, "random_state": self.seed}
            model = adapter.construct(what, make, self.settings, **options)
            model.fit(
                chosen,
                user_features=_with_ids(user_rows, space.query.size),
                item_features=_with_ids(item_rows, space.item.size),
                sample_weight=weight,
                epochs=self.epochs,
                num_threads=self.threads or all_threads(),
            )
        learned = settle_cold(_parameters(model, space), events.seen)
        return Recommender(
            space,
            _with_item_sums(learned, item_rows),
            user_rows,
            empty_rows(len(space.items)),
            events.seen,
            self,
            events.frame_kind,
        )


def _interactions(data: Dataset) -> tuple[Any, Any]:
    """Return the binary interaction matrix and the weight matrix (None if unweighted), sparse."""
    weight = csr(interactions(data, "linear"), len(data.items)).tocoo()
    chosen = weight.copy()
    chosen.data = np.ones_like(weight.data)
    return chosen, weight if data.column("weight") is not None else None


def _with_ids(rows: Rows, size: int) -> Any:
    """Return csr [ids, ids + features]: an identity matrix, then the attributes."""
    every = np.arange(rows.size)
    ids = group_rows(every, every, rows.size)
    shifted = rows._replace(column=(rows.column + rows.size).astype(np.int32))
    return csr(join_rows([ids, shifted]), rows.size + size)


def _parameters(model: Any, space: FeatureSpace) -> Parameters:
    """Return the vectors of ids and attributes; drop user biases, which do not affect rankings."""
    users, items = len(space.users), len(space.items)
    query = model.user_embeddings[users:]
    for offset, encoder in space.query.of_role("context"):
        query[offset : offset + encoder.size] = 0  # lightfm has no context features
    return Parameters(
        model.user_embeddings[:users],
        model.item_embeddings[:items],
        model.item_biases[:items],
        query,
        model.item_embeddings[items:],
        model.item_biases[items:],
    )


def _with_item_sums(p: Parameters, rows: Rows) -> Parameters:
    """Add attribute vectors to their items: unlike an FM, LightFM has no terms within a side."""
    items, bias = item_sums(p.items, p.item_bias, rows, p.features, p.feature_bias)
    return p._replace(
        items=items,
        item_bias=bias,
        features=np.zeros_like(p.features),
        feature_bias=np.zeros_like(p.feature_bias),
    )
