"""Fields whose features occur together, as matrices."""

import numpy as np

from fmpair.arrays import Rows, starts
from fmpair.engine.contract import Groups
from fmpair.engine.item_side import dense_fields, split


def rows_of(*rows):
    """Rows that hold (column, value) pairs."""
    column, value = (np.array([pair[n] for row in rows for pair in row]) for n in (0, 1))
    lengths = np.array([len(row) for row in rows])
    return Rows(starts(lengths), column.astype(np.int32), value.astype(np.float32))


def groups_of(*sizes):
    """Fields with this many features each."""
    field = np.repeat(np.arange(len(sizes)), sizes)
    return Groups(*(field if name == "field" else None for name in Groups._fields))


VECTOR = [(0, 1), (1, 2)]


def test_a_vector_of_which_a_row_has_all_or_nothing_is_a_matrix():
    rows = rows_of(VECTOR, [], [(0, 3), (1, 4)])
    rest, dense = split(rows, dense_fields(groups_of(2), rows))
    assert rest.size == 3
    assert not len(rest.column)
    ((field, matrix),) = dense
    assert field == slice(0, 2)
    assert matrix.tolist() == [[1, 2], [0, 0], [3, 4]]


def test_values_beside_a_vector_stay_sparse():
    rows = rows_of([*VECTOR, (2, 1)], [(2, 1), (3, 1)], [(0, 3), (1, 4)])
    rest, dense = split(rows, dense_fields(groups_of(2, 2), rows))
    assert [field for field, _ in dense] == [slice(0, 2)]
    assert dense[0][1].tolist() == [[1, 2], [0, 0], [3, 4]]
    assert rest.start.tolist() == [0, 1, 3, 3]
    assert rest.column.tolist() == [2, 2, 3]


def test_lists_are_no_vectors():
    rows = rows_of([(0, 1)], VECTOR)
    assert dense_fields(groups_of(2), rows) == []
    assert split(rows, []) == (rows, [])
