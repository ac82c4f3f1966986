"""The smallest piece of a run: one model, fitted and evaluated once, named by its hash."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from fmpair import __version__
from fmpair.config.experiment import Candidate
from fmpair.evaluation.protocol import Protocol

TEST, VALIDATION = "test", "validation"


@dataclass(frozen=True, eq=False)
class Cell:
    """All that a result depends on, and nothing else: equal ids have equal results.

    data: fingerprint of the events; split: hash of the fold's rows. model: what tuning chose
    stands among its options. part: what it is evaluated on, test, or validation for a trial.
    metrics: of every protocol. stop_by: the metric that early stopping watches. curve: see
    `Running`. Labels, threads and workers are no part of it.
    """

    data: str
    split: str
    fold: int
    seed: int
    model: Candidate
    protocols: tuple[Protocol, ...]
    metrics: tuple[str, ...]
    views: tuple[str, ...] = ()
    part: str = TEST
    stop_by: str = "ndcg@10"
    curve: int = 0

    def spec(self) -> dict[str, Any]:
        """The cell as plain values, which its id is made of."""
        model = self.model
        return {
            "fmpair": __version__,
            "data": self.data,
            "split": self.split,
            "fold": self.fold,
            "seed": self.seed,
            "part": self.part,
            "kind": model.kind,
            "options": dict(model.options),
            "context": model.context,
            "user_fields": model.user_fields,
            "item_fields": model.item_fields,
            "stop": None if model.stop is None else [model.stop, self.stop_by],
            "protocols": [protocol.id for protocol in self.protocols],
            "metrics": self.metrics,
            "views": self.views,
            "curve": self.curve,
            **({} if model.learns is None else {"learns": model.learns}),
        }

    @cached_property
    def id(self) -> str:
        """16 hex digits; the same wherever and whenever the same is asked."""
        return sha256(canonical(self.spec()).encode()).hexdigest()[:16]

    def __str__(self) -> str:
        trial = ", trial" if self.part == VALIDATION else ""
        return f"{self.model.name}, fold {self.fold}, seed {self.seed}{trial}"


def canonical(value: Any) -> str:
    """JSON that is the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
