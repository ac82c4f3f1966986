"""Factorization machines that rank: recommendations in context from implicit feedback."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fmpair.lazy_names import lazy_names

__version__ = "0.2.0"

# Public name -> its module.
_HOMES = {
    "Dataset": "data.dataset",
    "Field": "features.field",
    "FMPair": "models.fm_pair.fm_pair",
    "FmpairError": "errors",
    "Popularity": "models.classic.popularity",
    "Protocol": "evaluation.protocol",
    "Question": "fitted.question",
    "Ranker": "fitted.ranker",
    "Recommender": "fitted.recommender",
    "evaluate": "evaluation.evaluation",
    "load": "models.catalog",
    "read": "data.read",
    "recommend_to_folder": "fitted.ranked_lists",
    "with_sources": "features.layouts",
}

__all__ = [
    "Dataset", "FMPair", "Field", "FmpairError", "Popularity", "Protocol", "Question", "Ranker",
    "Recommender", "evaluate", "load", "read", "recommend_to_folder", "with_sources",
]  # fmt: skip

if TYPE_CHECKING:
    from fmpair.data.dataset import Dataset
    from fmpair.data.read import read
    from fmpair.errors import FmpairError
    from fmpair.evaluation.evaluation import evaluate
    from fmpair.evaluation.protocol import Protocol
    from fmpair.features.field import Field
    from fmpair.features.layouts import with_sources
    from fmpair.fitted.question import Question
    from fmpair.fitted.ranked_lists import recommend_to_folder
    from fmpair.fitted.ranker import Ranker
    from fmpair.fitted.recommender import Recommender
    from fmpair.models.catalog import load
    from fmpair.models.classic.popularity import Popularity
    from fmpair.models.fm_pair.fm_pair import FMPair

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
