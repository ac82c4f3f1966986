"""myfm: a Bayesian factorization machine, learned by Gibbs sampling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fmpair.arrays import Rows, join_rows, stack_rows
from fmpair.bridges.border import foreign, made
from fmpair.bridges.matrix import csr
from fmpair.bridges.recipe import check
from fmpair.bridges.requirement import Requirement
from fmpair.data import Dataset, as_dataset
from fmpair.engine.anova import Machine, mean_of
from fmpair.engine.pointwise import Examples
from fmpair.errors import DataError
from fmpair.features import FeatureSpace, situations
from fmpair.models import option
from fmpair.models.fm import chosen_or_not
from fmpair.models.machine import Layout, MachineScorer, restored
from fmpair.models.pointwise import Part, settle
from fmpair.models.ranker import Ranker

REQUIREMENT = Requirement("myfm", "myfm", "myfm")
TASKS = ("auto", "regression", "classification")


@dataclass(frozen=True)
class MyFM:
    """myfm over users, items, their attributes and contexts; scores are means over its draws.

    task: regression (of the rating), classification (of events against as many unobserved pairs),
        or auto: regression where there are ratings. epochs: draws; samples: the last ones kept.
    fields: how columns become features, as in `FMPair`.
    settings: myfm's own options by its names, such as {"rank": 8}.
    threads: it uses one only.
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
        option.one_of("task", self.task, TASKS)
        option.whole("epochs", self.epochs, 1)
        option.whole("samples", self.samples, 1)
        check(self)

    def fit(self, data: Any) -> Ranker:
        """A Ranker whose scores are predictions: the mean of factorization machines is one."""
        events = as_dataset(data)
        space = FeatureSpace.fit(events, self.fields)
        layout = Layout(space)
        user_rows = space.user_rows(events.user_table, len(space.users))
        item_rows = space.item_rows(events.item_table, len(space.items))
        parts, binary = _parts(self.task, events, self.seed)
        rows = [_rows(layout, part.events, user_rows, item_rows) for part in parts]
        target = np.concatenate([part.target for part in parts])
        examples = Examples(stack_rows(*rows), target, layout.edges, binary)
        machine = settle(self._learned(examples), examples)
        tables = (table.astype(np.float32) for table in machine[1:])
        scorer = MachineScorer(layout, Machine(machine.bias, *tables), user_rows, item_rows)
        return Ranker(space, scorer, events.seen, self, events.frame_kind)

    def _learned(self, examples: Examples) -> Machine:
        """The mean of the machines that myfm drew."""
        library = REQUIREMENT.load()
        make = library.MyFMGibbsClassifier if examples.binary else library.MyFMGibbsRegressor
        sizes = np.diff(examples.edges)
        with foreign("myfm"):
            model = made("myfm", make, self.settings, rank=16, random_seed=self.seed)
            model.fit(
                csr(examples.rows, int(sizes.sum())),
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

    def options(self) -> dict[str, Any]:
        fields = {name: option.field_options(f) for name, f in self.fields.items()}
        return option.plain(self) | {"fields": fields}

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> MyFM:
        return option.recipe(cls, options)


def _parts(task: str, events: Dataset, seed: int) -> tuple[list[Part], bool]:
    """(events with their targets, whether these are yes and no)."""
    rating = events.column("rating")
    if task == "classification" or (task == "auto" and rating is None):
        return chosen_or_not(events, seed), True
    if rating is None:
        raise DataError("task='regression' needs a column 'rating', and the data have none")
    return [Part(events, rating.astype(np.float64))], False


def _rows(layout: Layout, events: Dataset, user_rows: Rows, item_rows: Rows) -> Rows:
    """All features of every event."""
    contexts, situation = situations(layout.space, events)
    query = layout.query(events.user, user_rows.take(events.user), contexts.take(situation))
    return join_rows([query, layout.item(events.item, item_rows.take(events.item))])
