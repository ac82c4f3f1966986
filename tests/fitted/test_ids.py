"""Ids of any type come back from bytes; bytes that lie about themselves are refused."""

import datetime as dt
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from crafted import arrow
from hypothesis import given, settings
from hypothesis import strategies as st

from fmpair.data.vocabulary import Vocabulary
from fmpair.fitted.file_arrays import packed, unpacked

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


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_ids_of_every_type_come_back(kind):
    ids = NUMBERS.cast(kind)
    again = unpacked(packed(Vocabulary(ids))).ids
    assert again.dtype == ids.dtype and again.to_list() == ids.to_list()


@pytest.mark.parametrize("name", ODD)
def test_odd_ids_come_back(name):
    again = unpacked(packed(Vocabulary(ODD[name]))).ids
    assert again.dtype == ODD[name].dtype and again.to_list() == ODD[name].to_list()


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (pl.DataFrame({"id": [1, 1]}), "occurs twice"),
        (pl.DataFrame({"id": [1, None]}), "is missing"),
        (pl.DataFrame({"id": [1.5, float("nan")]}), "is missing"),
        (pl.DataFrame({"id": [None, None]}), "is missing|fewer bytes"),
        (pl.DataFrame({"id": [[1], [2]]}), "no type that ids can have"),
        (pl.DataFrame({"id": [{"a": 1}]}), "no type that ids can have"),
        (pl.DataFrame({"id": pl.Series(["a"], dtype=pl.Categorical)}), "no type that ids can have"),
        (pl.DataFrame({"name": [1]}), "no table of one column 'id'"),
        (pl.DataFrame({"id": [1], "more": [1]}), "no table of one column 'id'"),
        (pl.DataFrame({"id": pl.Series([2**60]).cast(pl.Datetime("ms"))}), "no calendar or clock"),
        (pl.DataFrame({"id": pl.Series([2**60]).cast(pl.Duration("ms"))}), "no calendar or clock"),
    ],
)
def test_what_is_no_list_of_ids_is_refused(frame, reason):
    with pytest.raises(ValueError, match=reason):
        unpacked(arrow(frame))


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_ids_are_refused_before_they_are_unpacked(compression):
    with pytest.raises(ValueError, match="compressed"):
        unpacked(arrow(pl.DataFrame({"id": ["a" * 100]}), compression=compression))


@given(
    which=st.sampled_from(sorted({*ODD} - {"many"})),
    changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=4),
    end=st.floats(0, 1) | st.just(1.0),
)
@settings(max_examples=400, deadline=None)
def test_bytes_that_were_changed_are_ids_or_refused(which, changes, end):
    content = packed(Vocabulary(ODD[which])).copy()
    for place, value in changes:
        content[int(place * len(content))] = value
    content = content[: int(end * len(content))]
    try:
        found = unpacked(content)
    except (ValueError, pl.exceptions.PolarsError):
        return
    assert len(set(found.ids.to_list())) == len(found)
    np.testing.assert_array_equal(found.numbers(found.ids), np.arange(len(found)))


def test_the_same_rows_named_many_times_are_refused_before_they_are_made():
    """A few bytes a batch, and every batch the same rows: no memory holds what they claim."""
    content = packed(Vocabulary(pl.Series(range(50_000)))).tobytes()
    length = int.from_bytes(content[-10:-6], "little")
    footer = content[-10 - length : -10]
    at = footer.index((1).to_bytes(4, "little") + (128).to_bytes(8, "little"))  # the one block
    block, blocks = footer[at + 4 : at + 28], 400
    # The vector of blocks is moved behind all else, where there is room for more of them.
    place = next(
        p for p in range(0, at, 4) if p + int.from_bytes(footer[p : p + 4], "little") == at
    )
    moved = footer[:place] + (len(footer) - place).to_bytes(4, "little") + footer[place + 4 :]
    moved += blocks.to_bytes(4, "little") + block * blocks
    forged = content[: -10 - length] + moved + len(moved).to_bytes(4, "little") + b"ARROW1"
    with pytest.raises(ValueError, match="more ids than there are bytes"):
        unpacked(np.frombuffer(forged, np.uint8))
