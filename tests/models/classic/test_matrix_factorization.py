"""Implicit ALS against its objective, written out over all pairs."""

from itertools import pairwise

import numpy as np
import pytest

from fmpair.arrays import group_rows
from fmpair.data.synthetic import make
from fmpair.errors import OptionError, TrainingError
from fmpair.models import ImplicitALS, PureSVD
from fmpair.solvers.linear_algebra import solve, squared_error
from fmpair.testing import two_tastes

DATA = two_tastes()


def problem(seed=0, rows=7, columns=11, factors=3):
    rng = np.random.default_rng(seed)
    weight = np.where(rng.random((rows, columns)) < 0.4, rng.random((rows, columns)) * 5, 0)
    weight[2] = 0
    owner, column = np.nonzero(weight)
    sparse = group_rows(owner, column, rows, weight[owner, column])
    fixed = rng.standard_normal((columns, factors)).astype(np.float32)
    moved = rng.standard_normal((rows, factors)).astype(np.float32)
    return weight, sparse, fixed, moved, rng.random(rows).astype(np.float32) + 0.5


def test_enough_steps_solve_the_normal_equations():
    weight, sparse, fixed, moved, strength = problem()
    wanted = [
        np.linalg.solve((fixed.T * (1 + w)) @ fixed + s * np.eye(3), fixed.T @ ((1 + w) * (w > 0)))
        for w, s in zip(weight, strength)
    ]
    solve(sparse, fixed, moved, strength, 10, 1)
    np.testing.assert_allclose(moved, wanted, rtol=1e-3, atol=1e-4)
    assert not moved[2].any(), "who has nothing gets nothing"


def test_the_error_is_that_over_all_pairs():
    weight, sparse, fixed, moved, _ = problem(1)
    wanted = ((1 + weight) * ((weight > 0) - moved @ fixed.T) ** 2).sum()
    assert squared_error(sparse, moved, fixed) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("frequency", [0.0, 1.0])
def test_the_objective_falls_with_every_epoch(frequency):
    recipe = ImplicitALS(factors=6, epochs=8, frequency=frequency, regularization=0.05)
    losses = [epoch.loss for epoch in recipe.train(DATA)]
    assert all(later < before + 1e-6 for before, later in pairwise(losses))
    assert losses[-1] < 0.9 * losses[0]


def test_an_epoch_that_is_past_gives_no_model():
    epochs = ImplicitALS(factors=2, epochs=2).train(DATA)
    first = next(epochs)
    first.recommender()
    next(epochs)
    with pytest.raises(TrainingError, match="epoch 1 is over"):
        first.recommender()


def test_the_best_epoch_on_held_out_events_is_kept():
    seen = []
    recipe = ImplicitALS(factors=4, epochs=6)
    recipe.fit(DATA, validation=0.2, patience=2, progress=seen.append)
    assert len(seen) <= 6 and all(epoch.value is not None for epoch in seen)


def test_rows_on_many_threads_give_the_same_bits():
    from fmpair.data.synthetic import make

    data = make(users=600, items=300, events=6000, seed=0).data
    one, three = (ImplicitALS(factors=5, epochs=2, threads=t).fit(data) for t in (1, 3))
    np.testing.assert_array_equal(one.item_vectors, three.item_vectors)
    np.testing.assert_array_equal(one.parameters.users, three.parameters.users)


def test_options_out_of_range_are_refused():
    for name, value in (("factors", 0), ("alpha", 0), ("regularization", -1), ("steps", 0)):
        with pytest.raises(OptionError, match=f"{name} must be"):
            ImplicitALS(**{name: value})


def test_scores_are_those_of_the_truncated_svd():
    data = make(users=60, items=40, events=900, seed=0).data
    had = np.zeros((len(data.users), len(data.items)))
    had[data.user, data.item] = 1
    left, values, right = np.linalg.svd(had, full_matrices=False)
    wanted = (left[:, :5] * values[:5]) @ right[:5]
    model = PureSVD(factors=5).fit(data)
    np.testing.assert_allclose(model.parameters.users @ model.item_vectors.T, wanted, atol=2e-3)


def test_what_cannot_fit_is_refused_before_it_is_begun():
    with pytest.raises(OptionError, match="PureSVD needs"):
        PureSVD(max_gb=1e-9).fit(make(users=20, items=20, events=100, seed=0).data)
