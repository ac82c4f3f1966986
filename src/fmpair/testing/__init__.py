"""For tests of models: tiny data sets with known answers, and the contract of all models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fmpair.lazy_names import lazy_names

if TYPE_CHECKING:
    from fmpair.testing.contract import RULES, ModelContract
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

__all__ = [
    "RULES", "ModelContract", "cold_items", "day_and_night", "daytime_log", "left_out",
    "opposite_tastes", "purchase_log", "session_log", "shop_log", "two_tastes",
]  # fmt: skip

# `contract` loads all models, which the data sets do not need.
_HOMES = dict.fromkeys(__all__, "known_answers") | dict.fromkeys(__all__[:2], "contract")

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
