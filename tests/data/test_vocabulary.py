"""Ids of any type go in and come out unchanged."""

import datetime as dt

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmpair.data.vocabulary import Vocabulary
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
