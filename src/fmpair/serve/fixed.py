"""One model that stays as it is."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fmpair.serve.arms import CURRENT
from fmpair.serve.models import NO_FILE, Refusal, Serving


@dataclass(frozen=True)
class FixedModel:
    """The model for everyone, which goes by no events; name: its id."""

    model: Any
    name: str
    refused: dict[str, Refusal] = field(default_factory=dict)
    swaps: int = 0
    refusals: int = 0
    trouble: str | None = None

    def of(self, user: Any) -> tuple[str, Any, str]:
        return CURRENT, self.model, self.name

    def serving(self) -> list[Serving]:
        return [Serving(CURRENT, Path(), self.name, "", self.model, NO_FILE, time.time())]

    def history_of(self, user: Any, model: Any) -> None:
        return None

    def behind(self) -> bool:
        return False

    def follow(self) -> None:
        """There is nothing to follow."""
