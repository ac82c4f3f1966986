"""What workers have at the end of a round, brought into the driver's tables."""

import numpy as np
import pytest

from fmpair.engine.ray import exchange


@pytest.mark.parametrize("at_once", [3, 1 << 16])
def test_rows_get_to_their_places_by_any_number_of_threads(monkeypatch, at_once):
    monkeypatch.setattr(exchange, "AT_ONCE", at_once)
    rows = np.arange(40, dtype=np.float32).reshape(10, 4)
    rows.flags.writeable = False  # as what comes out of the object store
    places = np.array([7, 3, 12, 0, 5, 9, 1, 14, 2, 10], np.int32)
    table = np.full((15, 4), -1, np.float32)
    exchange._put_all(table, places, rows)
    np.testing.assert_array_equal(table[places], rows)
    others = np.setdiff1d(np.arange(15), places)
    assert (table[others] == -1).all()


def test_an_epoch_has_eight_checkpoints_where_it_has_that_many_rounds():
    assert [exchange.rounds_between_checkpoints(blocks) for blocks in (2, 8, 64)] == [1, 1, 8]
