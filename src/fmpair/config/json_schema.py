"""The JSON Schema of experiment files, from the same signatures that reading uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fmpair.config import option_schema as schema
from fmpair.config.experiment import TESTS
from fmpair.config.model_section import GRID, SEARCH
from fmpair.config.option_schema import SECTIONS, TEXTS, Option, Options, schema_of
from fmpair.data import public_sets
from fmpair.evaluation import protocol
from fmpair.evaluation.views import CONTEXT, VIEWS
from fmpair.metrics import NAMES, UNCUT
from fmpair.training.search import Range

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
        "filter": {"type": "array", "items": _steps(schema.filters())},
        "split": _steps(schema.splits()),
        "models": {"type": "array", "minItems": 1, "items": _models()},
        "protocols": _protocols(),
        "metrics": {"type": "array", "items": metric},
        "views": {"type": "array", "items": view},
        "seeds": {"type": "array", "minItems": 1, "items": seed},
    }
    for name, section in SECTIONS.items():
        properties[name] = _closed(schema.options_of(section), choices=("test",))
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
    range = _closed(schema.options_of(Range, ["values"]), required=["low", "high"])
    text = "The range of the hyper-parameter search, on the validation set."
    grid = {**_object({GRID: values}), "description": "One model per value."}
    search = {**_object({SEARCH: {"anyOf": [values, range]}}), "description": text}
    return {GRID: {**grid, "required": [GRID]}, SEARCH: {**search, "required": [SEARCH]}}


def _data() -> Schema:
    sources = {name: _property(option) for name, option in schema.sources().items()}
    sources["set"] = {"enum": public_sets.names(), "description": "A public set by name."}
    sources["generate"] = _closed(schema.generator_options())
    reading = {
        name: _property(option) for name, option in schema.reader_options(None).known.items()
    }
    return _object({**sources, **reading})


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
    recipes = schema.recipes()
    foreign = {"type": "string", "pattern": ".+:.+"}
    about = {
        name: _alternatives(_property(option))
        for name, option in schema.model_keys().known.items()
        if name not in ("kind", "name")
    }
    about["name"] = {"type": "string"}
    forms: list[Schema] = [{"enum": list(recipes)}, foreign]
    for kind, options in recipes.items():
        recipe = {name: _alternatives(_property(o), True) for name, o in options.known.items()}
        properties = _object({"kind": {"const": kind}, **recipe, **about}, options.open)
        forms.append({**properties, "required": ["kind"], "description": options.text})
    open_kinds = {"anyOf": [foreign, _object({GRID: {"type": "array"}})]}
    forms.append({**_object({"kind": open_kinds, **about}, True), "required": ["kind"]})
    return {"anyOf": forms}


def _protocols() -> Schema:
    preset = {"enum": list(protocol.PRESETS)}
    options = _closed(schema.protocol_options(), {"kind": preset}, choices=CHOICES)
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
