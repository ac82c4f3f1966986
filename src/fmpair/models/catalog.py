"""Models by name, for experiment files, model files and `fmpair models`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl

from fmpair.errors import FmpairError, ModelFileError, UnknownError, unknown
from fmpair.fitted import recipe as option
from fmpair.fitted.file import Saved, read, understood
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recipe import Requiring
from fmpair.fitted.recommender import Recommender
from fmpair.text import descriptions, sections, summary, whole

# Family -> name -> where its recipe stands; one of another library is `Requiring` it.
FAMILIES = {
    "baseline": {
        "random": "fmpair.models.classic.popularity:Random",
        "popularity": "fmpair.models.classic.popularity:Popularity",
        "popular-lately": "fmpair.models.classic.popularity:PopularLately",
        "most-recent": "fmpair.models.classic.popularity:MostRecent",
        "markov-chain": "fmpair.models.classic.markov:MarkovChain",
    },
    "neighbours": {
        "item-knn": "fmpair.models.classic.neighbours:ItemKNN",
        "user-knn": "fmpair.models.classic.neighbours:UserKNN",
        "ease": "fmpair.models.classic.neighbours:EASE",
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
        "fm-pair-selected": "fmpair.models.fm_pair.selection:FMPairSelected",
        "fm-pair-levels": "fmpair.models.fm_pair.feedback_levels:FMPairLevels",
        "fm-pair-weighted": "fmpair.models.fm_pair.weighted:FMPairWeighted",
        "svd++": "fmpair.models.fm_pair.special_cases:SVDPlusPlus",
        "factorised-neighbours": "fmpair.models.fm_pair.special_cases:FactorisedNeighbours",
        "fm": "fmpair.models.fm:FM",
        "fm-map": "fmpair.models.fm:FMMap",
        "gpfm": "fmpair.models.gpfm:GPFM",
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


def find(kind: str) -> Any:
    """The recipe's class, by its name here or as package.module:Class."""
    if kind not in MODELS and ":" not in kind:
        raise UnknownError(unknown("model", kind, MODELS))
    module, _, name = MODELS.get(kind, kind).partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UnknownError(f"cannot import model {kind!r}: {error}") from error


def grouped(recipe: Any) -> list[tuple[Field[Any], str]]:
    """(option, group) of a recipe's options, those of a group together."""
    own = fields(recipe)
    group_of = sections(recipe, [f.name for f in own])
    groups = ["", *dict.fromkeys(group_of.values())]
    pairs = [(f, group_of.get(f.name, "")) for f in own]
    return sorted(pairs, key=lambda pair: groups.index(pair[1]))


def home_of(name: str) -> str:
    """The module of a recipe of our own, by the name of its class."""
    return next(home.partition(":")[0] for home in MODELS.values() if home.endswith(f":{name}"))


def missing(kind: str) -> str | None:
    """What stands in the way of using a model, such as a library to install; None if nothing."""
    try:
        recipe = find(kind)
        if isinstance(recipe, Requiring):
            recipe.require()
    except FmpairError as error:
        return str(error)
    return None


def describe() -> pl.DataFrame:
    """(name, family, line, missing) of every model; missing: null where it can be used."""
    rows = [
        (name, family, summary(find(name).__doc__), missing(name))
        for family, members in FAMILIES.items()
        for name in members
    ]
    schema = dict.fromkeys(("name", "family", "line", "missing"), pl.String)
    return pl.DataFrame(rows, schema=schema, orient="row")


def options(kind: str) -> pl.DataFrame:
    """(option, type, default, description, group) of a recipe's options, those of a group together.

    group: the section of the docstring, "" for the options that most people need.
    """
    recipe = find(kind)
    own = grouped(recipe) if is_dataclass(recipe) else []
    texts = descriptions(whole(recipe), [f.name for f, _ in own])
    rows = [(f.name, _type_name(f.type), _default(f), texts.get(f.name, ""), g) for f, g in own]
    schema = dict.fromkeys(("option", "type", "default", "description", "group"), pl.String)
    return pl.DataFrame(rows, schema=schema, orient="row")


def from_name(text: str) -> Any:
    """The class of a recipe that a file names (see `recipe.name_of`); None where it is not known.

    A file must not make us import what it likes: a module that is not ours has to be there already.
    """
    module, _, name = text.rpartition(":")
    if module:
        # not by `getattr`, at which a module may import others
        found = getattr(sys.modules.get(module), "__dict__", {}).get(name)
        is_recipe = isinstance(found, type) and is_dataclass(found) and hasattr(found, "fit")
        return found if is_recipe else None
    kinds = [kind for kind, home in MODELS.items() if home.endswith(f":{text}")]
    return find(kinds[0]) if kinds else None


def _type_name(kind: Any) -> str:
    return kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))


def _default(option: Any) -> str:
    if option.default is not MISSING:
        return str(option.default)
    return "" if option.default_factory is MISSING else str(option.default_factory())


# A model file read back: its arrays, and the recipe that knows what they mean.


Model = Recommender | Ranker


def load(path: str | Path) -> Model:
    """The model of a file; a damaged, foreign or later one is refused, and so is a forged one.

    Nothing the file says is trusted: what is loaded gives answers, whoever wrote the file.
    """
    saved = read(path)
    space, arrays, kind = saved.space, saved.arrays, saved.frame_kind
    with understood(path):
        recipe = _recipe(saved)
        if saved.fitted == Ranker.__name__:
            return Ranker.from_arrays(space, arrays, recipe, kind)
        return Recommender.from_arrays(space, arrays, recipe, kind, saved.damping)


def _recipe(saved: Saved) -> Any:
    kind = from_name(saved.recipe)
    if kind is None:
        module = saved.recipe.partition(":")[0]
        hint = f": import {module} first" if ":" in saved.recipe else ""
        raise ModelFileError(
            f"the file holds a {saved.recipe!r}, which this fmpair does not know{hint}"
        )
    return option.recipe(kind, _with_levels(saved.options))


def _with_levels(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options, levels by their new name: they were an order, which now is a number."""
    order = options.get("order", 2)
    if "level" not in options or isinstance(order, int):
        return options
    return {**options, "order": 2, "levels": order}
