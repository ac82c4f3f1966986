"""Sparse rows: known answers, and agreement with dense matrices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmpair import arrays
from fmpair.arrays import (
    Rows,
    add_repeats,
    distinct_pairs,
    empty_rows,
    group_rows,
    join_rows,
    stack_rows,
    starts,
)

WIDTH = 5
ENTRIES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, WIDTH - 1), st.integers(-4, 4)))


def rows_of(entries, count=4):
    """The entries, in any order, as rows; repeats stay apart."""
    owner, column, value = np.array(entries, np.int64).reshape(-1, 3).T
    return group_rows(owner, column, count, value)


def dense(rows):
    out = np.zeros((rows.size, WIDTH))
    for row in range(rows.size):
        for entry in range(rows.start[row], rows.start[row + 1]):
            out[row, rows.column[entry]] += rows.value[entry]
    return out


def assert_sound(rows):
    """The types that are promised, and starts that fit the entries."""
    assert (rows.start.dtype, rows.column.dtype, rows.value.dtype) == ("int64", "int32", "float32")
    assert rows.start[0] == 0 and rows.start[-1] == len(rows.column) == len(rows.value)
    assert (np.diff(rows.start) >= 0).all()


def test_starts_are_the_sums_of_what_came_before():
    assert starts(np.array([2, 0, 3])).tolist() == [0, 2, 2, 5]
    assert starts(np.zeros(0, np.int64)).tolist() == [0]


def test_entries_in_any_order_become_sorted_rows():
    rows = rows_of([(2, 4, 1), (0, 3, 2), (2, 1, 3)])
    assert_sound(rows)
    assert rows.start.tolist() == [0, 1, 1, 3, 3]
    assert rows.column.tolist() == [3, 1, 4] and rows.value.tolist() == [2, 3, 1]
    assert rows.owner.tolist() == [0, 2, 2]


def test_entries_without_values_count_as_one():
    rows = group_rows(np.array([1, 0]), np.array([2, 4]), 2)
    assert_sound(rows)
    assert rows.column.tolist() == [4, 2] and rows.value.tolist() == [1, 1]


def test_grouping_leaves_the_given_arrays_alone():
    owner, index = np.array([1, 0]), np.array([2, 4])
    group_rows(owner, index, 2)
    assert owner.tolist() == [1, 0] and index.tolist() == [2, 4]


def test_pairs_know_how_often_they_occur():
    user, item = np.array([1, 0, 1, 1], np.int32), np.array([7, 3, 2, 7], np.int32)
    rows = distinct_pairs(user, item, 3)
    assert_sound(rows)
    assert rows.start.tolist() == [0, 1, 3, 3]
    assert rows.column.tolist() == [3, 2, 7] and rows.value.tolist() == [1, 1, 2]


def test_the_largest_numbers_keep_their_order():
    most = np.iinfo(np.int32).max
    rows = distinct_pairs(np.array([1, 0, 1]), np.array([most, most, 0]), 2)
    assert rows.column.tolist() == [most, 0, most]


@pytest.mark.parametrize("count", [0, 3])
def test_rows_may_be_empty(count):
    none, nothing = empty_rows(count), np.zeros(0, np.int64)
    results = (
        none,
        add_repeats(none),
        distinct_pairs(nothing, nothing, count),
        join_rows([none, none]),
        none.take(np.arange(count)),
    )
    for rows in results:
        assert_sound(rows)
        assert rows.size == count and not len(rows.column)
    assert none.dot(np.ones((2, 4))).tolist() == [[0, 0, 0, 0]] * count


@given(ENTRIES)
def test_adding_repeats_changes_no_sum_and_leaves_each_column_once(entries):
    rows = rows_of(entries)
    once = add_repeats(rows)
    assert_sound(once)
    assert np.array_equal(dense(once), dense(rows))
    pairs = list(zip(once.owner.tolist(), once.column.tolist()))
    assert pairs == sorted({(owner, column) for owner, column, _ in entries})


@given(ENTRIES, st.lists(st.integers(0, 3)))
def test_taking_rows_is_taking_rows_of_the_dense_matrix(entries, wanted):
    rows = rows_of(entries)
    taken = rows.take(np.array(wanted, np.int64))
    assert_sound(taken)
    assert np.array_equal(dense(taken), dense(rows)[wanted])


@given(ENTRIES)
def test_dot_is_the_product_of_the_dense_matrix(entries):
    rows = rows_of(entries)
    table = np.arange(WIDTH * 3, dtype=np.float32).reshape(WIDTH, 3)
    assert rows.dot(table).dtype == np.float32
    assert np.array_equal(rows.dot(table), dense(rows) @ table)


@given(st.lists(ENTRIES, min_size=1, max_size=3))
def test_joined_rows_hold_the_entries_of_every_part_in_order(parts):
    rows = [rows_of(entries) for entries in parts]
    joined = join_rows(rows)
    assert_sound(joined)
    for row in range(4):
        expected = [c for part in rows for c in part.column[part.owner == row].tolist()]
        assert joined.column[joined.owner == row].tolist() == expected
    assert np.array_equal(dense(joined), sum(dense(part) for part in rows))


@given(st.lists(ENTRIES, min_size=1, max_size=3))
def test_stacked_rows_are_the_parts_one_below_the_other(parts):
    rows = [rows_of(entries) for entries in parts]
    stacked = stack_rows(*rows)
    assert_sound(stacked)
    assert np.array_equal(dense(stacked), np.vstack([dense(part) for part in rows]))


def test_a_row_is_read_by_its_slice():
    rows = Rows(np.array([0, 2]), np.array([1, 4], np.int32), np.array([0.5, 2], np.float32))
    assert rows.size == 1
    assert rows.dot(np.eye(5)).tolist() == [[0, 0.5, 0, 0, 2]]


def test_products_are_the_same_however_many_are_held_at_a_time(monkeypatch):
    rng = np.random.default_rng(0)
    for _ in range(30):
        lengths = rng.integers(0, 5, rng.integers(0, 12))
        start = starts(lengths)
        column = rng.integers(0, 7, start[-1]).astype(np.int32)
        rows = Rows(start, column, rng.normal(size=start[-1]).astype(np.float32))
        table = rng.normal(size=(7, rng.integers(0, 4))).astype(np.float32)
        whole = rows.dot(table)
        dense = np.zeros((rows.size, 7))
        np.add.at(dense, (rows.owner, column), rows.value)
        np.testing.assert_allclose(whole, dense @ table, rtol=1e-4, atol=1e-5)
        for most in (1, 3, 10):
            monkeypatch.setattr(arrays, "PRODUCTS", most)
            np.testing.assert_array_equal(rows.dot(table), whole)
            monkeypatch.undo()


def test_many_products_are_compiled_to_the_same_sums(monkeypatch):
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 5, 40)
    column = rng.integers(0, 9, lengths.sum()).astype(np.int32)
    rows = Rows(starts(lengths), column, rng.normal(size=len(column)).astype(np.float32))
    table = rng.normal(size=(9, 6)).astype(np.float32)
    monkeypatch.setattr(arrays, "MANY", 0)
    np.testing.assert_allclose(rows.dot(table), rows.plain_dot(table), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(rows.dot(table[:, ::2]), rows.plain_dot(table)[:, ::2], rtol=1e-5)
