"""Models by name, for experiment files, model files and `fmpair models`."""

from __future__ import annotations

import sys
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from typing import Any

import polars as pl

from fmpair.docstring import descriptions, summary, whole
from fmpair.errors import FmpairError, UnknownError, unknown

# Family -> name -> where its recipe stands. A recipe is a frozen dataclass with fit(data); that of
# another library also has a `requirement` whose check() raises where the library is missing.
FAMILIES = {
    "baseline": {
        "random": "fmpair.models.random:Random",
        "popularity": "fmpair.models.popularity:Popularity",
    },
    "neighbours": {
        "item-knn": "fmpair.models.neighbours:ItemKNN",
        "user-knn": "fmpair.models.neighbours:UserKNN",
        "ease": "fmpair.models.ease:EASE",
    },
    "matrix factorization": {
        "bpr-mf": "fmpair.models.bpr_mf:BPRMF",
        "implicit-als": "fmpair.models.implicit_als:ImplicitALS",
        "pure-svd": "fmpair.models.pure_svd:PureSVD",
    },
    "factorization machine": {
        "fm-pair": "fmpair.models.fm_pair:FMPair",
        "prfm": "fmpair.models.prfm:PRFM",
        "fm-listwise": "fmpair.models.listwise:ListwiseFM",
        "fm-pair-cd": "fmpair.models.cross_domain:FMPairCD",
        "fm-pair-all": "fmpair.models.cross_domain:FMPairAll",
        "fm-pair-target": "fmpair.models.cross_domain:FMPairTarget",
        "fm-pair-selected": "fmpair.models.selection:FMPairSelected",
        "fm-pair-levels": "fmpair.models.levels:FMPairLevels",
        "fm-pair-weighted": "fmpair.models.weighted:FMPairWeighted",
        "svd++": "fmpair.models.histories:SVDPlusPlus",
        "factorised-neighbours": "fmpair.models.histories:FactorisedNeighbours",
        "fm": "fmpair.models.fm:FM",
        "fm-map": "fmpair.models.fm_map:FMMap",
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
}  # fmt: skip
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


def missing(kind: str) -> str | None:
    """What stands in the way of using a model, such as a library to install; None if nothing."""
    try:
        requirement = getattr(find(kind), "requirement", None)
        if requirement is not None:
            requirement.check()
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
    """(option, type, default, description) of a recipe's options."""
    recipe = find(kind)
    own = fields(recipe) if is_dataclass(recipe) else ()
    texts = descriptions(whole(recipe), [f.name for f in own])
    rows = [(f.name, _type_name(f.type), _default(f), texts.get(f.name, "")) for f in own]
    schema = dict.fromkeys(("option", "type", "default", "description"), pl.String)
    return pl.DataFrame(rows, schema=schema, orient="row")


def signature(recipe: type) -> str:
    """What a model file says of its recipe: the class, with its module where it is not ours."""
    home = f"{recipe.__module__}:{recipe.__qualname__}"
    return recipe.__name__ if home in MODELS.values() else home


def from_signature(text: str) -> Any:
    """The recipe's class; None where it is not known.

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
