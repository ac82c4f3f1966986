"""The options an experiment file may have, read from the signatures of the code that uses them.

Reading and the JSON Schema of the file both follow from them.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from fmpair.config.experiment import (
    TESTS,
    Candidate,
    Comparison,
    Output,
    Running,
    Source,
    Step,
    Tuning,
)
from fmpair.data import Dataset, public_sets, synthetic
from fmpair.data import filters as filter
from fmpair.data.read import FORMATS
from fmpair.data.splits import SPLITS
from fmpair.errors import FmpairError, UnknownError, unknown
from fmpair.evaluation import protocol
from fmpair.evaluation.protocol import Protocol
from fmpair.evaluation.views import CONTEXT, VIEWS
from fmpair.metrics import NAMES, UNCUT
from fmpair.models import catalog
from fmpair.text import descriptions, summary, whole
from fmpair.training.search import Range

REQUIRED = inspect.Parameter.empty  # the default of an option that has none
GRID, SEARCH = "grid", "search"  # keys of several values for one option
# Sections that are plain options, and what each section of the file is for.
SECTIONS: dict[str, type] = {
    "tune": Tuning,
    "compare": Comparison,
    "run": Running,
    "output": Output,
}
TEXTS = {
    "name": "The name of the experiment; by default the name of the file.",
    "extends": "An experiment file that this one inherits from: mappings merge, lists replace.",
    "data": "The events.",
    "filter": "Filters of the events, in order; their statistics use the training part only.",
    "split": "How events are split into training, validation and test set.",
    "models": "The models to compare.",
    "protocols": "How models are evaluated: by label the options of a protocol, or a preset.",
    "metrics": "The metrics, such as ndcg@10.",
    "views": "Groups that results are broken down by.",
    "seeds": "Every model is fitted once with each seed.",
    "tune": "Hyper-parameter search of models with {search: ...} or tune, on the validation set.",
    "compare": "How models are compared in the report.",
    "run": "Processes, threads and device; of these, results depend on the device only.",
    "output": "Which files are kept, and where.",
}
FILTERS: dict[str, Callable[..., Dataset]] = {
    name: function
    for name, function in vars(filter).items()
    if getattr(function, "__module__", "") == filter.__name__ and not name.startswith("_")
}


@dataclass(frozen=True)
class Option:
    """One option: its type hint, its default (REQUIRED if it has none), and its description."""

    name: str
    hint: Any
    default: Any = REQUIRED
    text: str = ""


@dataclass(frozen=True)
class Options:
    """The options of a class or function by name; open: it takes others too."""

    known: Mapping[str, Option]
    text: str = ""
    open: bool = False

    @property
    def required(self) -> list[str]:
        return [name for name, option in self.known.items() if option.default is REQUIRED]


def options_of(thing: Callable[..., Any], skip: Iterable[str] = ()) -> Options:
    """Return the parameters of a function or class."""
    every, skipped = _every_option(thing), set(skip)
    known = {name: option for name, option in every.known.items() if name not in skipped}
    return replace(every, known=known)


@lru_cache(maxsize=512)  # signatures and hints take milliseconds and are needed often
def _every_option(thing: Callable[..., Any]) -> Options:
    try:
        parameters = inspect.signature(thing).parameters.values()
    except ValueError:  # compiled code may have no signature
        return Options({}, open=True)
    # The hints of a dataclass are those of its fields, also of inherited ones.
    declared: Any = thing
    if inspect.isclass(thing) and not is_dataclass(thing):
        declared = declared.__init__
    try:
        hints = get_type_hints(declared)
    except (NameError, TypeError, AttributeError):  # they name what cannot be imported here
        hints = {}
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    texts = descriptions(whole(thing), [p.name for p in named])
    known = {
        p.name: Option(p.name, hints.get(p.name, Any), p.default, texts.get(p.name, ""))
        for p in named
    }
    open = any(p.kind == p.VAR_KEYWORD for p in parameters)
    return Options(known, summary(thing.__doc__), open)


# The options of each section.


def sources() -> Mapping[str, Option]:
    """Return the keys of `data` that say where events come from."""
    return options_of(Source, ["options"]).known


def reader_options(format: str | None) -> Options:
    """Return the options of a format's reader, or of all readers, and of `Dataset.from_frame`."""
    readers = list(FORMATS.values()) if format is None else [FORMATS[format]]
    known: dict[str, Option] = {}
    for reader in readers:
        known |= options_of(reader, ["path"]).known
    # The first parameter is the frame itself.
    roles = list(options_of(Dataset.from_frame).known.items())[1:]
    texts = descriptions(Source.__doc__, ["options"])
    named = Option("format", str | None, None, "The format; by default inferred from the path.")
    return Options({"format": named, **known, **dict(roles)}, texts.get("options", ""))


def filters() -> dict[str, Options]:
    """Return the options of every filter; data and training part come from the experiment."""
    return {name: options_of(function, ["data", "training"]) for name, function in FILTERS.items()}


def splits() -> dict[str, Options]:
    """Return the options of every split; the sizes of given parts come from the data."""
    return {name: options_of(function, ["data", "parts"]) for name, function in SPLITS.items()}


def function_of(what: str, step: Step) -> Callable[..., Any]:
    """Return the function of a step, spelled with hyphens or underscores; what: filter or split."""
    known: Mapping[str, Callable[..., Any]] = FILTERS if what == "filter" else SPLITS
    name = step.kind.replace("-", "_")
    if name not in known:
        raise UnknownError(unknown(what, step.kind, known))
    return known[name]


def fold_count(step: Step) -> int:
    """Return the number of folds of a split."""
    function = SPLITS[step.kind]
    if get_origin(get_type_hints(function).get("return")) is not list:
        return 1
    return step.options.get("count", splits()[step.kind].known["count"].default)


def model_keys() -> Options:
    """Return the keys of an entry of `models` besides the options of its recipe."""
    known = dict(options_of(Candidate, ["options", "search"]).known)
    known["name"] = replace(known["name"], default=None)  # by default made from kind and grids
    known["tune"] = replace(known["tune"], hint=str | Mapping[str, int] | None)
    return Options(known)


def recipes() -> dict[str, Options]:
    """Return the options of every model; those of libraries that are not installed are open."""
    options = {}
    for kind in catalog.MODELS:
        try:
            options[kind] = options_of(catalog.find(kind))
        except FmpairError:
            options[kind] = Options({}, open=True)
    return options


# Type hints: whether a value fits one, the hint in words, and its JSON Schema.

# Type -> in words, in JSON Schema.
TYPES: dict[Any, tuple[str, str]] = {
    int: ("a whole number", "integer"),
    float: ("a number", "number"),
    str: ("text", "string"),
    bool: ("true or false", "boolean"),
    type(None): ("null", "null"),
    Path: ("the name of a file", "string"),
}
PLURALS = {"a whole number": "whole numbers", "a number": "numbers"}


def fits(value: Any, hint: Any) -> bool:
    """Return whether a plain value fits the hint; any value fits an unknown hint."""
    if is_union(hint):
        return any(fits(value, part) for part in get_args(hint))
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if is_list(hint):
        return isinstance(value, list) and all(fits(item, member(hint)) for item in value)
    if is_mapping(hint):
        return isinstance(value, dict) and all(fits(v, member(hint)) for v in value.values())
    if hint not in TYPES:
        return True
    if isinstance(value, bool):  # Python counts a bool as an int; users do not
        return hint is bool
    return isinstance(value, {float: int | float, Path: str}.get(hint, hint))


def words(hint: Any) -> str:
    """Return the hint in words, as in: must be `a whole number or null`."""
    if is_union(hint):
        return " or ".join(dict.fromkeys(words(part) for part in get_args(hint)))
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if is_list(hint) or is_mapping(hint):
        container, inner = "a list" if is_list(hint) else "a mapping", words(member(hint))
        return container if inner == "anything" else f"{container} of {PLURALS.get(inner, inner)}"
    return TYPES[hint][0] if hint in TYPES else "anything"


def schema_of(hint: Any) -> dict[str, Any]:
    """Return the JSON Schema of the hint; {} allows anything."""
    if is_union(hint):
        parts = [schema_of(part) for part in get_args(hint)]
        return {} if {} in parts else {"anyOf": parts}
    if get_origin(hint) is Literal:
        return {"enum": list(get_args(hint))}
    if is_list(hint):
        return {"type": "array", "items": schema_of(member(hint))}
    if is_mapping(hint):
        return {"type": "object", "additionalProperties": schema_of(member(hint))}
    return {"type": TYPES[hint][1]} if hint in TYPES else {}


def is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


def is_list(hint: Any) -> bool:
    return (get_origin(hint) or hint) in (Sequence, list, tuple)


def is_mapping(hint: Any) -> bool:
    return (get_origin(hint) or hint) in (Mapping, dict)


def member(hint: Any) -> Any:
    """Return the type of the values of a list or mapping."""
    inner = get_args(hint)
    return Any if not inner else inner[1] if is_mapping(hint) else inner[0]


# The JSON Schema of the file.

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
CHOICES = {
    "unit": protocol.UNITS,
    "candidates": protocol.CANDIDATES,
    "seen": protocol.SEEN,
    "relevant": protocol.RELEVANT,
    "history": protocol.HISTORIES,
    "targets": protocol.TARGETS,
    "after": (*protocol.AFTER, None),
    "test": TESTS,
}


def json_schema() -> Schema:
    """Return the JSON Schema (draft 2020-12) of an experiment file, for editors and checkers."""
    cut = "|".join(name for name in NAMES if name not in UNCUT)
    metric = {"type": "string", "pattern": f"^(({cut})@[1-9][0-9]*|{'|'.join(UNCUT)})$"}
    plain_views = {"enum": [name for name in VIEWS if not name.startswith(CONTEXT)]}
    view = {"anyOf": [plain_views, {"type": "string", "pattern": f"^{CONTEXT}.+"}]}
    seed = {"type": "integer", "minimum": 0}
    properties: dict[str, Schema] = {
        "name": {"type": "string"},
        "extends": {"type": "string"},
        "data": _data(),
        "filter": {"type": "array", "items": _steps(filters())},
        "split": _steps(splits()),
        "models": {"type": "array", "minItems": 1, "items": _models()},
        "protocols": _protocols(),
        "metrics": {"type": "array", "items": metric},
        "views": {"type": "array", "items": view},
        "seeds": {"type": "array", "minItems": 1, "items": seed},
    }
    for name, section in SECTIONS.items():
        properties[name] = _closed(options_of(section), choices=("test",))
    return {
        "$schema": DIALECT,
        "title": "fmpair experiment",
        **_object({name: {"description": TEXTS[name], **properties[name]} for name in TEXTS}),
        "anyOf": [{"required": ["data", "models"]}, {"required": ["extends"]}],
        "$defs": _definitions(),
    }


def _definitions() -> dict[str, Schema]:
    """Return the schemas that may replace a value: a grid, or a search range."""
    values = {"type": "array", "minItems": 1}
    range = _closed(options_of(Range, ["values"]), required=["low", "high"])
    text = "The range of the hyper-parameter search, on the validation set."
    grid = {**_object({GRID: values}), "description": "One model per value."}
    search = {**_object({SEARCH: {"anyOf": [values, range]}}), "description": text}
    return {GRID: {**grid, "required": [GRID]}, SEARCH: {**search, "required": [SEARCH]}}


def _data() -> Schema:
    every = {**sources(), **reader_options(None).known}
    properties = {name: _property(option) for name, option in every.items()}
    properties["set"] = {"enum": public_sets.names(), "description": "A public set by name."}
    properties["generate"] = _closed(options_of(synthetic.make))
    return _object(properties)


def _steps(known: Mapping[str, Options]) -> Schema:
    """Return the schema of a function: `name`, `{kind: name, ...}`, or `{name: {...}}`."""
    spellings = {name: list(dict.fromkeys([name, name.replace("_", "-")])) for name in known}
    forms: list[Schema] = [{"enum": [spelling for name in known for spelling in spellings[name]]}]
    for name, options in known.items():
        forms.append(_closed(options, {"kind": {"enum": spellings[name]}}, required=["kind"]))
        inner = {"anyOf": [_closed(options), {"type": "null"}]}
        by_name = _object(dict.fromkeys(spellings[name], inner))
        forms.append({**by_name, "minProperties": 1, "maxProperties": 1})
    return {"anyOf": forms}


def _models() -> Schema:
    kinds = recipes()
    foreign = {"type": "string", "pattern": ".+:.+"}
    about = {
        name: _alternatives(_property(option))
        for name, option in model_keys().known.items()
        if name not in ("kind", "name")
    }
    about["name"] = {"type": "string"}
    forms: list[Schema] = [{"enum": list(kinds)}, foreign]
    for kind, options in kinds.items():
        recipe = {name: _alternatives(_property(o), True) for name, o in options.known.items()}
        properties = _object({"kind": {"const": kind}, **recipe, **about}, options.open)
        forms.append({**properties, "required": ["kind"], "description": options.text})
    open_kinds = {"anyOf": [foreign, _object({GRID: {"type": "array"}})]}
    forms.append({**_object({"kind": open_kinds, **about}, True), "required": ["kind"]})
    return {"anyOf": forms}


def _protocols() -> Schema:
    preset = {"enum": list(protocol.PRESETS)}
    options = _closed(options_of(Protocol), {"kind": preset}, choices=CHOICES)
    entry = {"anyOf": [preset, options]}
    by_label = {"type": "object", "additionalProperties": entry, "minProperties": 1}
    return {"anyOf": [by_label, {"type": "array", "items": entry, "minItems": 1}, preset]}


def _closed(
    options: Options,
    more: Mapping[str, Schema] | None = None,
    required: Iterable[str] = (),
    choices: Iterable[str] = (),
) -> Schema:
    """Return the schema of a mapping of options; choices: options with a few known values."""
    properties = {**(more or {})}
    for name, option in options.known.items():
        properties[name] = _property(option)
        if name in choices:
            properties[name] |= {"enum": list(CHOICES[name])}
    text = {"description": options.text} if options.text else {}
    needed = [*required, *options.required]
    return {**_object(properties, options.open), **text, **({"required": needed} if needed else {})}


def _object(properties: Mapping[str, Schema], open: bool = False) -> Schema:
    return {"type": "object", "properties": dict(properties), "additionalProperties": open}


def _property(option: Option) -> Schema:
    text = {"description": option.text} if option.text else {}
    plain = isinstance(option.default, bool | int | float | str)
    return {**schema_of(option.hint), **text, **({"default": option.default} if plain else {})}


def _alternatives(value: Schema, searched: bool = False) -> Schema:
    """Return the schema of the value itself, a grid, or a range to search."""
    text: Schema = {key: value[key] for key in ("description", "default") if key in value}
    bare = {key: inner for key, inner in value.items() if key not in text}
    forms = [bare, {"$ref": f"#/$defs/{GRID}"}]
    return {"anyOf": [*forms, {"$ref": f"#/$defs/{SEARCH}"}] if searched else forms, **text}
