"""Bridge to myfm: a Bayesian factorization machine, trained by Gibbs sampling."""

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
from fmpair.fitted.scorers import MachineScorer, restored
from fmpair.models.fm import TASKS, chosen_or_not, is_binary, rated
from fmpair.models.fm_training import fitted, task_of
from fmpair.solvers.anova import Examples, Machine, mean_of

REQUIREMENT = Requirement("myfm", "myfm", "myfm")


@dataclass(frozen=True)
class MyFM(Recipe):
    """The Bayesian FM of myfm over ids, attributes and contexts; scores are means over its draws.

    task: one of regression (of the rating), classification (of events against as many unobserved
        pairs), or auto: regression where there are ratings.
    epochs: number of draws. samples: how many of the last draws are averaged.
    fields: options by column, as in FM-Pair.
    settings: options of the library by its names, such as {"rank": 8}.
    threads: myfm uses only one. seed: of the draws.
    """

    task: str = "auto"
    epochs: int = 100
    samples: int = 80
    fields: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    threads: int | None = None
    seed: int = 0
    requirement: ClassVar[Requirement] = REQUIREMENT
    require = staticmethod(REQUIREMENT.check)
    provenance = staticmethod(REQUIREMENT.provenance)

    def __post_init__(self) -> None:
        checks.one_of("task", self.task, TASKS)
        checks.whole("epochs", self.epochs, 1)
        checks.whole("samples", self.samples, 1)
        adapter.check_options(self)

    def fit(self, data: Any) -> Ranker:
        """Return a Ranker of predictions; the mean of factorization machines is one as well."""
        events = as_dataset(data)
        binary = is_binary(self.task, events)
        parts = chosen_or_not(events, self.seed) if binary else rated(events)
        task = task_of(events, self.fields, parts, binary)
        return fitted(self, events, task, self._trained(task.examples))

    def _trained(self, examples: Examples) -> Machine:
        """Return the mean of the machines that myfm drew."""
        library = REQUIREMENT.load()
        make = library.MyFMGibbsClassifier if examples.binary else library.MyFMGibbsRegressor
        sizes = np.diff(examples.edges)
        with adapter.foreign_code("myfm"):
            model = adapter.construct("myfm", make, self.settings, rank=16, random_seed=self.seed)
            model.fit(
                adapter.csr(examples.rows, int(sizes.sum())),
                examples.target > 0 if examples.binary else examples.target,
                n_iter=self.epochs,
                n_kept_samples=min(self.samples, self.epochs),
                group_shapes=sizes[sizes > 0].tolist(),
            )
            no_triples = np.zeros((int(sizes.sum()), 0))
            draws = [Machine(d.w0, d.w, d.V, no_triples) for d in model.predictor_.samples]
        return mean_of(draws)

    def restore(
        self, arrays: Mapping[str, np.ndarray], space: FeatureSpace, seen: Rows
    ) -> MachineScorer:
        return restored(arrays, space)
