"""Coordinate updates against brute force, draws against posteriors known in closed form."""

import numpy as np
import pytest
import scipy  # loads its parts when they are used

from fmpair.arrays import Rows
from fmpair.solvers import anova, pointwise
from fmpair.solvers.anova import Machine
from fmpair.solvers.pointwise import Examples, Penalties, expected, truncated

EDGES = np.array([0, 4, 7, 12])  # users, items, and a field with several values a row
FEATURES = int(EDGES[-1])


def problem(rng, count=40, binary=False):
    """Rows of a user, an item and two values of the field."""
    columns = [
        [rng.integers(0, 4), rng.integers(4, 7), *np.sort(rng.permutation(5)[:2] + 7)]
        for _ in range(count)
    ]
    rows = Rows(
        np.arange(count + 1) * 4, np.concatenate(columns).astype(np.int32),
        rng.uniform(0.2, 1.5, 4 * count).astype(np.float32),
    )  # fmt: skip
    target = rng.choice([-1.0, 1.0], count) if binary else rng.normal(3, 1, count)
    return Examples(rows, target, EDGES, binary)


def penalties(strength=0.7):
    return Penalties(np.full(FEATURES, strength / 2), np.full(FEATURES, strength))


def objective(machine, examples, held):
    """What ALS brings down: squared errors and what regularisation adds."""
    error = anova.predict(machine, examples.rows) - examples.target
    squares = held.linear @ machine.linear**2 + held.vectors @ (machine.pairs**2).sum(axis=1)
    return error @ error + squares


def best_of_a_parabola(f):
    """Where a quadratic function of one number is least, from three of its values."""
    low, mid, high = f(-1.0), f(0.0), f(1.0)
    return (low - high) / (2 * (low - 2 * mid + high))


def one_by_one(machine, examples, held):
    """A pass of ALS by brute force: every number in turn to where the objective is least."""
    linear, pairs = machine.linear.copy(), machine.pairs.copy()
    bias = machine.bias + best_of_a_parabola(
        lambda d: objective(
            Machine(machine.bias + d, linear, pairs, machine.triples), examples, held
        )
    )
    tables = [linear, *pairs.T]  # views: what moves in them moves in the machine
    now = Machine(bias, linear, pairs, machine.triples)
    for table in tables:
        for j in range(FEATURES):
            old = table[j]

            def at(change, table=table, j=j, old=old):
                table[j] = old + change
                return objective(now, examples, held)

            table[j] = old + best_of_a_parabola(at)
    return now


def test_a_pass_of_als_puts_every_number_where_the_objective_is_least():
    rng = np.random.default_rng(0)
    examples, held = problem(rng), penalties()
    machine = anova.start(FEATURES, 2, 2, 0.5, rng)
    chain = pointwise.begin_chain(examples, machine, held, None, 1)
    pointwise.iterate(chain)
    expected = one_by_one(machine, examples, held)
    for ours, theirs in zip(pointwise.machine_of(chain), expected):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)


def test_als_never_goes_uphill():
    rng = np.random.default_rng(1)
    examples, held = problem(rng), penalties()
    chain = pointwise.begin_chain(examples, anova.start(FEATURES, 3, 2, 0.5, rng), held, None, 1)
    values = []
    for _ in range(20):
        pointwise.iterate(chain)
        values.append(objective(pointwise.machine_of(chain), examples, held))
    assert (np.diff(values) <= 1e-9).all() and values[-1] < values[0]


def test_features_without_examples_fall_to_zero_under_als():
    rng = np.random.default_rng(2)
    examples = problem(rng)
    kept = examples.rows.take(np.flatnonzero(examples.rows.column[::4] != 0))
    target = examples.target[examples.rows.column[::4] != 0]
    examples = Examples(kept, target, EDGES, False)
    chain = pointwise.begin_chain(
        examples, anova.start(FEATURES, 2, 2, 0.5, rng), penalties(), None, 1
    )
    pointwise.iterate(chain)
    assert not pointwise.machine_of(chain).pairs[0].any()


@pytest.mark.parametrize("learner", ["als", "mcmc"])
@pytest.mark.parametrize("binary", [False, True])
def test_no_number_depends_on_the_number_of_threads(learner, binary):
    def after_five(threads):
        rng = np.random.default_rng(5)
        examples = problem(rng, 300, binary)
        machine = anova.start(FEATURES, 3, 2, 0.3, rng)
        draws = rng if learner == "mcmc" else None
        chain = pointwise.begin_chain(examples, machine, penalties(), draws, threads)
        for _ in range(5):
            pointwise.iterate(chain)
        pointwise.finish(chain)
        return pointwise.machine_of(chain)

    for one, four in zip(after_five(1), after_five(4)):
        assert np.array_equal(one, four)


def test_draws_of_linear_terms_have_the_posterior_known_in_closed_form(monkeypatch):
    """Bayesian linear regression with fixed precisions: the posterior is normal.

    Bias and one term: the joint precision is alpha X'X + diag(0, lambda).
    """
    rng = np.random.default_rng(0)
    count, alpha, precision = 30, 2.0, 3.0
    x = rng.normal(size=count).astype(np.float32)
    target = 1.5 - 0.8 * x + rng.normal(size=count) / np.sqrt(alpha)
    rows = Rows(np.arange(count + 1), np.zeros(count, np.int32), x)
    examples = Examples(rows, target, np.array([0, 1]), False)
    design = np.column_stack([np.ones(count), x.astype(float)])
    joint = alpha * design.T @ design + np.diag([0, precision])
    mean = np.linalg.solve(joint, alpha * design.T @ target)
    covariance = np.linalg.inv(joint)
    monkeypatch.setattr(pointwise, "_draw_prior", lambda *_: None)
    monkeypatch.setattr(pointwise, "_draw_noise", lambda *_: None)
    start = Machine(0.0, np.zeros(1), np.zeros((1, 0)), np.zeros((1, 0)))
    chain = pointwise.begin_chain(
        examples, start, Penalties(np.full(1, precision), np.zeros(1)), rng, 1
    )
    chain.noise_precision = alpha
    draws = []
    for _ in range(20_000):
        pointwise.iterate(chain)
        draws.append((chain.bias, chain.linear[0]))
    np.testing.assert_allclose(np.mean(draws, axis=0), mean, atol=0.01)
    np.testing.assert_allclose(np.cov(np.transpose(draws)), covariance, atol=0.002)


def test_the_noise_of_the_data_is_found():
    rng = np.random.default_rng(0)
    examples = problem(rng, 2000)
    true = anova.start(FEATURES, 2, 2, 0.7, rng)
    target = anova.predict(true, examples.rows) + 0.5 * rng.normal(size=2000)
    examples = examples._replace(target=target)
    chain = pointwise.begin_chain(
        examples, anova.start(FEATURES, 2, 2, 0.1, rng), penalties(), rng, 1
    )
    found = []
    for number in range(200):
        pointwise.iterate(chain)
        if number >= 100:
            found.append(chain.noise_precision)
    assert np.mean(found) == pytest.approx(1 / 0.25, rel=0.1)


def test_the_mean_and_spread_of_a_group_are_found():
    """Many features with many examples each: the hyper-parameters are those of the truth."""
    rng = np.random.default_rng(0)
    features, each = 400, 20
    true = rng.normal(2.0, 0.5, features)
    column = np.repeat(np.arange(features), each).astype(np.int32)
    count = len(column)
    rows = Rows(np.arange(count + 1), column, np.ones(count, np.float32))
    examples = Examples(rows, true[column] + rng.normal(size=count), np.array([0, features]), False)
    start = Machine(0.0, np.zeros(features), np.zeros((features, 0)), np.zeros((features, 0)))
    held = Penalties(np.ones(features), np.ones(features))
    chain = pointwise.begin_chain(examples, start, held, rng, 1)
    centre, spread = [], []
    for number in range(400):
        pointwise.iterate(chain)
        if number >= 100:
            centre.append(chain.bias + chain.mean[0, 0])  # only their sum is in the data
            spread.append(1 / np.sqrt(chain.precision[0, 0]))
    assert np.mean(centre) == pytest.approx(2.0, abs=0.1)
    assert np.mean(spread) == pytest.approx(0.5, abs=0.06)


SCORES = (-6.0, -1.0, 0.0, 0.3, 2.0, 8.0)


@pytest.mark.parametrize("target", [-1.0, 1.0])
@pytest.mark.parametrize("score", SCORES)
def test_draws_are_normal_about_the_score_on_the_side_of_the_target(score, target):
    count = 20_000
    rng = np.random.default_rng(0)
    draws = truncated(np.full(count, score), np.full(count, target), rng)
    assert (draws * target >= 0).all()
    bounds = (-score, np.inf) if target > 0 else (-np.inf, -score)
    law = scipy.stats.truncnorm(*bounds, loc=score)
    assert scipy.stats.kstest(draws, law.cdf).pvalue > 1e-3


@pytest.mark.parametrize("target", [-1.0, 1.0])
def test_expected_values_are_the_means_of_the_same_distributions(target):
    scores = np.array(SCORES)
    found = expected(scores, np.full(len(scores), target))
    bounds = [(-s, np.inf) if target > 0 else (-np.inf, -s) for s in scores]
    means = [scipy.stats.truncnorm(*b, loc=s).mean() for b, s in zip(bounds, scores)]
    np.testing.assert_allclose(found, means, rtol=1e-6)


def test_a_score_far_on_the_wrong_side_is_still_answered():
    far = expected(np.array([-200.0, 200.0]), np.array([1.0, -1.0]))
    np.testing.assert_allclose(far, [1 / 200, -1 / 200], rtol=1e-6)
    assert (truncated(np.array([-200.0]), np.ones(1), np.random.default_rng(0)) > 0).all()
