"""Biases that stand among the factors are found; scores stay the same up to a user's constant."""

import numpy as np

from fmpair.bridges.adapter import without_constants
from fmpair.testing import two_tastes


def test_the_column_that_meets_a_one_of_every_user_is_the_items_bias():
    data, rng = two_tastes(), np.random.default_rng(0)
    users, items = rng.normal(size=(40, 3)), rng.normal(size=(20, 3))
    users[:, 1] = 1
    vectors, others, bias = without_constants(data, users, items)
    assert vectors.shape == (40, 2) and others.shape == (20, 2)
    np.testing.assert_allclose(bias, items[:, 1], rtol=1e-6)
    np.testing.assert_allclose(vectors @ others.T + bias, users @ items.T, atol=1e-5)


def test_the_users_own_bias_is_dropped_since_it_changes_no_ranking():
    data, rng = two_tastes(), np.random.default_rng(0)
    users, items = rng.normal(size=(40, 3)), rng.normal(size=(20, 3))
    items[:, 2] = 1
    vectors, others, bias = without_constants(data, users, items)
    apart = users @ items.T - (vectors @ others.T + bias)
    np.testing.assert_allclose(apart, np.repeat(users[:, 2:], 20, axis=1), atol=1e-5)


def test_factors_without_constants_stay_as_they_are():
    rng = np.random.default_rng(0)
    users, items = rng.normal(size=(40, 3)), rng.normal(size=(20, 3))
    vectors, others, bias = without_constants(two_tastes(), users, items)
    assert np.allclose(vectors, users) and np.allclose(others, items) and not bias.any()
