"""What is known of an id, renewed field by field."""

import numpy as np
import pytest

from fmpair.arrays import Rows, empty_rows
from fmpair.training.growth import renewed

FIELD = np.array([0, 0, 1, 1, 1])  # five features of two fields


def rows(*given):
    """Rows as mappings of column to value."""
    lengths = [len(row) for row in given]
    columns = [column for row in given for column in row]
    values = [value for row in given for value in row.values()]
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Rows(start, np.array(columns, np.int32), np.array(values, np.float32))


def mappings(given):
    return [
        dict(zip(given.column[a:b].tolist(), given.value[a:b].tolist()))
        for a, b in zip(given.start[:-1], given.start[1:])
    ]


def test_a_field_that_is_said_again_is_replaced_and_the_others_stay():
    old, new = rows({0: 1, 2: 1}, {1: 1, 3: 1}), rows({4: 1}, {})
    assert mappings(renewed(old, new, FIELD, False)) == [{0: 1, 4: 1}, {1: 1, 3: 1}]


def test_all_values_of_a_field_are_replaced_together():
    old, new = rows({0: 1, 2: 0.5, 3: 0.5}), rows({4: 1})
    assert mappings(renewed(old, new, FIELD, False)) == [{0: 1, 4: 1}]


def test_new_ids_have_what_is_said_of_them():
    old, new = rows({0: 1}), rows({}, {1: 1, 2: 1}, {})
    assert mappings(renewed(old, new, FIELD, False)) == [{0: 1}, {1: 1, 2: 1}, {}]


def test_rows_without_news_keep_their_order():
    old, new = rows({3: 1, 2: 2}, {0: 1}), rows({}, {1: 1})
    kept = renewed(old, new, FIELD, False)
    assert kept.column[:2].tolist() == [3, 2]


def test_without_features_nothing_is_there_to_renew():
    kept = renewed(empty_rows(2), empty_rows(5), np.zeros(0, np.int32), True)
    assert kept.size == 5 and not len(kept.column)


def test_where_rows_sum_to_one_a_renewed_field_keeps_its_part():
    old = rows({0: 0.5, 2: 0.25, 3: 0.25})
    [row] = mappings(renewed(old, rows({4: 1}), FIELD, True))
    assert row == pytest.approx({0: 0.5, 4: 0.5})


def test_where_rows_sum_to_one_a_field_that_joins_takes_its_part():
    [row] = mappings(renewed(rows({0: 1}), rows({4: 1}), FIELD, True))
    assert row == pytest.approx({0: 0.5, 4: 0.5})
