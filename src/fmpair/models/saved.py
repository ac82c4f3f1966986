"""A model file read back: its arrays, and the recipe that knows what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from fmpair.errors import ModelFileError
from fmpair.fitted import option
from fmpair.fitted.file import Saved, read, understood
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recommender import Recommender
from fmpair.models import catalog
from fmpair.renamed import with_new_names

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
    kind = catalog.from_name(saved.recipe)
    if kind is None:
        module = saved.recipe.partition(":")[0]
        hint = f": import {module} first" if ":" in saved.recipe else ""
        raise ModelFileError(
            f"the file holds a {saved.recipe!r}, which this fmpair does not know{hint}"
        )
    options = saved.options
    if saved.format < 2:
        options = with_new_names(options, [field.name for field in fields(kind)])
    return option.recipe(kind, _with_levels(options))


def _with_levels(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options, levels by their new name: they were an order, which now is a number."""
    order = options.get("order", 2)
    if "level" not in options or isinstance(order, int):
        return options
    return {**options, "order": 2, "levels": order}
