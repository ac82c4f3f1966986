import numpy as np
import pytest
from scipy import stats

from fmpair.solvers.gibbs import expected, truncated

SCORES = (-6.0, -1.0, 0.0, 0.3, 2.0, 8.0)


@pytest.mark.parametrize("target", [-1.0, 1.0])
@pytest.mark.parametrize("score", SCORES)
def test_draws_are_normal_about_the_score_on_the_side_of_the_target(score, target):
    count = 20_000
    rng = np.random.default_rng(0)
    draws = truncated(np.full(count, score), np.full(count, target), rng)
    assert (draws * target >= 0).all()
    bounds = (-score, np.inf) if target > 0 else (-np.inf, -score)
    law = stats.truncnorm(*bounds, loc=score)
    assert stats.kstest(draws, law.cdf).pvalue > 1e-3


@pytest.mark.parametrize("target", [-1.0, 1.0])
def test_expected_values_are_the_means_of_the_same_distributions(target):
    scores = np.array(SCORES)
    found = expected(scores, np.full(len(scores), target))
    bounds = [(-s, np.inf) if target > 0 else (-np.inf, -s) for s in scores]
    means = [stats.truncnorm(*b, loc=s).mean() for b, s in zip(bounds, scores)]
    np.testing.assert_allclose(found, means, rtol=1e-6)


def test_a_score_far_on_the_wrong_side_is_still_answered():
    far = expected(np.array([-200.0, 200.0]), np.array([1.0, -1.0]))
    np.testing.assert_allclose(far, [1 / 200, -1 / 200], rtol=1e-6)
    assert (truncated(np.array([-200.0]), np.ones(1), np.random.default_rng(0)) > 0).all()
