"""The most similar against a sort of all."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

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
