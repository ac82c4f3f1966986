"""Read the section `models` of an experiment file: expand grids, check the options of models.

Also read `seeds`, which a model may override.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Literal

from fmpair.checks import unknown_option, whole
from fmpair.config.document import KeyPath
from fmpair.config.experiment import Candidate, Experiment
from fmpair.config.node import Node, line_of, one_line, shown
from fmpair.config.option_schema import (
    GRID,
    SEARCH,
    Options,
    fits,
    model_keys,
    options_of,
    words,
)
from fmpair.errors import FmpairError, OptionError
from fmpair.features.field import field_from
from fmpair.fitted.recipe import Requiring
from fmpair.models import catalog
from fmpair.models.catalog import MODELS
from fmpair.training.search import Budget, Range
from fmpair.training.trainable import can_stop_early
from fmpair.training.tuning import FACTORS_TIMES

Models = dict[str, tuple[Candidate, Node]]  # by label, with the entry of the file
# What to do with models that are code from outside fmpair. refused: report a mistake; allowed:
# import the code; unseen: do not import it, so that the options are not checked.
Code = Literal["refused", "allowed", "unseen"]

MAX_MODELS = 1_000  # per experiment
TOO_MANY = f"more than {MAX_MODELS:,} models, the limit of an experiment"


def read_models(node: Node, code: Code = "refused") -> Models:
    """Read every model of the section; ablations are expanded later."""
    models: Models = {}
    entries = node.items()
    if node.value == []:
        node.wrong("needs at least one model")
    for entry in entries:
        if isinstance(entry.value, str):
            entry = entry.holding({"kind": entry.value})
        if not entry.is_a(dict):
            continue
        for variant in variants(entry):
            candidate = _candidate(entry.holding(variant.values), variant, code)
            if len(models) >= MAX_MODELS:
                node.wrong(TOO_MANY)
                return models
            if candidate is not None:
                add(models, candidate, entry)
    return models


def add(models: Models, candidate: Candidate, entry: Node) -> None:
    """Add a candidate to the models; record a mistake if its label is taken."""
    if candidate.name in models:
        entry.wrong(f"there is a model {candidate.name!r} already: give this one another name")
    else:
        models[candidate.name] = candidate, entry


def read_seeds(node: Node) -> tuple[int, ...]:
    """Read a list of distinct seeds."""
    seeds = [seed.value for seed in node.items() if seed.passes(whole, "a seed", seed.value, 0)]
    if node.value == []:
        node.wrong("needs at least one seed")
    if len(set(seeds)) < len(seeds):
        node.wrong("has a seed twice")
    return tuple(seeds)


def _candidate(node: Node, variant: Variant, code: Code) -> Candidate | None:
    """Return the candidate of an entry, None if it has no kind."""
    about = model_keys().known  # keys of any model, which are not options of its recipe
    recipe = _recipe(node.at("kind"), code) if isinstance(node.value.get("kind"), str) else None
    known = Options({}, open=True) if recipe is None else options_of(recipe)
    every = Options({**known.known, **about}, open=known.open)
    if "tune" in node.value and not fits(node.value["tune"], every.known["tune"].hint):
        node.at("tune").wrong(_no_budget(node.value["tune"]))
        node = node.holding(without(node.value, ["tune"]))
    search = _ranges(node, every)
    # Check with the first value of each range; tuning chooses the value later.
    names = [_dotted(path) for path in searches(node)]
    first = {name: ends(range)[0] for name, range in search.items()}
    valid = node.holding(with_options_set(without(node.value, names), first)).options(every)
    if "kind" not in valid:
        return None
    keys: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in valid.items() if k in about
    }
    options = {key: value for key, value in valid.items() if key not in about}
    if recipe is not None:
        _try(node, recipe, options, search)
    if keys.get("stop") is not None:
        node.at("stop").passes(whole, "stop", node.value["stop"], 1)
        if recipe is not None and not can_stop_early(recipe):
            node.at("stop").wrong(cannot_stop(node.value["kind"]))
        if keys.get("learns") == "train+validation":
            node.at("learns").wrong("must be train: stop uses the validation set")
    if keys.get("seeds") is not None:
        keys["seeds"] = read_seeds(node.at("seeds"))
    if keys.get("tune") is not None:
        keys["tune"] = read_budget(node.at("tune"), recipe, search, options)
    keys["name"] = variant.label(keys.get("name") or keys["kind"])
    return Candidate(**keys, options=without(options, search), search=search)


def _recipe(node: Node, code: Code) -> Any:
    """Return the class of a kind, None if it cannot be imported."""
    if is_foreign(node.value):
        if code == "unseen":
            return None
        if code == "allowed":
            folder = str(node.mistakes.document.path.parent.absolute())
            if folder not in sys.path:
                sys.path.append(folder)  # last, so that no file there hides a library
        elif not is_trusted(node.value):
            node.wrong(refusal(node.value))
            return None
    try:
        recipe = catalog.find(node.value)
    except FmpairError as error:
        node.wrong(one_line(error))
        return None
    except Exception as error:  # importing a user's module may raise anything
        node.wrong(f"cannot import {node.value!r}: {line_of(error)}")
        return None
    if not callable(getattr(recipe, "fit", None)):
        node.wrong(f"{node.value!r} is not a model: it has no fit(data)")
        return None
    return recipe


def _ranges(node: Node, every: Options) -> dict[str, Range]:
    """Return the search ranges by dotted option name."""
    ranges = {}
    for path, inner in searches(node).items():
        name = _dotted(path)
        if path[0] not in every.known and not every.open:
            inner.wrong(unknown_option(name, every.known))
            continue
        range = search_range(inner)
        hint = every.known[name].hint if name in every.known else Any
        wrong = [end for end in (ends(range) if range else ()) if not fits(end, hint)]
        if wrong:
            inner.wrong(f"search: must be {words(hint)}, not {shown(wrong[0])}")
        elif range is not None:
            ranges[name] = range
    return ranges


def _try(node: Node, recipe: Any, options: Mapping[str, Any], search: Mapping[str, Range]) -> None:
    """Build the recipe, also with the bounds of every range; record the errors it raises."""
    known = options_of(recipe)
    made = node.attempt(recipe, known, options)
    for column, field in dict(options.get("fields") or {}).items():
        node.at("fields").at(column).passes(field_from, field)  # recipes check fields only in fit
    if made is None:
        return
    if isinstance(made, Requiring):
        node.at("kind").attempt(made.require, Options({}), {})
    for key, range in search.items():
        for end in ends(range)[1:]:
            node.attempt(recipe, known, with_options_set(options, {key: end}))


def _dotted(path: KeyPath) -> str:
    return ".".join(map(str, path))


def cannot_stop(name: str) -> str:
    return f"{name} does not support early stopping: remove stop"


def needs_validation(name: str) -> str:
    return (
        f"{name} is tuned or stops early: give the split a validation set, as validation: 0.1, or "
        "validation: 1 with leave_last_out and leave_out"
    )


# Several values for one option: a grid gives one model per value, tuning chooses from a search.


@dataclass(frozen=True)
class Variant:
    """An entry without grids, and the values it took from each grid by dotted option."""

    values: Any
    chosen: Mapping[str, Any]

    def label(self, name: str) -> str:
        """Return the name with the values of the grids: `fm-pair factors=16`."""
        return " ".join([name, *(f"{key}={_short(value)}" for key, value in self.chosen.items())])


def variants(node: Node) -> list[Variant]:
    """Return every combination of the grids in a mapping; the last grid varies fastest."""
    grids = _grids(node)
    count = prod(len(values) for values in grids.values())
    if count > MAX_MODELS:
        node.wrong(f"the grids make {count:,} models, the limit is {MAX_MODELS:,}: leave options "
                   "to tuning with {search: [...]}")  # fmt: skip
        return []
    return [
        Variant(
            _replaced(node.value, dict(zip(grids, combination)), ()),
            {_dotted(key): value for key, value in zip(grids, combination)},
        )
        for combination in product(*grids.values())
    ]


def _grids(node: Node, path: KeyPath = ()) -> dict[KeyPath, list[Any]]:
    """Return the paths of the grids in a mapping, and their values."""
    grids: dict[KeyPath, list[Any]] = {}
    if not isinstance(node.value, dict):
        return grids
    if set(node.value) == {GRID}:
        values = node.value[GRID]
        if isinstance(values, list) and values:
            return {path: values}
        node.wrong("grid takes a list of at least one value")
        return grids
    for key in node.value:
        grids |= _grids(node.at(key), (*path, key))
    return grids


def _replaced(value: Any, chosen: Mapping[KeyPath, Any], path: KeyPath) -> Any:
    if path in chosen:
        return chosen[path]
    if not isinstance(value, dict):
        return value
    return {key: _replaced(inner, chosen, (*path, key)) for key, inner in value.items()}


def _short(value: Any) -> str:
    if isinstance(value, list):
        return "+".join(map(str, value)) or "none"
    return value if isinstance(value, str) else json.dumps(value)


def searches(node: Node, path: KeyPath = ()) -> dict[KeyPath, Node]:
    """Return the nodes of a mapping that are `{search: ...}`, by path."""
    if not isinstance(node.value, dict):
        return {}
    if set(node.value) == {SEARCH}:
        return {path: node}
    nodes: dict[KeyPath, Node] = {}
    for key in node.value:
        nodes |= searches(node.at(key), (*path, key))
    return nodes


def search_range(node: Node) -> Range | None:
    """Read `{search: ...}`: a list of values, or low and high."""
    inner = node.at(SEARCH)
    if isinstance(inner.value, list):
        if not inner.value:
            node.wrong("search needs at least one value")
        return Range(values=tuple(inner.value)) if inner.value else None
    if not isinstance(inner.value, dict):
        node.wrong("search takes a list of values, or {low: ..., high: ..., log: true}")
        return None
    values = inner.options(options_of(Range, ["values"]))
    if not {"low", "high"} <= set(values):
        if {"low", "high"} - set(inner.value):
            node.wrong("search needs both low and high")
        return None
    low, high = values["low"], values["high"]
    if low is None or high is None or not low < high:
        node.wrong(f"search: low ({low}) must be below high ({high})")
        return None
    if values.get("log") and low <= 0:
        node.wrong(f"search: low must be above 0 where log is true, not {low}")
        return None
    return Range(**values)


def ends(range: Range) -> tuple[Any, ...]:
    """Return all values of a list, or the lowest and the highest of a range."""
    return range.values or (range.low, range.high)


def with_options_set(values: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values updated by `chosen`; names may be dotted: `settings.factors`."""
    out = dict(values)
    for name, value in chosen.items():
        first, _, rest = name.partition(".")
        out[first] = with_options_set(out.get(first) or {}, {rest: value}) if rest else value
    return out


def without(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the values without the given names, which may be dotted."""
    out = dict(values)
    for name in names:
        first, _, rest = name.partition(".")
        inner = out.pop(first, None)
        if rest and inner:
            out[first] = without(inner, [rest])
    return out


# Models that are code from outside fmpair, and permission to run it.

VARIABLE = "FMPAIR_ALLOW_CODE"  # modules that may always run, separated by commas


def is_foreign(kind: str) -> bool:
    """Return whether a kind is package.module:Class from outside fmpair."""
    return ":" in kind and kind not in MODELS.values()


def is_trusted(kind: str) -> bool:
    """Return whether FMPAIR_ALLOW_CODE lists the module or a parent package."""
    trusted = [name.strip() for name in os.environ.get(VARIABLE, "").split(",")]
    module = kind.partition(":")[0]
    return any(name and f"{module}.".startswith(f"{name}.") for name in trusted)


def refusal(kind: str) -> str:
    """Return the error text for code that is not allowed to run."""
    return (
        f"{kind!r} is code from outside fmpair and runs only if you allow it: --allow-code at the "
        f"shell, allow_code=True in Python, or {VARIABLE}={kind.partition(':')[0]} in the "
        "environment for this module alone"
    )


def check_code(experiment: Experiment) -> None:
    """Raise if a model is code that is not allowed to run; a run folder cannot allow it."""
    for model in experiment.models:
        if is_foreign(model.kind) and not (experiment.allow_code or is_trusted(model.kind)):
            raise OptionError(refusal(model.kind))


# The option `tune` of models: its budget, and the options that are tuned by default.

# Options that are tuned by default: from a tenth to ten times their default value. Those whose
# default depends on the data have fixed ranges. FMPair has its own search, see `training.tuning`.
TUNED_BY_DEFAULT = (
    "k", "shrinkage", "smoothing", "alpha", "regularization", "factors", "learning_rate",
)  # fmt: skip
TIMES = 10  # the bounds of a range are the default value divided and multiplied by this
WITHOUT_DEFAULT = {
    "regularization": Range(low=0.001, high=0.3, log=True),
    "factors": Range((32, 64, 128, 256)),
}


def read_budget(
    node: Node, recipe: Any, search: Mapping[str, Range], options: Mapping[str, Any]
) -> Budget | None:
    """Read `tune`: a time such as 5m, or {trials: 40}.

    recipe: None if it cannot be imported. search: the ranges in the file. options: those given.
    """
    given = node.value
    trials = given.get("trials") if isinstance(given, dict) and set(given) == {"trials"} else None
    if not (isinstance(given, str) or trials is not None):
        node.wrong(_no_budget(given))
        return None
    if not (recipe is None or search or tunes_itself(recipe) or default_ranges(recipe, options)):
        nested = "settings" in options_of(recipe).known  # the options of another library
        example = "settings: {NAME: {search: [16, 64]}}" if nested else "{search: ...}"
        node.wrong(f"the model has no option that is tuned by default: give some as {example}")
    try:
        return Budget.of(given if trials is None else None, trials)
    except OptionError as error:
        node.wrong(error.spelled(lambda name, *value: "tune" if name == "budget" else name))
        return None


def _no_budget(given: Any) -> str:
    return f"must be a time such as 5m, or {{trials: 40}}, not {shown(given)}"


def check_budgets(models: Iterable[tuple[Candidate, Node]], trials: int) -> None:
    """Record a mistake if models are tuned with different budgets.

    trials: the budget of models without one of their own.
    """
    budgets = [(budget_of(model, trials), node) for model, node in models if model.tuned]
    for budget, node in budgets:
        if budget != budgets[0][0]:
            node.wrong(
                f"tuned models must have the same budget, not {budgets[0][0]} and {budget}: give "
                "all of them the same tune"
            )
            return


def budget_of(model: Candidate, trials: int) -> Budget:
    """Return the budget of a model's search; trials: if it has no budget of its own."""
    return model.tune or Budget(trials=trials)


def tunes_itself(recipe: Any) -> bool:
    """Return whether a recipe has its own search, as FMPair does."""
    return hasattr(recipe, "tune")


def default_ranges(recipe: Any, given: Mapping[str, Any]) -> dict[str, Range]:
    """Return the ranges of the options of a recipe that are tuned by default and not given."""
    ranges = {}
    for name, option in options_of(recipe).known.items():
        if name not in TUNED_BY_DEFAULT or name in given:
            continue
        default = option.default
        number = isinstance(default, int | float) and not isinstance(default, bool)
        if name == "factors" and number:  # each length is compiled anew
            ranges[name] = Range(tuple(max(int(default * times), 1) for times in FACTORS_TIMES))
        elif number and default > 0:
            whole = isinstance(default, int)
            low = max(default // TIMES, 1) if whole else default / TIMES
            ranges[name] = Range(low=low, high=default * TIMES, log=True)
        elif name in WITHOUT_DEFAULT:
            ranges[name] = WITHOUT_DEFAULT[name]
    return ranges
