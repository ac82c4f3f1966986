"""Factorization machines that rank: recommendations in context from implicit feedback."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public name -> the module it lives in. Loaded when first used, so that importing fmpair is quick.
_HOMES = {
    "Dataset": "fmpair.data.dataset",
    "Field": "fmpair.features.field",
    "FMPair": "fmpair.models.fm_pair",
    "FmpairError": "fmpair.errors",
    "Popularity": "fmpair.models.popularity",
    "Protocol": "fmpair.evaluation.protocol",
    "Ranker": "fmpair.models.ranker",
    "Recommender": "fmpair.models.recommender",
    "evaluate": "fmpair.evaluation.evaluate",
    "load": "fmpair.models.artifact",
    "read": "fmpair.data.read",
    "with_sources": "fmpair.features.domains",
}

__all__ = [
    "Dataset", "FMPair", "Field", "FmpairError", "Popularity", "Protocol", "Ranker", "Recommender",
    "evaluate", "load", "read", "with_sources",
]  # fmt: skip

if TYPE_CHECKING:
    from fmpair.data.dataset import Dataset
    from fmpair.data.read import read
    from fmpair.errors import FmpairError
    from fmpair.evaluation.evaluate import evaluate
    from fmpair.evaluation.protocol import Protocol
    from fmpair.features.domains import with_sources
    from fmpair.features.field import Field
    from fmpair.models.artifact import load
    from fmpair.models.fm_pair import FMPair
    from fmpair.models.popularity import Popularity
    from fmpair.models.ranker import Ranker
    from fmpair.models.recommender import Recommender


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fmpair' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
