"""All models: the recipes, the catalogue of their names, and `load`.

    from fmpair.models import EASE, FMPairLevels, load

Names are loaded on first use, so that importing this package compiles nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fmpair.fitted.recipe import Recipe
    from fmpair.models import catalog
    from fmpair.models.catalog import load
    from fmpair.models.classic.matrix_factorization import ImplicitALS, PureSVD
    from fmpair.models.classic.neighbours import (
        EASE,
        ContentKNN,
        ContentProfile,
        ItemKNN,
        UserKNN,
    )
    from fmpair.models.classic.popularity import MostRecent, Popularity, PopularLately, Random
    from fmpair.models.classic.sessions import VSKNN, MarkovChain
    from fmpair.models.fm import FM, GPFM, FMMap
    from fmpair.models.fm_pair.cross_domain import FMPairAll, FMPairCD, FMPairTarget
    from fmpair.models.fm_pair.feedback_levels import FMPairLevels
    from fmpair.models.fm_pair.fm_pair import FMPair, FMPairSelected
    from fmpair.models.fm_pair.special_cases import (
        BPRMF,
        FPMC,
        PRFM,
        FactorisedNeighbours,
        ListwiseFM,
        SVDPlusPlus,
    )
    from fmpair.models.fm_pair.weighted import FMPairWeighted
    from fmpair.training.options import FMPairOptions
    from fmpair.training.trainable import TrainableRecipe

# Public names that are not recipes of the catalogue, and their modules.
_OTHERS = {
    "FMPairOptions": "fmpair.training.options",
    "Recipe": "fmpair.fitted.recipe",
    "TrainableRecipe": "fmpair.training.trainable",
    "load": "fmpair.models.catalog",
}
__all__ = [
    "BPRMF", "EASE", "FM", "FPMC", "GPFM", "PRFM", "VSKNN", "ContentKNN", "ContentProfile", "FMMap",
    "FMPair", "FMPairAll", "FMPairCD", "FMPairLevels", "FMPairOptions", "FMPairSelected",
    "FMPairTarget", "FMPairWeighted", "FactorisedNeighbours", "ImplicitALS", "ItemKNN",
    "ListwiseFM", "MarkovChain", "MostRecent", "PopularLately", "Popularity", "PureSVD", "Random",
    "Recipe", "SVDPlusPlus", "TrainableRecipe", "UserKNN", "catalog", "load",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__ or name == "catalog":  # a submodule, found by the import system
        raise AttributeError(f"module 'fmpair.models' has no attribute {name!r}")
    from fmpair.models.catalog import home_of

    return getattr(import_module(_OTHERS.get(name) or home_of(name)), name)


def __dir__() -> list[str]:
    return sorted(__all__)
