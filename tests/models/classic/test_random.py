import numpy as np
import pytest

from fmpair.errors import OptionError
from fmpair.models import Random
from fmpair.testing import two_tastes

DATA = two_tastes()


def scores(**options):
    return Random(**options).fit(DATA)(DATA.take(np.arange(0, len(DATA), 9)))  # each user once


def test_every_user_has_an_order_of_their_own_that_the_seed_fixes():
    table = scores(seed=3)
    assert np.array_equal(table, scores(seed=3))
    assert not np.array_equal(table, scores(seed=4))
    assert len(np.unique(table, axis=0)) == len(DATA.users)


def test_scores_do_not_depend_on_who_else_is_asked_for():
    model = Random().fit(DATA)
    assert model.recommend("u7").equals(model.recommend(["u3", "u7"])[10:])


def test_scores_are_spread_evenly():
    table = scores(seed=0)
    assert table.min() >= 0 and table.max() < 1
    assert abs(table.mean() - 0.5) < 0.05 and abs(table.std() - 12**-0.5) < 0.03


def test_a_seed_is_a_whole_number():
    with pytest.raises(OptionError, match="seed must be a whole number"):
        Random(seed=0.5)
