"""Where models stood in fmpair 0.1: who imports one from there is told where it is now."""

from __future__ import annotations

from typing import Any

PACKAGE = "fmpair.models"
MOVED = {
    "artifact": "from fmpair import load",
    "ranker": "from fmpair import Ranker",
    "recommender": "from fmpair import Recommender",
    "training": "from fmpair.training.epochs import Epoch",
    "validation": "from fmpair.training.epochs import Validation",
}


class OldPlaces:
    """The last of the finders of modules: it finds none, but knows what became of some."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        package, _, module = name.rpartition(".")
        if package != PACKAGE:
            return
        now = MOVED.get(module) or _line(_recipes(module))
        if now:
            raise ModuleNotFoundError(f"there is no module {name} any more: {now}", name=name)


def moved(package: str, name: str) -> Exception:
    """The error of a package that stands where a module stood, asked for what it does not have."""
    if name in _recipes(package.rpartition(".")[2]):
        return ImportError(f"{package} has no {name} any more: {_line([name])}", name=package)
    return AttributeError(f"module {package!r} has no attribute {name!r}")


def _recipes(module: str) -> list[str]:
    """The names of the recipes of a module of fmpair 0.1."""
    from fmpair.models.catalog import MODELS

    places = [home.removeprefix(f"{PACKAGE}.").partition(":") for home in MODELS.values()]
    now = (f"classic.{module}", f"fm_pair.{module}", f"fm.{module}", f"{module}.recipe")
    return [name for place, _, name in places if place in now]


def _line(names: list[str]) -> str:
    return f"from {PACKAGE} import {', '.join(names)}" if names else ""
