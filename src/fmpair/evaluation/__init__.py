"""Evaluation: rank items under a stated protocol, measure the ranks, compare models."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Module -> its public names. Loaded when first used, so that importing the package is quick.
_NAMES = {
    "evaluation": ("Evaluation", "evaluate"),
    "given_lists": ("judge", "overlap", "read_lists"),
    "protocol": ("PRESETS", "Protocol", "preset", "default_protocol"),
    "statistics": (
        "bootstrap", "detectable", "effect_size", "holm", "is_level", "randomisation_test",
        "spread", "t_test", "wilcoxon",
    ),
    "tables": ("compare", "summary"),
    "views": ("VIEWS", "context", "groups", "item_popularity", "user_activity", "view", "warmth"),
}  # fmt: skip
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "PRESETS", "VIEWS", "Evaluation", "Protocol", "bootstrap", "compare", "context",
    "default_protocol", "detectable", "effect_size", "evaluate", "groups", "holm", "is_level",
    "item_popularity", "judge", "overlap", "preset", "randomisation_test", "read_lists", "spread",
    "summary", "t_test", "user_activity", "view", "warmth", "wilcoxon",
]  # fmt: skip

if TYPE_CHECKING:
    from fmpair.evaluation.evaluation import Evaluation, evaluate
    from fmpair.evaluation.given_lists import judge, overlap, read_lists
    from fmpair.evaluation.protocol import PRESETS, Protocol, default_protocol, preset
    from fmpair.evaluation.statistics import (
        bootstrap,
        detectable,
        effect_size,
        holm,
        is_level,
        randomisation_test,
        spread,
        t_test,
        wilcoxon,
    )
    from fmpair.evaluation.tables import compare, summary
    from fmpair.evaluation.views import (
        VIEWS,
        context,
        groups,
        item_popularity,
        user_activity,
        view,
        warmth,
    )


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fmpair.evaluation' has no attribute {name!r}")
    return getattr(import_module(f"fmpair.evaluation.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
