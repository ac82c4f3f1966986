"""The most similar against a sort of all."""

import warnings

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmpair import Popularity
from fmpair.errors import Notice
from fmpair.fitted.top_items import strongest

VALUES = st.lists(st.sampled_from([0.0, 0.25, 0.5, -1.0, np.nan]), min_size=1, max_size=30)


@given(VALUES, st.data())
def test_the_strongest_are_those_of_a_stable_sort(values, data):
    similarity = np.array(values, np.float32)
    number = data.draw(st.integers(0, len(values) - 1))
    n = data.draw(st.integers(1, 40))
    wanted = [at for at in np.argsort(-similarity, kind="stable") if at != number][:n]
    found, values = strongest(similarity, number, n)
    assert found.tolist() == wanted
    np.testing.assert_array_equal(values, similarity[wanted])


def test_a_user_who_has_interacted_with_all_items_is_named_as_the_reason_of_an_empty_list():
    events = {"user": ["ann"] * 3 + ["bob"], "item": ["x", "y", "z", "x"]}
    model = Popularity().fit(pl.DataFrame(events))
    said = "^1 of 2 lists are empty: their users have interacted with all items, so nothing is left"
    with pytest.warns(Notice, match=said):
        assert set(model.recommend(["ann", "bob"], 3)["user"]) == {"bob"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(model.recommend("ann", 3, exclude_seen=False)) == 3
        assert len(model.recommend("bob", 3)) == 2
