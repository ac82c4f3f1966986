"""Every model of fmpair: recipes, the catalogue of their names, and `load`.

    from fmpair.models import EASE, FMPairLevels, load

What is named is loaded when first used: a recipe takes no compiler to be imported.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fmpair.models.old_places import OldPlaces

# Public names that are no recipes of the catalogue -> the module each lives in.
_HOMES = {
    "FMPairOptions": "fmpair.training.options",
    "Recipe": "fmpair.fitted.recipe",
    "TrainableRecipe": "fmpair.training.trainable",
    "load": "fmpair.models.catalog",
}

__all__ = [
    "BPRMF",
    "EASE",
    "FM",
    "FPMC",
    "GPFM",
    "PRFM",
    "FMMap",
    "FMPair",
    "FMPairAll",
    "FMPairCD",
    "FMPairLevels",
    "FMPairOptions",
    "FMPairSelected",
    "FMPairTarget",
    "FMPairWeighted",
    "FactorisedNeighbours",
    "ImplicitALS",
    "ItemKNN",
    "ListwiseFM",
    "MarkovChain",
    "MostRecent",
    "PopularLately",
    "Popularity",
    "PureSVD",
    "Random",
    "Recipe",
    "SVDPlusPlus",
    "TrainableRecipe",
    "UserKNN",
    "catalog",
    "load",
]

if TYPE_CHECKING:
    from fmpair.fitted.recipe import Recipe
    from fmpair.models import catalog
    from fmpair.models.catalog import load
    from fmpair.models.classic.markov import MarkovChain
    from fmpair.models.classic.matrix_factorization import ImplicitALS, PureSVD
    from fmpair.models.classic.neighbours import EASE, ItemKNN, UserKNN
    from fmpair.models.classic.popularity import MostRecent, Popularity, PopularLately, Random
    from fmpair.models.fm import FM, FMMap
    from fmpair.models.fm_pair.cross_domain import FMPairAll, FMPairCD, FMPairTarget
    from fmpair.models.fm_pair.feedback_levels import FMPairLevels
    from fmpair.models.fm_pair.fm_pair import FMPair
    from fmpair.models.fm_pair.selection import FMPairSelected
    from fmpair.models.fm_pair.special_cases import (
        BPRMF,
        FPMC,
        PRFM,
        FactorisedNeighbours,
        ListwiseFM,
        SVDPlusPlus,
    )
    from fmpair.models.fm_pair.weighted import FMPairWeighted
    from fmpair.models.gpfm import GPFM
    from fmpair.training.options import FMPairOptions
    from fmpair.training.trainable import TrainableRecipe

sys.meta_path.append(OldPlaces)


def __getattr__(name: str) -> Any:
    if name not in __all__ or name == "catalog":  # a module, which the import system finds
        raise AttributeError(f"module 'fmpair.models' has no attribute {name!r}")
    from fmpair.models.catalog import home_of

    return getattr(import_module(_HOMES.get(name) or home_of(name)), name)


def __dir__() -> list[str]:
    return sorted(__all__)
