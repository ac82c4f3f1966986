"""The catalogue of models by name, for experiment files, model files and `fmpair models`."""

from __future__ import annotations

import sys
from dataclasses import MISSING, Field, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl

from fmpair.errors import FmpairError, ModelFileError, UnknownError, unknown
from fmpair.fitted.file import Saved, model_file_errors, read
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recipe import Requiring
from fmpair.fitted.recipe import recipe as recipe_from
from fmpair.fitted.recommender import Recommender
from fmpair.text import descriptions, sections, summary, whole

Model = Recommender | Ranker

# Family -> name -> module and class of the recipe. Those of other libraries are `Requiring`.
FAMILIES = {
    "baseline": {
        "random": "fmpair.models.classic.popularity:Random",
        "popularity": "fmpair.models.classic.popularity:Popularity",
        "popular-lately": "fmpair.models.classic.popularity:PopularLately",
        "most-recent": "fmpair.models.classic.popularity:MostRecent",
        "markov-chain": "fmpair.models.classic.sessions:MarkovChain",
    },
    "neighbours": {
        "item-knn": "fmpair.models.classic.neighbours:ItemKNN",
        "user-knn": "fmpair.models.classic.neighbours:UserKNN",
        "v-sknn": "fmpair.models.classic.sessions:VSKNN",
        "ease": "fmpair.models.classic.neighbours:EASE",
        "content-profile": "fmpair.models.classic.neighbours:ContentProfile",
        "content-knn": "fmpair.models.classic.neighbours:ContentKNN",
    },
    "matrix factorization": {
        "bpr-mf": "fmpair.models.fm_pair.special_cases:BPRMF",
        "fpmc": "fmpair.models.fm_pair.special_cases:FPMC",
        "implicit-als": "fmpair.models.classic.matrix_factorization:ImplicitALS",
        "pure-svd": "fmpair.models.classic.matrix_factorization:PureSVD",
    },
    "factorization machine": {
        "fm-pair": "fmpair.models.fm_pair.fm_pair:FMPair",
        "prfm": "fmpair.models.fm_pair.special_cases:PRFM",
        "fm-listwise": "fmpair.models.fm_pair.special_cases:ListwiseFM",
        "fm-pair-cd": "fmpair.models.fm_pair.cross_domain:FMPairCD",
        "fm-pair-all": "fmpair.models.fm_pair.cross_domain:FMPairAll",
        "fm-pair-target": "fmpair.models.fm_pair.cross_domain:FMPairTarget",
        "fm-pair-selected": "fmpair.models.fm_pair.fm_pair:FMPairSelected",
        "fm-pair-levels": "fmpair.models.fm_pair.feedback_levels:FMPairLevels",
        "fm-pair-weighted": "fmpair.models.fm_pair.weighted:FMPairWeighted",
        "svd++": "fmpair.models.fm_pair.special_cases:SVDPlusPlus",
        "factorised-neighbours": "fmpair.models.fm_pair.special_cases:FactorisedNeighbours",
        "fm": "fmpair.models.fm:FM",
        "fm-map": "fmpair.models.fm:FMMap",
        "gpfm": "fmpair.models.fm:GPFM",
    },
    "other library": {
        "implicit": "fmpair.bridges.implicit:Implicit",
        "lightfm": "fmpair.bridges.lightfm:LightFM",
        "cornac": "fmpair.bridges.cornac:Cornac",
        "lenskit": "fmpair.bridges.lenskit:LensKit",
        "myfm": "fmpair.bridges.myfm:MyFM",
        "recbole": "fmpair.bridges.recbole:RecBole",
    },
}
MODELS = {name: home for family in FAMILIES.values() for name, home in family.items()}


# Recipes.


def find(kind: str) -> Any:
    """Return a recipe's class by its name here, or as package.module:Class."""
    if kind not in MODELS and ":" not in kind:
        raise UnknownError(unknown("model", kind, MODELS))
    module, _, name = MODELS.get(kind, kind).partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UnknownError(f"cannot import model {kind!r}: {error}") from error


def grouped(recipe: Any) -> list[tuple[Field[Any], str]]:
    """Return (option, group) of a recipe's options, ordered by group."""
    options = fields(recipe)
    group_of = sections(recipe, [option.name for option in options])
    groups = ["", *dict.fromkeys(group_of.values())]
    pairs = [(option, group_of.get(option.name, "")) for option in options]
    return sorted(pairs, key=lambda pair: groups.index(pair[1]))


def home_of(name: str) -> str:
    """Return the module of a recipe of fmpair by the name of its class."""
    return next(home.partition(":")[0] for home in MODELS.values() if home.endswith(f":{name}"))


def missing(kind: str) -> str | None:
    """Return why a model cannot be used, such as a library to install; None if it can."""
    try:
        recipe = find(kind)
        if isinstance(recipe, Requiring):
            recipe.require()
    except FmpairError as error:
        return str(error)
    return None


def describe() -> pl.DataFrame:
    """Return (name, family, line, missing) of every model; missing: null if it can be used."""
    rows = [
        (name, family, summary(find(name).__doc__), missing(name))
        for family, members in FAMILIES.items()
        for name in members
    ]
    schema = dict.fromkeys(("name", "family", "line", "missing"), pl.String)
    return pl.DataFrame(rows, schema=schema, orient="row")


def options(kind: str) -> pl.DataFrame:
    """Return (option, type, default, description, group) of a recipe's options, by group.

    group: the section of the docstring, "" for the options that most people need.
    """
    recipe = find(kind)
    known = grouped(recipe) if is_dataclass(recipe) else []
    texts = descriptions(whole(recipe), [f.name for f, _ in known])
    rows = [(f.name, _type_name(f.type), _default(f), texts.get(f.name, ""), g) for f, g in known]
    schema = dict.fromkeys(("option", "type", "default", "description", "group"), pl.String)
    return pl.DataFrame(rows, schema=schema, orient="row")


def from_name(text: str) -> Any:
    """Return the recipe's class that a file names (see `recipe.name_of`); None if it is unknown.

    A file must not cause imports, so a module of another package must be imported already.
    """
    module, _, name = text.rpartition(":")
    if module:
        # not by `getattr`, which may import other modules
        kind = getattr(sys.modules.get(module), "__dict__", {}).get(name)
        is_recipe = isinstance(kind, type) and is_dataclass(kind) and hasattr(kind, "fit")
        return kind if is_recipe else None
    kinds = [kind for kind, home in MODELS.items() if home.endswith(f":{text}")]
    return find(kinds[0]) if kinds else None


def _type_name(kind: Any) -> str:
    return kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))


def _default(option: Any) -> str:
    if option.default is not MISSING:
        return str(option.default)
    return "" if option.default_factory is MISSING else str(option.default_factory())


# Model files.


def load(path: str | Path, *, mapped: bool = False) -> Model:
    """Load a model from a file; raise ModelFileError if it is damaged or of another format.

    All contents are checked, so that a model that loads can also answer. mapped: leave the tables
    in the file, so that several processes share them. Do not write to such a file: replace it, as
    `save` and `mv` do and `cp` does not.
    """
    saved = read(path, mapped)
    space, arrays, kind = saved.space, saved.arrays, saved.frame_kind
    with model_file_errors(path):
        recipe = _recipe(saved)
        if saved.fitted == Ranker.__name__:
            return Ranker.from_arrays(space, arrays, recipe, kind)
        return Recommender.from_arrays(space, arrays, recipe, kind, saved.damping)


def _recipe(saved: Saved) -> Any:
    kind = from_name(saved.recipe)
    if kind is None:
        module = saved.recipe.partition(":")[0]
        hint = f": import {module} first" if ":" in saved.recipe else ""
        raise ModelFileError(f"the file has an unknown model {saved.recipe!r}{hint}")
    return recipe_from(kind, saved.options)
