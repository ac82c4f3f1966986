"""Ids of any type go in and come out unchanged."""

import datetime as dt
import pickle
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmpair.data import vocabulary as hash_index
from fmpair.data.vocabulary import FEW, HashIndex, Vocabulary, as_plain, comparable
from fmpair.errors import DataError

IDS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1),
    st.lists(st.text(), min_size=1),
    st.lists(st.dates(), min_size=1),
)


@given(IDS)
def test_every_id_comes_back_as_it_went_in(ids):
    values = pl.Series(ids)
    vocabulary = Vocabulary.of(values)
    assert vocabulary.take(vocabulary.numbers(values)).to_list() == ids


@given(IDS)
def test_numbers_follow_the_first_appearance(ids):
    assert Vocabulary.of(pl.Series(ids)).ids.to_list() == list(dict.fromkeys(ids))


@given(st.lists(st.integers(0, 30), min_size=1), st.lists(st.integers(0, 60)))
def test_known_ids_keep_their_numbers_when_new_ones_join(old, new):
    before = Vocabulary.of(pl.Series(old))
    after = before.extend(pl.Series(new, dtype=pl.Int64))
    assert after.ids.to_list() == list(dict.fromkeys(old + new))


def test_unknown_and_missing_values_have_no_number():
    vocabulary = Vocabulary.of(pl.Series(["a", "b", None]))
    assert len(vocabulary) == 2
    assert vocabulary.numbers(pl.Series(["b", "c", None])).tolist() == [1, -1, -1]
    assert vocabulary.number("c") == -1


def test_text_from_a_command_line_finds_numeric_ids():
    vocabulary = Vocabulary.of(pl.Series([10, 20]))
    assert vocabulary.numbers(pl.Series(["20", "x"])).tolist() == [1, -1]


def test_a_fraction_is_never_a_whole_number():
    vocabulary = Vocabulary.of(pl.Series([1, 2]))
    assert vocabulary.numbers(pl.Series([2.0, 1.0])).tolist() == [1, 0]
    assert vocabulary.numbers(pl.Series([1.5])).tolist() == [-1]


def test_dates_are_found_by_dates():
    days = [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]
    assert Vocabulary.of(pl.Series(days)).numbers(pl.Series(days[::-1])).tolist() == [1, 0]


def test_categories_are_their_text():
    vocabulary = Vocabulary.of(pl.Series(["x", "y"], dtype=pl.Categorical))
    assert vocabulary.numbers(pl.Series(["y"])).tolist() == [1]


def test_ids_of_another_type_cannot_join():
    with pytest.raises(DataError, match="do not fit those of type Int64"):
        Vocabulary.of(pl.Series([1])).extend(pl.Series([dt.date(2024, 1, 1)]))


def test_numbers_are_small_integers():
    assert Vocabulary.of(pl.Series(["a"])).numbers(pl.Series(["a"])).dtype == np.int32


@pytest.mark.parametrize(
    "ids",
    [[True], [dt.date(2024, 1, 1)], [dt.datetime(2024, 1, 1)], [dt.time(1)], [dt.timedelta(1)]],
)
def test_text_that_cannot_be_read_as_the_type_of_the_ids_is_unknown(ids):
    known = Vocabulary(pl.Series(ids))
    assert known.numbers(pl.Series(["no such id"])).tolist() == [-1]
    assert known.number("no such id") == -1 and known.number(ids[0]) == 0


@pytest.mark.parametrize("kind", [pl.Float32, pl.Float64])
def test_floats_of_any_length_find_themselves(kind):
    known = Vocabulary(pl.Series([0.1, 2.5, -7.0], dtype=kind))
    assert [known.number(value) for value in (0.1, 2.5, -7.0, 3.5)] == [0, 1, 2, -1]


UTC = dt.UTC
MOMENTS = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))
NEAR = st.integers(-3, 3)  # so that values of different types meet


def whole(dtype):
    low, high = (int(pl.select(bound).item()) for bound in (dtype.min(), dtype.max()))
    return st.one_of(NEAR.filter(lambda n: n >= low), st.integers(low, high))


VALUES = {
    **{dtype: whole(dtype) for dtype in (
        pl.Int8(), pl.Int16(), pl.Int32(), pl.Int64(), pl.UInt8(), pl.UInt16(), pl.UInt32(),
        pl.UInt64(), pl.Int128(),
    )},
    pl.Float32(): st.one_of(NEAR.map(float), st.floats(width=32)),
    pl.Float64(): st.one_of(NEAR.map(float), st.floats()),
    pl.String(): st.one_of(NEAR.map(str), st.text(), st.text("ab", min_size=12)),
    pl.Binary(): st.binary(),
    pl.Boolean(): st.booleans(),
    pl.Date(): st.dates(dt.date(1700, 1, 1), dt.date(2200, 1, 1)),
    pl.Datetime("us"): MOMENTS,
    pl.Datetime("ms"): MOMENTS.map(lambda at: at.replace(microsecond=0)),
    pl.Datetime("us", "UTC"): MOMENTS.map(lambda at: at.replace(tzinfo=UTC)),
    pl.Duration("us"): st.timedeltas(dt.timedelta(-1000), dt.timedelta(1000)),
    pl.Time(): st.times(),
    pl.Decimal(20, 2): st.one_of(
        NEAR.map(Decimal), st.decimals("-1000", "1000", places=2).map(lambda d: d.copy_abs())
    ),
    pl.Categorical(): st.text("ab", max_size=2),
}  # fmt: skip
TYPES = st.sampled_from(list(VALUES))


@st.composite
def columns(draw, dtype, **size):
    return pl.Series(draw(st.lists(st.none() | VALUES[dtype], **size)), dtype=dtype, strict=False)


def by_dictionary(ids, values):
    """The definition: every value in the type of the ids, and its place among them."""
    wanted = comparable(as_plain(values), ids.dtype)
    if wanted is None:
        return [-1] * len(values)
    known = {value: number for number, value in enumerate(ids.to_list())}
    return [-1 if value is None else known.get(value, -1) for value in wanted.to_list()]


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_values_of_any_type_have_the_numbers_a_dictionary_gives(data):
    vocabulary = Vocabulary.of(data.draw(columns(data.draw(TYPES))))
    values = data.draw(columns(data.draw(TYPES)))
    assert vocabulary.numbers(values).tolist() == by_dictionary(vocabulary.ids, values)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_known_ids_asked_for_in_another_type_are_the_same_ids(data):
    vocabulary = Vocabulary.of(data.draw(columns(data.draw(TYPES), min_size=1)))
    asked = data.draw(TYPES)
    try:
        values = vocabulary.ids.cast(asked, strict=False)
    except pl.exceptions.PolarsError:
        return  # such as dates as truth values: nobody can ask that
    assert vocabulary.numbers(values).tolist() == by_dictionary(vocabulary.ids, values)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_many_values_at_once_have_the_numbers_of_each_alone(data):
    dtype = data.draw(TYPES)
    vocabulary = Vocabulary.of(data.draw(columns(dtype)))
    few = data.draw(columns(dtype, min_size=1))
    times = FEW // len(few) + 1  # more than are looked up one by one
    many = vocabulary.numbers(pl.concat([few] * times))
    assert many.tolist() == vocabulary.numbers(few).tolist() * times


@given(st.lists(st.text("abc"), unique=True), st.lists(st.none() | st.text("abc")))
def test_ids_of_one_hash_are_told_apart(ids, values):
    def few_hashes(series):
        return np.array([len(value or "") % 2 for value in series], np.uint64)

    ids, values = pl.Series(ids, dtype=pl.String), pl.Series(values, dtype=pl.String)
    with patch.object(hash_index, "hashes_of", few_hashes):
        found = HashIndex.of(ids).numbers(ids, values)
    assert found.tolist() == by_dictionary(ids, values)


@given(st.lists(st.text("abc"), unique=True), st.lists(st.text("abcd"), max_size=5))
def test_an_index_goes_on_when_new_ids_join(old, new):
    before = Vocabulary(pl.Series(old, dtype=pl.String))
    before.number("a")  # has its index made
    after = before.extend(pl.Series(new, dtype=pl.String))
    again = HashIndex.of(after.ids)
    assert after._index.hashes.tolist() == again.hashes.tolist()
    assert after.numbers(after.ids).tolist() == list(range(len(after)))


def test_an_id_that_is_missing_is_nobody():
    vocabulary = Vocabulary(pl.Series(["a", None]))
    assert vocabulary.numbers(pl.Series([None, "a"])).tolist() == [-1, 0]


def test_zero_is_found_whatever_its_sign():
    assert Vocabulary(pl.Series([0.0, 1.0])).numbers(pl.Series([-0.0])).tolist() == [0]


def test_an_id_costs_twelve_bytes_more():
    index = HashIndex.of(pl.Series(range(1000)))
    assert sum(array.nbytes for array in index) == 12 * 1000


def test_one_id_of_many_is_found_without_joining_all(monkeypatch):
    vocabulary = Vocabulary(pl.Series(range(100_000)))
    monkeypatch.setattr(pl.DataFrame, "join", None)
    assert [vocabulary.number(value) for value in (99_999, 0, 100_000)] == [99_999, 0, -1]


def test_lookups_on_several_threads_at_once_agree():
    vocabulary = Vocabulary(pl.Series([f"user {n}" for n in range(50_000)]))
    wanted = range(0, 50_000, 500)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: vocabulary.number(f"user {n}"), wanted))
    assert found == list(wanted)


def test_only_the_ids_are_pickled():
    vocabulary = Vocabulary(pl.Series(range(1000)))
    before = len(pickle.dumps(vocabulary))
    assert vocabulary.number(7) == 7
    assert len(pickle.dumps(vocabulary)) == before
    assert pickle.loads(pickle.dumps(vocabulary)).number(7) == 7


@pytest.mark.parametrize("values", [
    pl.Series([{"a": 1, "b": "x"}, {"a": 2, "b": None}]),
    pl.Series([[1, 2], [3]]),
])  # fmt: skip
def test_nested_values_are_found_too(values):
    assert Vocabulary(values).numbers(values[::-1]).tolist() == [1, 0]
