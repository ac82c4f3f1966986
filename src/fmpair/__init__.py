"""Factorization machines that rank: recommendations in context from implicit feedback."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

# Public name -> the module it lives in. Loaded when first used, so that importing fmpair is quick.
_HOMES = {
    "Dataset": "fmpair.data.dataset",
    "Field": "fmpair.features.field",
    "FMPair": "fmpair.models.fm_pair.fm_pair",
    "FmpairError": "fmpair.errors",
    "Popularity": "fmpair.models.classic.popularity",
    "Protocol": "fmpair.evaluation.protocol",
    "Ranker": "fmpair.fitted.ranker",
    "Recommender": "fmpair.fitted.recommender",
    "evaluate": "fmpair.evaluation.evaluation",
    "load": "fmpair.models.catalog",
    "read": "fmpair.data.read",
    "with_sources": "fmpair.features.layouts",
}

__all__ = [
    "Dataset",
    "FMPair",
    "Field",
    "FmpairError",
    "Popularity",
    "Protocol",
    "Ranker",
    "Recommender",
    "evaluate",
    "load",
    "read",
    "with_sources",
]

if TYPE_CHECKING:
    from fmpair.data.dataset import Dataset
    from fmpair.data.read import read
    from fmpair.errors import FmpairError
    from fmpair.evaluation.evaluation import evaluate
    from fmpair.evaluation.protocol import Protocol
    from fmpair.features.field import Field
    from fmpair.features.layouts import with_sources
    from fmpair.fitted.ranker import Ranker
    from fmpair.fitted.recommender import Recommender
    from fmpair.models.catalog import load
    from fmpair.models.classic.popularity import Popularity
    from fmpair.models.fm_pair.fm_pair import FMPair


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        from difflib import get_close_matches

        near = get_close_matches(name, __all__, 1)
        hint = f". Did you mean {near[0]!r}?" if near else ""
        raise AttributeError(f"module 'fmpair' has no attribute {name!r}{hint}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
