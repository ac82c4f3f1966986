"""Arrays are held against a table of what they must be."""

import numpy as np
import pytest

from fmpair.arrays import Rows
from fmpair.errors import ModelFileError
from fmpair.fitted.file_checks import (
    Numbers,
    check,
    largest,
    longest,
    reach,
    refuse_overflow,
    sparse,
)

ROWS = {
    "r.start": np.array([0, 2, 2, 4]),
    "r.column": np.array([4, 1, 1, 0]),
    "r.value": np.array([1.0, -2.0, 3.0, 0.5]),
}


def test_arrays_come_as_kernels_take_them():
    found = check(ROWS, sparse("r", 3, 5))
    assert {name: array.dtype.name for name, array in found.items()} == {
        "r.start": "int64", "r.column": "int32", "r.value": "float32",
    }  # fmt: skip
    for name, array in ROWS.items():
        np.testing.assert_array_equal(found[name], array)


def test_rows_in_any_order_are_welcome_and_repeats_are_not():
    """Row 0 falls, rows 0 and 2 share a column, row 1 is empty."""
    check(ROWS, sparse("r", 3, 5))
    for column in ([4, 4, 1, 0], [4, 1, 0, 0]):
        with pytest.raises(ModelFileError, match=r"'r\.column' has a value twice in one row"):
            check({**ROWS, "r.column": np.array(column)}, sparse("r", 3, 5))


def test_no_rows_and_no_entries_are_rows_too():
    nothing = {"r.column": np.zeros(0, np.int32), "r.value": np.zeros(0, np.float32)}
    check({"r.start": np.zeros(1, np.int64), **nothing}, sparse("r", 0, 0))
    check({"r.start": np.zeros(4, np.int64), **nothing}, sparse("r", 3, 0))


def test_a_size_left_open_is_the_same_everywhere():
    table = {"a": Numbers((2, "factors")), "b": Numbers((3, "factors"))}
    check({"a": np.zeros((2, 7)), "b": np.zeros((3, 7))}, table)
    with pytest.raises(ModelFileError, match=r"'b' has shape \[3, 6\], not \[3, 7\]"):
        check({"a": np.zeros((2, 7)), "b": np.zeros((3, 6))}, table)


def test_no_sum_of_products_goes_beyond_its_reach():
    rng = np.random.default_rng(0)
    rows = Rows(*(check(ROWS, sparse("r", 3, 5))[name] for name in ROWS))
    for _ in range(20):
        table = rng.normal(size=(5, 3))
        assert np.abs(rows.dot(table)).max() <= reach(rows, table)
    assert reach(rows, np.zeros((5, 0))) == 0
    assert longest(rows) == 6.0 and largest(rows.value) == 3.0
    assert largest(np.zeros(0)) == 0


def test_what_could_overflow_is_refused():
    refuse_overflow(1e30, 1e36)
    for most in (1e38, float("inf"), float("nan")):
        with pytest.raises(ModelFileError, match="scores would not be finite"):
            refuse_overflow(0.0, most)
