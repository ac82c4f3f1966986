"""Ids of any type come back from a model file's tensors; invalid tensors are refused."""

import datetime as dt
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmpair.errors import ModelFileError
from fmpair.fitted import file_columns
from fmpair.fitted.file_columns import ids_arrays, ids_from, ids_type

NUMBERS = pl.Series([1, 2, 3])
TYPES = (
    pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64,
    pl.Float32, pl.Float64, pl.Date, pl.Time, pl.Datetime("ms"), pl.Datetime("us"),
    pl.Datetime("ns", "Europe/Berlin"), pl.Duration("ms"), pl.Duration("us"), pl.Duration("ns"),
    pl.Decimal(10, 2), pl.String,
)  # fmt: skip
ODD = {
    "truth": pl.Series([True, False]),
    "bytes": pl.Series([b"", b"\xff\x00", b"x" * 40]),
    "texts": pl.Series(["", "ü" * 6, "x" * 12, "x" * 13, "ü" * 4000, "\0\n"]),
    "one": pl.Series(["x"]),
    "none": pl.Series([], dtype=pl.String),
    "no type": pl.Series([], dtype=pl.Null),
    "extremes": pl.Series([-(2**63), 2**63 - 1, 0]),
    "infinity": pl.Series([float("inf"), -0.5, -float("inf")]),
    "decimals": pl.Series([Decimal("-99999999999999999999999999999999999.999"), Decimal("0.001")]),
    "dates": pl.Series([dt.date(1, 1, 2), dt.date(9999, 12, 30)]),
    "pieces": pl.concat([pl.Series([f"{n} and more than twelve"]) for n in range(9)]),
    "many": pl.Series(range(300_000)),
}


def read_back(ids):
    return ids_from("users", ids_type(ids.dtype), ids_arrays("users", ids))


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_ids_of_every_type_come_back(kind):
    ids = NUMBERS.cast(kind)
    again = read_back(ids)
    assert again.dtype == ids.dtype and again.to_list() == ids.to_list()


@pytest.mark.parametrize("name", ODD)
def test_odd_ids_come_back(name):
    again = read_back(ODD[name])
    assert again.dtype == ODD[name].dtype and again.to_list() == ODD[name].to_list()


def text(content, *offsets):
    return {"ids.x": np.frombuffer(content, np.uint8), "ids.x.offsets": np.array(offsets)}


def numbers(*values, dtype=np.int64):
    return {"ids.x": np.array(values, dtype)}


INVALID = {
    "equal numbers": (["Int64"], numbers(1, 1), "occurs twice"),
    "equal texts": (["String"], text(b"aa", 0, 1, 2), "occurs twice"),
    "two empty texts": (["String"], text(b"a", 0, 0, 0, 1), "occurs twice"),
    "NaN": (["Float64"], numbers(1.5, np.nan, dtype=np.float64), "is missing"),
    "nulls": (["Null"], numbers(0, dtype=np.int8), "is missing"),
    "half a letter": (["String"], text("ü".encode(), 0, 1, 2), "codec can't decode"),
    "no UTF-8": (["String"], text(b"\xff", 0, 1), "codec can't decode"),
    "falling offsets": (["String"], text(b"abc", 0, 2, 1, 3), "do not rise"),
    "offsets below 0": (["String"], text(b"abc", -1, 2, 3), "do not rise"),
    "offsets too high": (["String"], text(b"abc", 0, 2, 2**62), "do not rise"),
    "offsets too low": (["String"], text(b"abc", 0, 2), "do not rise"),
    "no offsets at all": (["String"], text(b""), "int64 offsets|do not rise"),
    "short offsets": (["String"], {**text(b"ab"), "ids.x.offsets": np.array([0, 2], np.int32)},
                      "int64 offsets"),
    "texts of numbers": (["String"], {"ids.x": np.array([1]), "ids.x.offsets": np.array([0, 1])},
                         "uint8 bytes"),
    "missing offsets": (["String"], numbers(1, dtype=np.uint8), "no offsets"),
    "offsets of numbers": (["Int64"], text(b"ab", 0, 2), "Int64 ids and offsets"),
    "another number": (["Int64"], numbers(1, dtype=np.int32), "are int32, not int64"),
    "a table": (["Int64"], {"ids.x": np.array([[1]])}, "no list of them"),
    "nothing": (["Int64"], {}, "no list of them"),
    "late dates": (["Datetime", "ms", None], numbers(2**60), "out of range"),
    "late days": (["Date"], numbers(2**31 - 1, dtype=np.int32), "out of range"),
    "long times": (["Duration", "ms"], numbers(2**60), "out of range"),
    "times after midnight": (["Time"], numbers(-1), "out of range"),
    "wide numbers": (["Int128"], text(str(2**127).encode(), 0, 39), "too many digits"),
    "negative counts": (["UInt128"], text(b"-1", 0, 2), "too many digits"),
    "long numbers": (["Int128"], text(b"9" * 50, 0, 50), "too many digits"),
    "words for numbers": (["Int128"], text(b"one", 0, 3), "invalid literal"),
    "large decimals": (["Decimal", 3, 1], text(b"100", 0, 3), "too many digits"),
    "fine decimals": (["Decimal", 3, 1], text(b"1.55", 0, 4), "too many decimals"),
    "endless decimals": (["Decimal", 3, 1], text(b"Infinity", 0, 8), "too many decimals"),
    "huge decimals": (["Decimal", 3, 1], text(b"1E+999999", 0, 9), "too many decimals"),
}  # fmt: skip


@pytest.mark.parametrize("case", INVALID)
def test_invalid_ids_are_refused(case):
    kind, tensors, reason = INVALID[case]
    with pytest.raises(ModelFileError, match=reason):
        ids_from("x", kind, tensors)


@pytest.mark.parametrize(
    "kind",
    [[], ["List"], ["Categorical"], ["Struct"], ["DataFrame"], ["read_csv"], ["Int64", 1], [None],
     [["Int64"]], ["Datetime"], ["Datetime", "s", None], ["Datetime", "us", "No/Where"],
     ["Datetime", "us", 1], ["Duration"], ["Duration", ["us"]], ["Decimal"], ["Decimal", 50, 2],
     ["Decimal", 3, 5], ["Decimal", None, 2]],
    ids=str,
)  # fmt: skip
def test_other_types_are_refused(kind):
    with pytest.raises(ModelFileError, match="the ids of x cannot be read"):
        ids_from("x", kind, numbers(1, 2))


@given(
    which=st.sampled_from(sorted({*ODD} - {"many"})),
    changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=4),
    end=st.floats(0, 1) | st.just(1.0),
)
@settings(max_examples=400, deadline=None)
def test_tensors_that_were_changed_are_ids_or_refused(which, changes, end):
    ids = ODD[which]
    tensors = ids_arrays("x", ids)
    for name, array in tensors.items():
        content = bytearray(array.tobytes())
        for place, value in changes if len(content) else ():
            content[int(place * len(content))] = value
        whole = int(end * len(array)) * array.itemsize
        if array.dtype == bool:
            content = bytearray(bool(byte) for byte in content)
        tensors[name] = np.frombuffer(bytes(content[:whole]), array.dtype)
    try:
        found = ids_from("x", ids_type(ids.dtype), tensors)
    except ModelFileError:
        return
    assert found.dtype == ids.dtype
    assert len(set(found.to_list())) == len(found)


SHORT = ["a", "b", "ab", "ba", "a\0", "\0a", "\0", "ü", "0", "00", "000", "1", "10", "x" * 16]


@pytest.mark.parametrize("at_once", [1, 3, 100])
@pytest.mark.parametrize("texts", [SHORT, [*SHORT, ""], [*SHORT, "x" * 17]], ids=len)
def test_an_id_that_occurs_twice_is_found_wherever_it_is(monkeypatch, texts, at_once):
    monkeypatch.setattr(file_columns, "HASHED_AT_ONCE", at_once)
    for kind in (pl.String, pl.Binary):
        ids = pl.Series([one.encode() for one in texts]).cast(kind)
        assert read_back(ids).to_list() == ids.to_list()
        for number in range(len(ids)):
            twice = pl.concat([ids, ids[[number]]])
            with pytest.raises(ModelFileError, match="occurs twice"):
                read_back(twice)
