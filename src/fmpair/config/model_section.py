"""The models of an experiment file: grids expanded, every recipe tried before it is used."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Literal

from fmpair.checks import whole
from fmpair.config.document import KeyPath
from fmpair.config.experiment import Candidate, Experiment, Range
from fmpair.config.node import Node, line_of, one_line, shown
from fmpair.config.option_schema import Options, about_models, fits, options_of, words
from fmpair.errors import FmpairError, OptionError
from fmpair.features.field import field_from
from fmpair.fitted.recipe import Requiring
from fmpair.models import catalog
from fmpair.models.catalog import MODELS
from fmpair.option_names import unknown_option
from fmpair.training.trainable import can_stop_early

# Models that are code from outside the catalogue, and who may let them run.


VARIABLE = "FMPAIR_ALLOW_CODE"  # modules that may always run, with commas between

# What is done about such a model when a file is read: a mistake, an import, or no look at it.
Code = Literal["refused", "allowed", "unseen"]


def is_foreign(kind: str) -> bool:
    """Whether the kind of a model is package.module:Class of somebody else."""
    return ":" in kind and kind not in MODELS.values()


def is_trusted(kind: str) -> bool:
    """Whether the user's own settings name the module, or a package it is in."""
    trusted = [name.strip() for name in os.environ.get(VARIABLE, "").split(",")]
    module = kind.partition(":")[0]
    return any(name and f"{module}.".startswith(f"{name}.") for name in trusted)


def refusal(kind: str) -> str:
    """Why such a model is not run, and what would let it."""
    return (
        f"{kind!r} is code from outside fmpair, which runs only if you say so: --allow-code at the "
        f"shell, allow_code=True in Python, or {VARIABLE}={kind.partition(':')[0]} in the "
        "environment for this module alone"
    )


def check(experiment: Experiment) -> None:
    """Refuse to carry out code that nobody has allowed; a run folder cannot allow it either."""
    for model in experiment.models:
        if is_foreign(model.kind) and not (experiment.allow_code or is_trusted(model.kind)):
            raise OptionError(refusal(model.kind))


# Several values for one option: grids expanded, ranges to search.


GRID, SEARCH = "grid", "search"
MOST_MODELS = 1_000  # of an experiment


@dataclass(frozen=True)
class Variant:
    """A mapping without grids, and the values it took from each grid by dotted option."""

    values: Any
    chosen: Mapping[str, Any]

    def label(self, name: str) -> str:
        """The name, with what distinguishes the variant from the others: `fm-pair factors=16`."""
        return " ".join([name, *(f"{key}={_short(value)}" for key, value in self.chosen.items())])


def variants(place: Node) -> list[Variant]:
    """Every combination of the grids in a mapping, the last grid's values taking turns first."""
    grids = _grids(place)
    count = prod(len(values) for values in grids.values())
    if count > MOST_MODELS:
        place.wrong(f"grids make {count:,} models, and {MOST_MODELS:,} are the most: leave options "
                    "to tuning with {search: [...]}")  # fmt: skip
        return []
    return [
        Variant(
            _replaced(place.value, dict(zip(grids, combination)), ()),
            {".".join(map(str, key)): value for key, value in zip(grids, combination)},
        )
        for combination in product(*grids.values())
    ]


def searches(place: Node, inside: KeyPath = ()) -> dict[KeyPath, Node]:
    """Where in a mapping values are left to tuning."""
    if not isinstance(place.value, dict):
        return {}
    if set(place.value) == {SEARCH}:
        return {inside: place}
    found: dict[KeyPath, Node] = {}
    for key in place.value:
        found |= searches(place.at(key), (*inside, key))
    return found


def placed(values: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The values with those chosen, whose names may be dotted: `settings.factors`."""
    out = dict(values)
    for name, value in chosen.items():
        first, _, rest = name.partition(".")
        out[first] = placed(out.get(first) or {}, {rest: value}) if rest else value
    return out


def without(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The values less those of the names, which may be dotted."""
    out = dict(values)
    for name in names:
        first, _, rest = name.partition(".")
        inner = out.pop(first, None)
        if rest and inner:
            out[first] = without(inner, [rest])
    return out


def search_range(place: Node) -> Range | None:
    """What `{search: ...}` allows: a list of values, or low to high."""
    inner = place.at(SEARCH)
    if isinstance(inner.value, list):
        if not inner.value:
            place.wrong("search needs at least one value")
        return Range(values=tuple(inner.value)) if inner.value else None
    if not isinstance(inner.value, dict):
        place.wrong("search takes a list of values, or {low: ..., high: ..., log: true}")
        return None
    known = options_of(Range, ["values"])
    given = inner.options(known)
    if not {"low", "high"} <= set(given):
        if {"low", "high"} - set(inner.value):
            place.wrong("search needs both low and high")
        return None
    low, high = given["low"], given["high"]
    if low is None or high is None or not low < high:
        place.wrong(f"search: low ({low}) must be below high ({high})")
        return None
    if given.get("log") and low <= 0:
        place.wrong(f"search: low must be above 0 where log is true, not {low}")
        return None
    return Range(**given)


def ends(range: Range) -> tuple[Any, ...]:
    """All values of a range that has few, else the lowest and the highest."""
    return range.values or (range.low, range.high)


def _grids(place: Node, inside: KeyPath = ()) -> dict[KeyPath, list[Any]]:
    """Where in a mapping there are grids, and their values."""
    found: dict[KeyPath, list[Any]] = {}
    if not isinstance(place.value, dict):
        return found
    if set(place.value) == {GRID}:
        values = place.value[GRID]
        if isinstance(values, list) and values:
            return {inside: values}
        place.wrong("grid takes a list of at least one value")
        return found
    for key in place.value:
        found |= _grids(place.at(key), (*inside, key))
    return found


def _replaced(value: Any, chosen: Mapping[KeyPath, Any], inside: KeyPath) -> Any:
    if inside in chosen:
        return chosen[inside]
    if not isinstance(value, dict):
        return value
    return {key: _replaced(one, chosen, (*inside, key)) for key, one in value.items()}


def _short(value: Any) -> str:
    if isinstance(value, list):
        return "+".join(map(str, value)) or "none"
    return value if isinstance(value, str) else json.dumps(value)


Models = dict[str, tuple[Candidate, Node]]  # by label, with the entry it comes from
TOO_MANY = f"these are more than {MOST_MODELS:,} models, the most an experiment may have"


def read_models(place: Node, code: Code = "refused") -> Models:
    """Every candidate; those with an ablation are still to be expanded.

    code: what is done about models that are code from outside fmpair.
    """
    found: Models = {}
    entries = place.items()
    if place.value == []:
        place.wrong("needs at least one model")
    for given in entries:
        entry = given.holding({"kind": given.value}) if isinstance(given.value, str) else given
        if not entry.is_a(dict):
            continue
        for variant in variants(entry):
            candidate = _candidate(entry.holding(variant.values), variant, code)
            if len(found) >= MOST_MODELS:
                place.wrong(TOO_MANY)
                return found
            if candidate is not None:
                add(found, candidate, entry)
    return found


def add(models: Models, candidate: Candidate, entry: Node) -> None:
    """Put a candidate among the models; noted where its label is taken."""
    if candidate.name in models:
        entry.wrong(f"there is a model {candidate.name!r} already: give this one a name")
    else:
        models[candidate.name] = candidate, entry


def _candidate(place: Node, variant: Variant, code: Code) -> Candidate | None:
    """None where the entry does not say which kind of model it is."""
    about = about_models()
    recipe = _recipe(place.at("kind"), code) if isinstance(place.value.get("kind"), str) else None
    known = Options({}, open=True) if recipe is None else options_of(recipe)
    every = Options({**known.known, **about.known}, open=known.open)
    search = _searches(place, every)
    # The first value of each range stands in for what tuning will choose.
    names = [dotted(path) for path in searches(place)]
    first = {name: ends(found)[0] for name, found in search.items()}
    filled = placed(without(place.value, names), first)
    good = place.holding(filled).options(every)
    if "kind" not in good:
        return None
    own = {key: _settled(value) for key, value in good.items() if key in about.known}
    given = {key: value for key, value in good.items() if key not in about.known}
    if recipe is not None:
        _try(place, recipe, given, search)
    if own.get("stop") is not None:
        _check_stop(place, recipe)
        if own.get("learns") == "train+validation":
            place.at("learns").wrong("a model that stops early on the validation set learns train")
    if own.get("seeds") is not None:
        own["seeds"] = read_seeds(place.at("seeds"))
    own["name"] = variant.label(own.get("name") or own["kind"])
    return Candidate(**own, options=without(given, search), search=search)


def read_seeds(place: Node) -> tuple[int, ...]:
    """Seeds, each once."""
    good = [one.value for one in place.items() if noted(one, whole, "a seed", one.value, 0)]
    if place.value == []:
        place.wrong("needs at least one seed")
    if len(set(good)) < len(good):
        place.wrong("has a seed twice")
    return tuple(good)


def noted(place: Node, check: Any, *arguments: Any) -> bool:
    """Whether a check lets the value pass; noted if not."""
    try:
        check(*arguments)
        return True
    except FmpairError as error:
        place.wrong(one_line(error))
        return False


def _recipe(place: Node, code: Code) -> Any:
    """The class of a kind, None where it cannot be had; one of your own may lie beside the file."""
    if is_foreign(place.value):
        if code == "unseen":
            return None
        if code == "allowed":
            beside = str(place.mistakes.document.path.parent.absolute())
            if beside not in sys.path:
                sys.path.append(beside)  # last, so that no file there hides a library
        elif not is_trusted(place.value):
            place.wrong(refusal(place.value))
            return None
    try:
        recipe = catalog.find(place.value)
    except FmpairError as error:
        place.wrong(one_line(error))
        return None
    except Exception as error:  # whatever importing somebody's module throws
        place.wrong(f"cannot import {place.value!r}: {line_of(error)}")
        return None
    if not callable(getattr(recipe, "fit", None)):
        place.wrong(f"{place.value!r} is no model: it has no fit(data)")
        return None
    return recipe


def _searches(place: Node, every: Options) -> dict[str, Range]:
    """By dotted name the ranges of what is left to tuning."""
    found = {}
    for path, here in searches(place).items():
        name = dotted(path)
        if path[0] not in every.known and not every.open:
            here.wrong(unknown_option(name, every.known))
            continue
        range = search_range(here)
        hint = every.known[name].hint if name in every.known else Any
        wrong = [end for end in (ends(range) if range else ()) if not fits(end, hint)]
        if wrong:
            here.wrong(f"search: must be {words(hint)}, not {shown(wrong[0])}")
        elif range is not None:
            found[name] = range
    return found


def _try(place: Node, recipe: Any, given: Mapping[str, Any], search: Mapping[str, Range]) -> None:
    """Make the recipe, with both ends of every range too; note whatever it refuses."""
    known = options_of(recipe)
    sound = place.attempt(recipe, known, given)
    for column, options in dict(given.get("fields") or {}).items():
        try:
            field_from(options)  # which recipes look at only when they see the data
        except FmpairError as error:
            place.at("fields").at(column).wrong(one_line(error))
    if sound is None:
        return
    if isinstance(sound, Requiring):
        place.at("kind").attempt(sound.require, Options({}), {})
    for key, range in search.items():
        for end in ends(range)[1:]:
            place.attempt(recipe, known, placed(given, {key: end}))


def _check_stop(place: Node, recipe: Any) -> None:
    try:
        whole("stop", place.value["stop"], 1)
    except FmpairError as error:
        place.at("stop").wrong(one_line(error))
    if recipe is not None and not can_stop_early(recipe):
        place.at("stop").wrong(cannot_stop(place.value["kind"]))


def dotted(path: KeyPath) -> str:
    """`settings.factors`, where it stands in a model's options."""
    return ".".join(map(str, path))


def _settled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def cannot_stop(name: str) -> str:
    return f"{name} cannot stop early: leave stop out"


def needs_validation(name: str) -> str:
    return f"{name} is tuned or stops early: give the split a validation set, as validation: 0.1"
