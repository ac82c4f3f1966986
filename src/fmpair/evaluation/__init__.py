"""Evaluation: rank items under a stated protocol, measure the ranks, compare models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fmpair.lazy_names import lazy_names

# Module -> its public names.
_NAMES = {
    "evaluation": ("Evaluation", "compare", "evaluate", "summary", "warm_and_cold"),
    "given_lists": ("judge", "overlap", "read_lists"),
    "protocol": ("PRESETS", "Protocol", "preset", "default_protocol"),
    "statistics": (
        "bootstrap", "detectable", "effect_size", "holm", "is_level", "randomisation_test",
        "spread", "t_test", "wilcoxon",
    ),
    "views": (
        "VIEWS", "context", "groups", "item_events", "item_popularity", "user_activity", "view",
        "warmth",
    ),
}  # fmt: skip
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "PRESETS", "VIEWS", "Evaluation", "Protocol", "bootstrap", "compare", "context",
    "default_protocol", "detectable", "effect_size", "evaluate", "groups", "holm", "is_level",
    "item_events", "item_popularity", "judge", "overlap", "preset", "randomisation_test",
    "read_lists", "spread", "summary", "t_test", "user_activity", "view", "warm_and_cold", "warmth",
    "wilcoxon",
]  # fmt: skip

if TYPE_CHECKING:
    from fmpair.evaluation.evaluation import Evaluation, compare, evaluate, summary, warm_and_cold
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
    from fmpair.evaluation.views import (
        VIEWS,
        context,
        groups,
        item_events,
        item_popularity,
        user_activity,
        view,
        warmth,
    )

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
