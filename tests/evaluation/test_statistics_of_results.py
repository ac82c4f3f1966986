"""Statistics against scipy and results worked out by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmpair.errors import DataError
from fmpair.evaluation.clusters import incomplete_beta, sum_by_user, t_quantile, t_two_sided
from fmpair.evaluation.statistics import (
    bootstrap,
    detectable,
    effect_size,
    holm,
    is_level,
    randomisation_test,
    spread,
    t_test,
    unpaired,
    wilcoxon,
)

scipy = pytest.importorskip("scipy")  # loads its parts when they are used


def pairs(count, shift=0.2, digits=None):
    rng = np.random.default_rng(count)
    a, b = rng.normal(shift, 1, count), rng.normal(0, 1, count)
    return (a, b) if digits is None else (a.round(digits), b.round(digits))


@given(st.floats(0.5, 1e6), st.floats(0.5, 1e3), st.floats(0, 1))
def test_the_incomplete_beta_function_is_scipys(a, b, x):
    assert incomplete_beta(a, b, x) == pytest.approx(
        scipy.special.betainc(a, b, x), rel=1e-7, abs=1e-9
    )


@pytest.mark.parametrize("freedom", [1, 2, 5, 30, 1000, 250_000])
def test_tails_of_t_are_scipys(freedom):
    for t in (0.0, 0.01, -1.0, 2.0, 5.0, 20.0):
        assert t_two_sided(t, freedom) == pytest.approx(
            2 * scipy.stats.t.sf(abs(t), freedom), rel=1e-7
        )


@pytest.mark.parametrize("freedom", [1, 2.5, 30, 9999, 1e9])
def test_quantiles_of_t_are_scipys(freedom):
    for chance in (0.001, 0.05, 0.4, 1.0):
        theirs = scipy.stats.t.isf(chance / 2, freedom)
        assert t_quantile(chance, freedom) == pytest.approx(theirs, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("count", [2, 5, 40, 3000])
def test_the_t_test_is_scipys(count):
    a, b = pairs(count)
    assert t_test(a, b) == pytest.approx(scipy.stats.ttest_rel(a, b).pvalue, rel=1e-7)


@pytest.mark.parametrize("digits", [None, 0])
@pytest.mark.parametrize("count", [20, 500])
def test_the_signed_rank_test_is_scipys(count, digits):
    a, b = pairs(count, digits=digits)
    theirs = scipy.stats.wilcoxon(a, b, zero_method="wilcox", correction=False, method="asymptotic")
    assert wilcoxon(a, b) == pytest.approx(theirs.pvalue, rel=1e-9)


def test_the_randomisation_test_is_exact_for_few_pairs():
    assert randomisation_test([1, 2, 3], [0, 0, 0]) == 2 / 8
    assert randomisation_test([1, -1, 0, 0], [0, 0, 0, 0]) == 1
    a, b = pairs(9)
    theirs = scipy.stats.permutation_test(
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
    theirs = scipy.stats.norm.interval(0.95, values.mean(), scipy.stats.sem(values))
    assert (low, high) == pytest.approx(theirs, abs=0.02)
    assert bootstrap(values, seed=1) == (low, high)
    assert bootstrap(values, level=0.5, seed=1)[0] > low


@pytest.mark.parametrize("shape", ["one list each", "many lists", "hits"])
def test_the_interval_of_thirty_users_covers_the_truth(shape):
    """Of 150 samples 95 % should; .91 is two standard deviations below. Percentiles have .88."""
    rng, inside, truths = np.random.default_rng(3), 0, {"hits": 0.2}
    gains = 1 / np.log2(np.arange(2, 12))
    for _ in range(150):
        users, size = np.arange(30), np.ones(30, int)
        if shape == "many lists":
            size = np.round(rng.lognormal(2, 0.7, 30)).clip(1).astype(int)
            users = np.repeat(users, size)
            values = (rng.random(len(users)) < np.repeat(rng.beta(2, 8, 30), size)).astype(float)
        else:
            values = (rng.random(30) < (0.2 if shape == "hits" else 0.3)).astype(float)
            values *= gains[rng.integers(0, 10, 30)] if shape == "one list each" else 1
        truth = truths.get(shape, 0.2 if shape == "many lists" else 0.3 * gains.mean())
        low, high = bootstrap(values, repeats=400, users=users)
        inside += low <= truth <= high
    assert inside / 150 >= 0.91


def test_lists_of_one_user_are_one_piece_of_evidence():
    # Ten users' differences, each seen in twenty lists, say no more than ten differences.
    a, b = pairs(10)
    users, twenty = np.repeat(np.arange(10), 20), np.repeat([a, b], 20, axis=1)
    for test in (randomisation_test, t_test, wilcoxon, effect_size):
        assert test(*twenty, users=users) == pytest.approx(test(a, b))
    assert detectable(*twenty, users=users) == pytest.approx(detectable(a, b))
    assert bootstrap(twenty[0], users=users) == pytest.approx(bootstrap(a))
    assert t_test(*twenty) < 0.2 * t_test(a, b)  # counted one by one they look like more


def test_the_mean_is_over_lists_also_where_users_have_more_or_fewer():
    values, users = [1, 0, 0, 0], ["a", "b", "b", "b"]
    low, high = bootstrap(values, users=users)
    assert low == 0 and high > 0.25 + 12 * 0.25  # two users say next to nothing
    assert randomisation_test(values, [0] * 4, users=users) == 1


def test_seeds_that_differ_as_much_as_the_models_leave_nothing_significant():
    rng = np.random.default_rng(5)
    a, b = rng.normal(0, 0.1, (2, 4, 300))
    seeds = np.array([0.00, 0.08, 0.02, 0.06])[:, None]
    assert t_test(a.mean(0) + 0.05, b.mean(0)) < 0.001  # over users alone
    moved = a + 0.01 + seeds, b
    for test in (randomisation_test, t_test, wilcoxon):
        assert 0.02 < test(*moved) < 0.2
    # Of two models with four seeds each, whose users hardly vary, Welch's t-test of the seeds.
    theirs = scipy.stats.ttest_ind(moved[0].mean(1), moved[1].mean(1), equal_var=False).pvalue
    assert t_test(*moved) == pytest.approx(theirs, abs=0.02)


def test_with_one_seed_the_variance_between_items_stands_in_for_that_between_seeds():
    rng = np.random.default_rng(6)
    items, users = np.tile(np.arange(8), 50), np.repeat(np.arange(50), 8)
    moved = np.tile(rng.normal(0, 0.1, 8), 50) + rng.normal(0, 0.01, 400)
    zero = np.zeros(400)
    assert t_test(moved, zero, users=users) < 0.01 < 0.2 < t_test(moved, zero, users, items)
    two = np.stack([moved, moved + 0.001])
    assert t_test(two, zero, users, items) == t_test(two, zero, users)  # seeds are known


@pytest.mark.slow
def test_what_is_detectable_is_found_in_four_of_five_experiments():
    rng = np.random.default_rng(7)
    least = 2.8 * 1.0 / math.sqrt(80)
    noise = rng.normal(0, 1, (200, 80))
    known = np.mean([detectable(row, 0 * row) for row in noise])
    assert known == pytest.approx(least, rel=0.03)
    found = np.mean([t_test(row + known, 0 * row) < 0.05 for row in noise])
    assert found == pytest.approx(0.8, abs=0.08)


def test_models_are_level_where_both_one_sided_tests_say_so():
    a, _ = pairs(400)
    near = a + np.random.default_rng(8).normal(0, 0.05, 400)
    assert is_level(a, near, margin=0.02)
    assert not is_level(a, near, margin=0.004)
    assert not is_level(a, near + 0.1, margin=0.02)
    half = scipy.stats.t.ppf(0.95, 399) * scipy.stats.sem(a - near) + abs((a - near).mean())
    assert is_level(a, near, half * 1.001) and not is_level(a, near, half * 0.999)
    assert is_level(a, a, margin=0.0)


def test_more_users_than_are_drawn_are_put_together_and_give_the_same():
    a, b = pairs(30_000, shift=0.01)
    assert randomisation_test(a, b) == pytest.approx(t_test(a, b), abs=0.03)
    theirs = scipy.stats.norm.interval(0.95, a.mean(), scipy.stats.sem(a))
    assert bootstrap(a) == pytest.approx(theirs, abs=5e-4)


def test_a_user_for_each_value_is_asked_for():
    with pytest.raises(DataError, match="users must have one entry per value, got 1 for 2"):
        bootstrap([1, 2], users=["a"])


def test_mean_deviation_and_effect():
    assert spread([1, 2, 3]) == (2, 1)
    assert math.isnan(spread([1]).sd)
    assert effect_size([1, 3], [0, 0]) == pytest.approx(2 / math.sqrt(2))


def test_values_that_cannot_be_paired_are_refused():
    with pytest.raises(DataError, match="cannot pair 2 values with 3"):
        t_test([1, 2], [1, 2, 3])
    with pytest.raises(DataError, match="finite"):
        bootstrap([1, math.nan])


def test_with_one_value_for_each_user_it_is_welchs_t():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.3, 1, 40), rng.normal(0, 3, 25)
    found = unpaired(sum_by_user(a), sum_by_user(b))
    expected = scipy.stats.ttest_ind(a, b, equal_var=False)
    interval = expected.confidence_interval()
    assert found.mean == pytest.approx(a.mean() - b.mean())
    assert found.p == pytest.approx(expected.pvalue, rel=1e-6)
    assert (found.low, found.high) == pytest.approx(tuple(interval), rel=1e-4)


def test_values_of_one_user_are_no_independent_evidence():
    values, users = np.repeat([0.0, 1.0, 1.0, 0.0], 50), np.repeat(np.arange(4), 50)
    alone, together = sum_by_user(values), sum_by_user(values, users)
    assert unpaired(together, together).high > 5 * unpaired(alone, alone).high


def test_equal_values_do_not_differ():
    same = sum_by_user([1.0, 1.0, 1.0])
    assert unpaired(same, same) == (0.0, 0.0, 0.0, 1.0)
    assert unpaired(same, sum_by_user([2.0, 2.0])).p == 0.0
