"""No crafted model file does anything but load and answer, or be refused in one line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from crafted import HUGE, deep, events, put_together, taken_apart

from fmpair import Field, FMPair, load
from fmpair.errors import ModelFileError, OptionError
from fmpair.fitted import file
from fmpair.models import catalog

CASES = int(os.environ.get("FMPAIR_FAULT_CASES", "300"))
SCRIPT = Path(__file__).with_name("crafted.py")


def test_no_crafted_file_does_any_harm():
    """In another process: a fault that ends it is a failure, not the end of the tests."""
    run = subprocess.run(
        [sys.executable, str(SCRIPT), "0", str(CASES)], capture_output=True, text=True
    )
    assert run.returncode == 0, f"ended after {run.stderr[-2000:]}"
    out = json.loads(run.stdout)
    assert out["wrong"] == []
    assert sum(out["found"].values()) == CASES
    assert min(out["found"]["answered"], out["found"]["refused"]) > CASES / 20  # both happen


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The bytes of a model with context and attributes: 12 users, 10 items."""
    path = tmp_path_factory.mktemp("models") / "m.fmpair"
    recipe = FMPair(factors=3, epochs=1, fields={"age": Field("binned", bins=3)})
    recipe.fit(events(lambda n: f"user number {n}")).save(path)
    return path.read_bytes()


@pytest.fixture
def refused(tmp_path):
    """Asserts that the parts of a file make none that loads, for a reason."""

    def check(parts, reason):
        path = tmp_path / "m.fmpair"
        path.write_bytes(parts if isinstance(parts, bytes) else put_together(parts))
        with pytest.raises(ModelFileError, match=reason) as caught:
            load(path)
        assert len(str(caught.value).splitlines()) == 1 and "m.fmpair" in str(caught.value)

    return check


def with_value(array, value, place=0):
    array.reshape(-1)[place] = value
    return array


ARRAYS = {
    "column too high": ("seen.column", lambda a: with_value(a, 10), "outside 0 to 9"),
    "column far too high": ("seen.column", lambda a: with_value(a, 2**31 - 1), "outside 0 to 9"),
    "column below 0": ("item_rows.column", lambda a: with_value(a, -1), "outside 0 to"),
    "column twice": ("item_rows.column", lambda a: with_value(a, a[1]), "twice in one row"),
    "start above 0": ("seen.start", lambda a: with_value(a, 1), "does not rise from 0 to 72"),
    "start falls": ("seen.start", lambda a: with_value(a, 71, 3), "does not rise from 0 to 72"),
    "end too high": ("user_rows.start", lambda a: with_value(a, 99, -1), "does not rise from 0"),
    "NaN": ("users", lambda a: with_value(a, np.nan), "not finite"),
    "infinity": ("item_bias", lambda a: with_value(a, -np.inf), "not finite"),
    "large numbers": ("items", lambda a: with_value(a, 1e30), "scores would not be finite"),
    "a row less": ("users", lambda a: a[:-1], r"has shape \[11, 3\], not \[12, 3\]"),
    "a factor less": ("items", lambda a: a[:, :-1], r"has shape \[10, 2\], not \[10, 3\]"),
    "a dimension more": ("items", lambda a: a[None], r"has shape \[1, 10, 3\]"),
    "values less": ("seen.value", lambda a: a[:-1], r"has shape \[71\], not \[72\]"),
    "half floats": ("query", lambda a: a.astype(np.float16), "holds float16, not float32 or"),
    "floats for places": ("seen.column", lambda a: a.astype(np.float32), "holds float32, not int"),
    "small whole numbers": ("seen.start", lambda a: a.astype(np.int16), "holds int16, not int32"),
    "numbers for text": ("ids.users", lambda a: a.astype(np.int64), "texts are uint8 bytes"),
    "no ids": ("ids.items", lambda a: a[:0], "it knows no items"),
    "an id twice": ("ids.items", lambda a: a * 0, "an id occurs twice"),
    "an id less": ("ids.items", lambda a: a[:9], "column 0 of its items cannot be read"),
    "another number": ("ids.items", lambda a: a.astype(np.int16), "are int16, not int64"),
    "offsets fall": (
        "ids.users.offsets", lambda a: with_value(a, 99, 1), "the offsets do not rise from 0 to",
    ),
    "offsets end early": (
        "ids.users.offsets", lambda a: a[:-1], "the offsets do not rise from 0 to",
    ),
    "items of a value less": ("owners.5", lambda a: a[:-1], "wrong numbers of items by value"),
    "items below 0": ("owners.5", lambda a: with_value(a, -1), "wrong numbers of items by value"),
    "invalid UTF-8": ("ids.users", lambda a: with_value(a, 255), "codec can't decode"),
}  # fmt: skip


@pytest.mark.parametrize("case", ARRAYS)
def test_an_array_that_is_not_what_it_must_be_is_named(saved, refused, case):
    name, change, reason = ARRAYS[case]
    parts = taken_apart(saved)
    parts.arrays[name] = change(parts.arrays[name])
    refused(parts, reason)


def test_every_array_must_be_there_and_no_other(saved, refused):
    for name in taken_apart(saved).arrays:
        parts = taken_apart(saved)
        del parts.arrays[name]
        refused(parts, "missing|no list of them|no offsets|list of values|of its items cannot")
    for name in ("more", "scorer.table", "ids.more", "ids.field.7", "owners.7"):
        parts = taken_apart(saved)
        parts.arrays[name] = parts.arrays["ids.items"]
        refused(parts, "unexpected array|belong to no field")


HEADER = {
    "format": ((0, True, "1", None, 1.5), "not an fmpair model"),
    "sha256": ((None, 5, "0", ["0"] * 64), "not an fmpair model"),
    "fitted": (("Oracle", 1, []), "'fitted' must be Recommender or Ranker"),
    "recipe": (("os:system", "subprocess:Popen", "polars:DataFrame", "builtins:exec", ":", ""),
               "unknown model"),
    "options": (([], None, "x"), "'options' must be options by name"),
    "frame": (("excel", None, ["polars"]), "'frame' must be one of polars"),
    "damping": ((HUGE, "1", True, None), "'damping' must be a number"),
    "whole": ((0, None, "no"), "'whole' must be true or false"),
    "id_columns": (
        ({}, "user", ["a"], ["a", "a"], ["a", 1], ["a", "b", "c"]),
        "'id_columns' must be a list of two names",
    ),
    "event_weights": (
        ({}, "view", ["a"], ["a", {}], [1, []], ["a", [["view"]]], ["a", [["view", -1]]],
         ["a", [["view", HUGE]]], ["a", [[1, 1]]], ["a", [], []]),
        "'event_weights' must be a column and weights by event type",
    ),
    "fields": (({}, None, [1]), "'fields' must be a list of fields"),
    "ids": (([], None, {"users": "String"}), "'ids' must be types by name"),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADER)
def test_an_entry_of_the_header_that_is_not_what_it_must_be_is_named(saved, refused, name):
    values, reason = HEADER[name]
    for value in values:
        parts = taken_apart(saved)
        parts.header[name] = value
        content = put_together(parts)
        if name == "sha256":  # which is put in last
            was = f'\\"sha256\\": \\"{json_of(content)["sha256"]}\\"'.encode()
            said = json.dumps(json.dumps({"sha256": value}))[2:-2].encode()
            content = len_fixed(content.replace(was, said))
        refused(content, reason)


def json_of(content):
    return taken_apart(content).header


def len_fixed(content):
    """The bytes with the length of the header that it has."""
    size = content.index(b"}}", content.index(b"ids.users")) + 2 - 8
    return size.to_bytes(8, "little") + content[8:]


FIELDS = {
    "role": ("user", "admin", "role must be one of user, context, item"),
    "name": ("age", ["age"], "name must be text"),
    "centre": ("heat", HUGE, "centre must be a number"),
    "spread": ("heat", 0, "spread must be a number above 0"),
    "edges": ("age", [3.0, 2.0], "edges must belong to bins and rise"),
    "field": ("heat", {"kind": "numeric", "scale": 1e300}, "with a scale up to"),
}


@pytest.mark.parametrize("what", FIELDS)
def test_what_is_said_of_a_field_is_checked(saved, refused, what):
    name, value, reason = FIELDS[what]
    parts = taken_apart(saved)
    one = next(f for f in parts.header["fields"] if name in (f["name"], f["role"]))
    one[what] = value
    refused(parts, reason)


def test_a_field_has_values_where_its_kind_has_some_and_a_name_of_its_own(saved, refused):
    for kind, reason in (
        ("numeric", "is numeric and has a list of values"),
        ("auto", "the kind 'auto', which fitted models do not have"),
        ("magic", "the kind 'magic', which"),
    ):
        parts = taken_apart(saved)
        parts.header["fields"][2]["field"]["kind"] = kind
        refused(parts, reason)
    parts = taken_apart(saved)
    for one in parts.header["fields"]:
        one.update(role="item", name="tags")
    refused(parts, "two of its fields have the same name")


def test_text_without_end_or_depth_is_no_header(saved, refused):
    for value in (deep(40), "x" * 70_000, "\ud800", {"a" * 70_000: 1}):
        parts = taken_apart(saved)
        parts.header["options"]["fields"] = value
        refused(parts, "not an fmpair model")
    parts = taken_apart(saved)
    parts.inner_text = "[" * 10**6
    refused(parts, "not an fmpair model")
    for length in (0, len(saved), 2**63, 2**64 - 1):
        parts = taken_apart(saved)
        parts.length = length
        refused(parts, "not an fmpair model")


def test_values_of_a_field_are_never_bytes(saved, refused):
    parts = taken_apart(saved)
    name = next(f"field.{n}" for n, f in enumerate(parts.header["fields"]) if f["name"] == "place")
    parts.header["ids"][name] = ["Binary"]
    refused(parts, "'place' has values of Binary")


def test_ids_that_no_field_has_are_refused(saved, refused):
    parts = taken_apart(saved)
    parts.header["ids"]["field.99"] = ["Int64"]
    parts.arrays["ids.field.99"] = np.arange(3)
    refused(parts, "'field.99' belong to no field")


def test_a_file_cannot_make_a_module_import_others():
    class Lazy:
        def __getattr__(self, name):
            raise AssertionError("asked for what it has not")

    sys.modules["lazy_module"] = Lazy()
    try:
        assert catalog.from_name("lazy_module:Recipe") is None
    finally:
        del sys.modules["lazy_module"]
    assert catalog.from_name("fmpair.models.fm_pair.fm_pair:FMPair") is FMPair


def test_a_device_is_not_read_to_its_end(device):
    with pytest.raises(ModelFileError, match="it is a device or a pipe, not a file"):
        load(device)
    with pytest.raises(ModelFileError, match="cannot read model"):
        load("a\0b")


def test_answers_come_as_polars_where_the_kind_of_frame_is_not_installed(
    saved, tmp_path, monkeypatch
):
    parts = taken_apart(saved)
    parts.header["frame"] = "pandas"
    path = tmp_path / "m.fmpair"
    path.write_bytes(put_together(parts))
    assert type(load(path).recommend(n=1)).__module__.startswith("pandas")
    monkeypatch.setattr(file, "find_spec", lambda name: None)
    assert isinstance(load(path).recommend(n=1), pl.DataFrame)


def test_a_recipe_that_does_not_fit_its_vectors_does_not_go_on_learning(saved, tmp_path):
    parts = taken_apart(saved)
    parts.header["options"]["factors"] = 10**9
    path = tmp_path / "m.fmpair"
    path.write_bytes(put_together(parts))
    more = pl.DataFrame({"user": ["user number 1"], "item": [8]})
    with pytest.raises(OptionError, match="1000000000 factors, but its vectors 3"):
        load(path).update(more)


def test_what_could_not_be_loaded_is_not_saved(tmp_path):
    recipe = FMPair(factors=2, epochs=1, fields={"place": {"separator": "x" * 70_000}})
    model = recipe.fit(events(str))
    with pytest.raises(ModelFileError, match="the model cannot be saved: its options, columns"):
        model.save(tmp_path / "m.fmpair")
    assert not list(tmp_path.iterdir())
