"""One fitted model behind a service, without files and events."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fmpair.serve.live_models import ServedModel
from fmpair.serve.settings import CURRENT, NO_FILE


@dataclass(frozen=True)
class StaticModel:
    """Takes the place of `LiveModels`; name: the id of the model."""

    model: Any
    name: str
    rejected: dict[str, Any] = field(default_factory=dict)
    swaps: int = 0
    refusals: int = 0
    trouble: str | None = None
    stale_since: float | None = None

    def of(self, user: Any) -> tuple[str, Any, str]:
        return CURRENT, self.model, self.name

    def serving(self) -> list[ServedModel]:
        return [ServedModel(CURRENT, Path(), self.name, "", self.model, NO_FILE, time.time())]

    def history_of(self, user: Any, model: Any) -> None:
        return None

    async def catch_up(self) -> None:
        """Do nothing: there are no events."""
