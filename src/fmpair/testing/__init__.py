"""For tests of models: tiny data sets with known answers, and the contract of all models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fmpair.testing.known_answers import (
    cold_items,
    day_and_night,
    daytime_log,
    left_out,
    opposite_tastes,
    purchase_log,
    session_log,
    shop_log,
    two_tastes,
)

if TYPE_CHECKING:
    from fmpair.testing.contract import RULES, ModelContract

__all__ = [
    "RULES", "ModelContract", "cold_items", "day_and_night", "daytime_log", "left_out",
    "opposite_tastes", "purchase_log", "session_log", "shop_log", "two_tastes",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in ("RULES", "ModelContract"):
        raise AttributeError(f"module 'fmpair.testing' has no attribute {name!r}")
    from fmpair.testing import contract  # it loads all models, which the toys do not need

    return getattr(contract, name)
