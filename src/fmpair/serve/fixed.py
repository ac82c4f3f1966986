"""One model that stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fmpair.events.event import Event


@dataclass(frozen=True)
class FixedModel:
    """The model for everyone; name: its id."""

    model: Any
    name: str

    def of(self, user: Any) -> tuple[str, Any, str]:
        return "", self.model, self.name

    def take(self, events: Sequence[Event]) -> None:
        """It does not go by them."""
