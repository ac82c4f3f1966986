"""The schema agrees with the reader: what one accepts the other does."""

import re
from pathlib import Path

import pytest

from fmpair.config import option_schema
from fmpair.config.document import read
from fmpair.config.option_schema import json_schema

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
SCHEMA = json_schema()
KINDS = {
    "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None),
    "integer": int, "number": (int, float),
}  # fmt: skip


def valid(value, schema):
    """As much of JSON Schema as json_schema() uses."""
    if "$ref" in schema:
        return valid(value, SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]])
    kind = schema.get("type")
    if kind and not isinstance(value, KINDS[kind]):
        return False
    if kind in ("integer", "number") and isinstance(value, bool):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "const" in schema and value != schema["const"]:
        return False
    if "pattern" in schema and not re.search(schema["pattern"], value):
        return False
    if "anyOf" in schema and not any(valid(value, one) for one in schema["anyOf"]):
        return False
    if isinstance(value, list):
        items = schema.get("items", {})
        return len(value) >= schema.get("minItems", 0) and all(valid(v, items) for v in value)
    return valid_members(value, schema) if isinstance(value, dict) else True


def valid_members(value, schema):
    known, other = schema.get("properties", {}), schema.get("additionalProperties", True)
    if set(schema.get("required", ())) - set(value):
        return False
    if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", 1e9):
        return False
    for key, one in value.items():
        inner = known.get(key, other)
        if inner is False or (isinstance(inner, dict) and not valid(one, inner)):
            return False
    return True


def keys_of(schema):
    """Every key that may stand in a mapping, in any of the schema's alternatives."""
    found = set(schema.get("properties", ()))
    for one in schema.get("anyOf", ()):
        found |= keys_of(one)
    return found


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_fits_the_schema(path):
    assert valid(read(path).values, SCHEMA)


GOOD = {"data": {"set": "ml-100k"}, "models": ["popularity"]}


@pytest.mark.parametrize(
    "more",
    [
        {"models": [{"kind": "fm-pair", "factors": {"grid": [1, 2]}, "stop": 3}]},
        {"models": [{"kind": "fm-pair", "factors": {"search": {"low": 1, "high": 9}}}]},
        {"models": [{"kind": "my.package:Model", "anything": 3}]},
        {"models": [{"kind": "fm-pair", "ablation": "both"}]},
        {"filter": ["above-mean", {"core": {"users": 3}}, {"kind": "above", "threshold": 3}]},
        {"split": {"kind": "leave_last_out", "count": 2}},
        {"protocols": ["full", {"unit": "user"}]},
        {"metrics": ["ndcg@10", "auc"], "views": ["context:day"], "seeds": [1]},
    ],
)
def test_what_the_reader_accepts_fits(more):
    assert valid({**GOOD, **more}, SCHEMA)


@pytest.mark.parametrize(
    "more",
    [
        {"nam": "x"},
        {"models": []},
        {"models": [{"kind": "fm-pair", "factor": 3}]},
        {"models": [{"kind": "fm-pair", "factors": "many"}]},
        {"models": [{"kind": "fm-pair", "ablation": "every"}]},
        {"filter": ["above_men"]},
        {"split": {"kind": "folds", "counts": 3}},
        {"protocols": {"a": {"unit": "usr"}}},
        {"metrics": ["ndcg"]},
        {"seeds": ["a"]},
        {"run": {"workers": 1.5}},
        {"compare": {"test": "chi"}},
    ],
)
def test_what_the_reader_refuses_does_not_fit(more):
    assert not valid({**GOOD, **more}, SCHEMA)


def test_every_key_that_the_reader_accepts_is_in_the_schema():
    top = SCHEMA["properties"]
    assert set(top) == set(option_schema.TEXTS)
    assert keys_of(top["data"]) == {
        *option_schema.sources(),
        *option_schema.reader_options(None).known,
    }
    for name, section in option_schema.SECTIONS.items():
        assert keys_of(top[name]) == set(option_schema.options_of(section).known)
    models = {
        form["properties"]["kind"].get("const"): set(form["properties"])
        for form in top["models"]["items"]["anyOf"]
        if "properties" in form
    }
    for kind, options in option_schema.recipes().items():
        assert models[kind] == {*options.known, *option_schema.model_keys().known}
    for section, known in (("split", option_schema.splits()), ("filter", option_schema.filters())):
        steps = top[section].get("items", top[section])
        for name, options in known.items():
            assert {name, name.replace("_", "-"), *options.known} <= keys_of_steps(steps, name)


def keys_of_steps(steps, name):
    """The keys of the forms of one step, and its name where it stands alone."""
    forms = [f["properties"] for f in steps["anyOf"] if "properties" in f]
    own = [f for f in forms if name in f.get("kind", {}).get("enum", ()) or name in f]
    return {key for form in own for key in form}


def test_options_are_described_and_have_their_defaults():
    forms = SCHEMA["properties"]["models"]["items"]["anyOf"]
    [own] = [f["properties"] for f in forms
             if f.get("properties", {}).get("kind") == {"const": "fm-pair"}]  # fmt: skip
    assert own["epochs"]["description"] == "Passes over the events."
    assert own["epochs"]["default"] == 25
