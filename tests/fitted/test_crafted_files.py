"""No crafted model file does anything but load and answer, or be refused in one line."""

import json
import os
import subprocess
import sys
import zlib
from base64 import b85decode
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from crafted import HUGE, arrow, deep, events, put_together, taken_apart

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
    "numbers for ids": ("ids.users", lambda a: a.astype(np.int64), "are int64, not bytes"),
    "no ids": ("ids.items", lambda a: arrow(pl.DataFrame({"id": []})), "it knows no items"),
    "an id twice": (
        "ids.items", lambda a: arrow(pl.DataFrame({"id": [1] * 10})), "an id occurs twice",
    ),
    "an id less": (
        "ids.items", lambda a: arrow(pl.DataFrame({"id": range(9)})), r"has shape \[10, 3\]",
    ),
    "an id missing": (
        "ids.items", lambda a: arrow(pl.DataFrame({"id": [None, *range(9)]})), "an id is missing",
    ),
    "compressed ids": (
        "ids.items", lambda a: arrow(pl.DataFrame({"id": range(10)}), compression="zstd"),
        "compressed ids",
    ),
    "values that are bytes": (
        "ids.field.2", lambda a: arrow(pl.DataFrame({"id": [b"a", b"b", b"c"]})),
        "'place' has values of Binary",
    ),
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
        refused(parts, "missing|it knows no|list of values")
    for name in ("more", "scorer.table", "ids.more", "ids.field.7"):
        parts = taken_apart(saved)
        parts.arrays[name] = parts.arrays["ids.items"]
        refused(parts, "which such a model does not have|which no field has")


HEADER = {
    "format": ((0, True, "1", None, 1.5), "not an fmpair model"),
    "sha256": ((None, 5, "0", ["0"] * 64), "not an fmpair model"),
    "fitted": (("Oracle", 1, []), "'fitted' must be Recommender or Ranker"),
    "recipe": (("os:system", "subprocess:Popen", "polars:DataFrame", "builtins:exec", ":", ""),
               "does not know"),
    "options": (([], None, "x"), "'options' must be options by name"),
    "frame": (("excel", None, ["polars"]), "'frame' must be one of polars"),
    "damping": ((HUGE, "1", True), "'damping' must be a number"),
    "whole": ((0, None, "no"), "'whole' must be true or false"),
    "id_columns": (
        ({}, "user", ["a"], ["a", "a"], ["a", 1], ["a", "b", "c"]),
        "'id_columns' must be a list of two names",
    ),
    "event_weights": (
        ({}, "view", ["a"], ["a", {}], [1, []], ["a", [["view"]]], ["a", [["view", -1]]],
         ["a", [["view", HUGE]]], ["a", [[1, 1]]], ["a", [], []]),
        "'event_weights' must be a column and weights by kind of event",
    ),
    "fields": (({}, None, [1]), "'fields' must be a list of fields"),
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
    "edges": ("age", [3.0, 2.0], "edges must be of bins, and rise"),
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
        ("numeric", "is numeric and has list of values"),
        ("auto", "'auto', which no field of a fitted model is"),
        ("magic", "'magic', which no field"),
    ):
        parts = taken_apart(saved)
        parts.header["fields"][2]["field"]["kind"] = kind
        refused(parts, reason)
    parts = taken_apart(saved)
    for one in parts.header["fields"]:
        one.update(role="item", name="tags")
    refused(parts, "two of its fields have one name")


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


def test_texts_that_share_their_bytes_without_end_are_refused(saved, refused):
    """A thousand ids in a few kilobytes, each as long as nearly all of them: 40 MB and more."""
    ids = arrow(pl.DataFrame({"id": [f"{n:04}" + "x" * 40 for n in range(1000)]})).copy()
    at = ids.tobytes().index(b"\x2c\x00\x00\x000000")
    views = ids[at : at + 16_000].view("<i4").reshape(-1, 4)
    views[:, 0] = 40_000 - np.arange(1000)
    views[:, 3] = 0
    parts = taken_apart(saved)
    parts.arrays["ids.users"] = ids
    refused(parts, "texts longer than the bytes there are")


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
    with pytest.raises(ModelFileError, match="it is a device, not a file"):
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
    with pytest.raises(OptionError, match="1000000000 factors, its vectors 3"):
        load(path).update(more)


def test_what_could_not_be_loaded_is_not_saved(tmp_path):
    recipe = FMPair(factors=2, epochs=1, fields={"place": {"separator": "x" * 70_000}})
    model = recipe.fit(events(str))
    with pytest.raises(ModelFileError, match="the model cannot be saved: its options, columns"):
        model.save(tmp_path / "m.fmpair")
    assert not list(tmp_path.iterdir())


# A model with context and attributes as version 0.1.0 saved it, compressed.
FIRST = """
c-rk%&2QX96nByZl@g&)dZ;)>djV7v*<SC5(-
ke3N~l6Wl!{78v>My9yQBDHGafhDhDd2oT#$MI0T+bC0f`HU10rd}r3Vfi5aJKu)&uH=s)r&W!kh7Uv3K2U0zu+yR$i~
)y!U(W{oZf9H%}^JZI)XtA2Z}4hFY!i{ARiB_Yk4w`SRv+*+qVj1fAvb{H!*osk6)FHo=}7al;bqJ2+qzXST81!O8B*z
?(mUuT6qLVl9`~ViYjqK`3{FEfJ&(j8zi2iI;;I?u3*$$V(i9kow3Y*F?%7_B?K+xD$Jbl52>OFv#vi5GY*rq`C<A5Jf
Dc3H%!gXv9$9BI-(5Mq@0^l*!h%L~`WgB#;qbR!&1t+MF<8c!NpE9>vI&nIZVEr^=5#M*dzTp-wbR5@FacVn{N;7?$lU
U?=o_9JrV!{%zir$fS!$I>^%tp)Z*!?D6iRltwRfR-
<gM4m3eP>Nsx=DaB68OB;ES=xtQ|xEDHI5n2&NAO~m?&qn@iYzi(&Ko~(@D{>`<D4lcAvI&Z^JbEZ%Enr;=L^ygFQ7(f
Kdl*GY>rvQdKH89D#~qmMRV?@7fN;(VBr#}^v*m+PPCDwilEw9)6?GBK38)uFBm>{W)Q_1IQ?kFF0BLhZRZJZPtG~m5^
<Ww1cUl9ufhrSe2nIN+oXkMQ-CWgjU_dn#iddZQWgU}Fm&s1N5P-Il5**T#s=D~{tMC?-
TJ0jET1)Kps#P~kq*pb&ZrOFSZq+Q?Fl^0f+h*0Z^lHP<>xQ8_Ra-
Y*w^nV}8@6lP*seBkT~83#yYfhgS!_Z2L>4q$kLJXg;%{P?^?Mjz#4pv%vdXLAPfOJmwJhG&VY?k+7J*4qO>G4*fTUnt
xH%ebYHHo!@o|Ldp=u}qsT-
=UnH;5!1>r*DS%`}jBLiWKLO{H#>qZ9Spm?<iL5C`g#!AZP!6g)Q0l}(nnk%`1Tt!}tj|O8xCp9gFIjDxhHfoxxTY`wS
7}NeyS+KyYH3o_pQ-5s~0iso-GNg$yFj@gj#mK@OKtrXd4-sCi<%i*fUhD@sX^xu)V5ml-aKXnoh$2Ej-
iB4n6EY5`h!Lxn;t)5Q6aN@<S{CARBYW2MN-;)5v+@}F(J&xh)hmXPf{ds%4*}UmRR-az-
l*s)#>j}rm%+n9A^gB?&5EVSH6ia)@?ILcr)zS^{-
|=e^)~sk3D@4;`yZRnKX`8U=^L}VUwqo1|M`a1y#3Z|yZ(1)_b$J4sjev7=fPcG+vh)@zqz;g%#~*U_Sffro%-
z7onW&0&Gi>{Q`{>bG<M$q_N)bW3+_8f{OGlFtJPfGxU~1fPpIiGt~Jkma((yvrLWFq`=1#4J(=nG#f61eUe}Yp@9ppJ
pB5Z&uanB-$_e-`DG$It4VDw|Nq4#bU9hWg=VYJZ*zh%@oPxa><w@Z?E%N*VekHK-
e8f$1gK7W049*2vQ<8rQBA*gi)9`c$_S2dd;d)m3DasR&w*)>j!ZPuYnHH_t%<qW;U#=Gy^#{+7z!mU+`$Ou2_ooc?*B
JE2nK=bjmw=^dk$*$ReJJl2hVYJg2Ja3=|Gxl=1&|#|`rKCzzy31<Xk?R57AL<i378NVkBPQZF>s=`4=IEnMH9(tDvB6
8uk*AN!BGZYDj0ZHG*b`xr#P;GZ_Bth|G>ciB<COf<4*t7F`s^IXz)`7uYVK-xo11HbJ$M*UvT<=1G=$+Py
"""


def test_a_file_of_the_first_version_is_read_and_answers_as_it_did(tmp_path):
    path = tmp_path / "first.fmpair"
    path.write_bytes(zlib.decompress(b85decode(FIRST.replace("\n", ""))))
    model = load(path)
    out = model.recommend("ann", 4, context={"time": "day"}, exclude_seen=False)
    assert out["item"].to_list() == [1, 4, 2, 3]
    assert out["score"].to_list() == pytest.approx(
        [0.033434, 0.000012, -0.00066, -0.032907], abs=1e-6
    )
    assert model.explain("bob", 2)["value"].sum() == pytest.approx(
        model.score(pl.DataFrame({"user": ["bob"], "item": [2]}))["score"][0], abs=1e-7
    )
    model.save(tmp_path / "again")
    first, again = (taken_apart((tmp_path / name).read_bytes()) for name in (path.name, "again"))
    assert again.header["format"] > first.header["format"]
    for new, old in zip(again.header["fields"], first.header["fields"], strict=True):
        assert {**new, "field": {name: new["field"][name] for name in old["field"]}} == old
    for name, array in first.arrays.items():
        np.testing.assert_array_equal(again.arrays[name], array)
