"""Scores written out: what has none stands last, and what would not fit is refused."""

import numpy as np
import pytest

from fmpair.bridges import adapter
from fmpair.errors import OptionError
from fmpair.testing import two_tastes


def test_an_item_without_a_score_stands_below_all_others():
    nothing = [np.nan, np.nan, np.nan]
    scores = adapter.ScoreTable.of(np.array([[2, np.nan, -7], [-np.inf, 1, np.inf], nothing])).table
    assert scores.dtype == np.float32 and np.isfinite(scores).all()
    assert scores[0].tolist() == [2, -8, -7]
    assert scores[1].tolist() == [0, 1, 0]


def test_a_table_that_does_not_fit_is_refused_before_anything_is_learned(monkeypatch):
    monkeypatch.setattr(adapter, "memory", lambda: 1000)
    with pytest.raises(OptionError, match=r"cornac's EASE needs .* GB for 40 users and 20 items"):
        adapter.empty_table("cornac's EASE", two_tastes())


def test_a_table_that_fits_is_empty_at_first():
    empty = adapter.empty_table("it", two_tastes())
    assert empty.shape == (40, 20) and np.isnan(empty).all()
    assert adapter.memory() > 2**28
