"""Against scipy, and against answers worked out by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmpair.errors import DataError
from fmpair.evaluation.distributions import incomplete_beta, t_two_sided
from fmpair.evaluation.statistics import (
    bootstrap,
    effect_size,
    holm,
    randomisation_test,
    spread,
    t_test,
    wilcoxon,
)

stats = pytest.importorskip("scipy.stats")
special = pytest.importorskip("scipy.special")


def pairs(count, shift=0.2, digits=None):
    rng = np.random.default_rng(count)
    a, b = rng.normal(shift, 1, count), rng.normal(0, 1, count)
    return (a, b) if digits is None else (a.round(digits), b.round(digits))


@given(st.floats(0.5, 1e6), st.floats(0.5, 1e3), st.floats(0, 1))
def test_the_incomplete_beta_function_is_scipys(a, b, x):
    assert incomplete_beta(a, b, x) == pytest.approx(special.betainc(a, b, x), rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("freedom", [1, 2, 5, 30, 1000, 250_000])
def test_tails_of_t_are_scipys(freedom):
    for t in (0.0, 0.01, -1.0, 2.0, 5.0, 20.0):
        assert t_two_sided(t, freedom) == pytest.approx(2 * stats.t.sf(abs(t), freedom), rel=1e-7)


@pytest.mark.parametrize("count", [2, 5, 40, 3000])
def test_the_t_test_is_scipys(count):
    a, b = pairs(count)
    assert t_test(a, b) == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-7)


@pytest.mark.parametrize("digits", [None, 0])
@pytest.mark.parametrize("count", [20, 500])
def test_the_signed_rank_test_is_scipys(count, digits):
    a, b = pairs(count, digits=digits)
    theirs = stats.wilcoxon(a, b, zero_method="wilcox", correction=False, method="asymptotic")
    assert wilcoxon(a, b) == pytest.approx(theirs.pvalue, rel=1e-9)


def test_the_randomisation_test_is_exact_for_few_pairs():
    assert randomisation_test([1, 2, 3], [0, 0, 0]) == 2 / 8
    assert randomisation_test([1, -1, 0, 0], [0, 0, 0, 0]) == 1
    a, b = pairs(9)
    theirs = stats.permutation_test(
        (a, b), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=np.inf
    )
    assert randomisation_test(a, b) == pytest.approx(theirs.pvalue)


def test_the_randomisation_test_of_many_pairs_is_seeded_and_near_the_t_test():
    a, b = pairs(200)
    value = randomisation_test(a, b, seed=3)
    assert value == randomisation_test(a, b, seed=3)
    assert value == pytest.approx(t_test(a, b), abs=0.02)


def test_models_that_are_the_same_do_not_differ():
    same = [0.1, 0.5, 0.3]
    assert randomisation_test(same, same) == t_test(same, same) == wilcoxon(same, same) == 1
    assert effect_size(same, same) == 0


def test_holm_steps_down():
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]).tolist() == [1, 1]


def test_the_interval_holds_the_mean_and_narrows():
    values = np.random.default_rng(0).normal(1, 1, 400)
    low, high = bootstrap(values, seed=1)
    theirs = stats.norm.interval(0.95, values.mean(), stats.sem(values))
    assert (low, high) == pytest.approx(theirs, abs=0.02)
    assert bootstrap(values, seed=1) == (low, high)
    assert bootstrap(values, level=0.5, seed=1)[0] > low


def test_mean_deviation_and_effect():
    assert spread([1, 2, 3]) == (2, 1)
    assert math.isnan(spread([1]).sd)
    assert effect_size([1, 3], [0, 0]) == pytest.approx(2 / math.sqrt(2))


def test_values_that_cannot_be_paired_are_refused():
    with pytest.raises(DataError, match="2 and 3 values"):
        t_test([1, 2], [1, 2, 3])
    with pytest.raises(DataError, match="finite"):
        bootstrap([1, math.nan])
