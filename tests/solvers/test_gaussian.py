"""The Gaussian processes against their formulas written out, and slopes against differences."""

import numpy as np
import pytest

from fmpair.arrays import group_rows
from fmpair.solvers import gaussian
from fmpair.solvers.gaussian import (
    LONGEST,
    Descent,
    Latent,
    PointLayout,
    UserPairs,
    add_slopes,
    bytes_needed,
    epoch,
    likelihood,
    regress,
    scores,
)

ITEMS, FIELDS, VALUES, FACTORS = 6, 2, 3, 2
STEP = 1e-6


def kernel(left, right, scales):
    length, height, _ = np.exp(2 * scales)
    apart = ((left[:, None] - right[None]) ** 2).sum(axis=-1)
    return height * np.exp(-apart / (2 * length))


def plain_loss(points, scales):
    """All pairs and their mirrors, each an observation of its own."""
    n = len(points) // 2
    chosen, other = np.arange(n), n + np.arange(n)
    left, right = points[np.append(chosen, other)], points[np.append(other, chosen)]
    covariance = (
        kernel(left, left, scales) + kernel(right, right, scales)
        - kernel(left, right, scales) - kernel(right, left, scales)
    )  # fmt: skip
    covariance += np.exp(2 * scales[2]) * np.eye(2 * n)
    target = np.repeat([2.0, -2.0], n)
    log_determinant = np.linalg.slogdet(covariance)[1]
    return (log_determinant + target @ np.linalg.solve(covariance, target)) / 2


def differences(function, start):
    """The slope of a function at an array, by central differences."""
    out = np.empty(start.shape)
    for place in np.ndindex(start.shape):
        up, down = start.copy(), start.copy()
        up[place] += STEP
        down[place] -= STEP
        out[place] = (function(up) - function(down)) / (2 * STEP)
    return out


def problem(seed, users=3, pairs=5):
    """Few items and many pairs, so that items and situations are shared within and across pairs."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(4), FIELDS)
    column = ITEMS + np.tile(np.arange(FIELDS) * VALUES, 4) + rng.integers(VALUES, size=len(owner))
    situations = group_rows(owner, column, 4, rng.random(len(owner)) + 0.5)
    layout = PointLayout(situations, np.repeat([0, 1, 2], [ITEMS, VALUES, VALUES]).astype(np.int32))
    below = np.array([[ITEMS], [ITEMS - 1], [4]])
    item, ahead, situation = rng.integers(below, size=(3, users * pairs)).astype(np.int32)
    own = UserPairs(np.arange(users + 1) * pairs, item, (item + 1 + ahead) % ITEMS, situation)
    vectors = rng.standard_normal((len(layout.place), FACTORS))
    return Latent(vectors, 0.3 * rng.standard_normal((users, 3))), layout, own


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("pairs", [1, 5, 12])
def test_the_likelihood_is_that_of_all_pairs_and_their_mirrors(seed, pairs):
    rng = np.random.default_rng(seed)
    points, scales = rng.standard_normal((2 * pairs, 3)), 0.5 * rng.standard_normal(3)
    points[pairs] = points[0]  # a pair of one point with itself
    points[-1] = points[pairs // 2]  # a point in two pairs, on either side
    loss, by_points, by_scales = likelihood(points, scales)
    assert loss == pytest.approx(plain_loss(points, scales), rel=1e-9)
    wanted = differences(lambda moved: plain_loss(moved, scales), points)
    np.testing.assert_allclose(by_points, wanted, rtol=1e-5, atol=1e-6)
    wanted = differences(lambda moved: plain_loss(points, moved), scales)
    np.testing.assert_allclose(by_scales, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_the_slope_by_a_vector_is_summed_over_all_it_is_part_of(seed):
    latent, layout, pairs = problem(seed)

    def loss(vectors):
        return sum(
            plain_loss(layout.points(vectors, *pairs.of(user)), latent.scales[user])
            for user in range(3)
        )

    slope = np.zeros_like(latent.vectors)
    for user in range(3):
        points = layout.points(latent.vectors, *pairs.of(user))
        add_slopes(slope, layout, *pairs.of(user), likelihood(points, latent.scales[user])[1])
    np.testing.assert_allclose(slope, differences(loss, latent.vectors), rtol=1e-5, atol=1e-6)


def test_a_point_is_the_items_vector_beside_those_of_its_situation():
    latent, layout, _ = problem(0)
    situations = layout.situations.take(np.array([2]))
    point = layout.points(latent.vectors, np.array([4]), np.array([2]))[0]
    first, second = situations.value[:, None] * latent.vectors[situations.column]
    np.testing.assert_allclose(point, np.concatenate([latent.vectors[4], first, second]))


def test_scores_are_those_of_a_regression_on_labels():
    latent, layout, pairs = problem(1)
    weight = regress(latent, layout, pairs, 1)
    item = np.arange(ITEMS, dtype=np.int32)
    for user in range(3):
        scales = latent.scales[user]
        own = layout.points(latent.vectors, *pairs.of(user))
        covariance = kernel(own, own, scales) + np.exp(2 * scales[2]) * np.eye(len(own))
        wanted = np.linalg.solve(covariance, np.repeat([1.0, -1.0], len(own) // 2))
        mine = weight[2 * pairs.start[user] : 2 * pairs.start[user + 1]]
        np.testing.assert_allclose(mine, wanted, rtol=1e-7)
        asked = layout.points(latent.vectors, np.zeros(4, np.int32), np.arange(4))[:, FACTORS:]
        found = scores(latent.vectors[:ITEMS], asked, own, mine, scales)
        for situation in range(4):
            every = layout.points(latent.vectors, item, np.full(ITEMS, situation))
            np.testing.assert_allclose(
                found[situation], kernel(every, own, scales) @ wanted, rtol=1e-4, atol=1e-5
            )


def test_scores_are_the_same_however_many_numbers_are_held_at_a_time(monkeypatch):
    latent, layout, pairs = problem(1)
    weight = regress(latent, layout, pairs, 1)[: 2 * pairs.start[1]]
    own = layout.points(latent.vectors, *pairs.of(0))
    asked = layout.points(latent.vectors, np.zeros(4, np.int32), np.arange(4))[:, FACTORS:]
    given = latent.vectors[:ITEMS], asked, own, weight, latent.scales[0]
    whole = scores(*given)
    monkeypatch.setattr(gaussian, "NUMBERS_AT_ONCE", 1)  # one item after the other
    np.testing.assert_allclose(scores(*given), whole, rtol=1e-5, atol=1e-6)


def trained(threads, rate=1e-3, epochs=20, users=20):
    latent, layout, pairs = problem(2, users)
    speed = Latent(np.zeros_like(latent.vectors), np.zeros_like(latent.scales))
    descent = Descent(speed, rate, 0.9, threads)
    losses = [epoch(latent, descent, layout, pairs, np.arange(users)) for _ in range(epochs)]
    return latent, losses


def test_epochs_go_downhill_and_no_bit_depends_on_the_threads():
    one, losses = trained(1)
    more, again = trained(3)
    assert losses[-1] < 0.8 * losses[0]
    assert losses == again
    for ours, theirs in zip(one, more):
        np.testing.assert_array_equal(ours, theirs)


def test_the_first_step_is_the_slope_with_long_ones_shortened():
    before, layout, pairs = problem(3, users=1)
    before.vectors[:] *= 0.01  # all in one place, and little noise: a long slope
    before.scales[0, 2] = -3
    _, by_points, by_scales = likelihood(
        layout.points(before.vectors, *pairs.of(0)), before.scales[0]
    )
    assert np.linalg.norm(by_points) > LONGEST
    latent = Latent(before.vectors.copy(), before.scales.copy())
    speed = Latent(np.zeros_like(latent.vectors), np.zeros_like(latent.scales))
    epoch(latent, Descent(speed, 0.01, 0.9, 1), layout, pairs, np.arange(1))
    slope = np.zeros_like(latent.vectors)
    add_slopes(slope, layout, *pairs.of(0), by_points * LONGEST / np.linalg.norm(by_points))
    np.testing.assert_allclose(latent.vectors, before.vectors - 0.01 * slope)
    step = before.scales[0] - latent.scales[0]
    assert np.linalg.norm(step) == pytest.approx(0.01 * min(LONGEST, np.linalg.norm(by_scales)))


def test_memory_grows_with_the_square_of_the_pairs_and_with_the_threads():
    assert bytes_needed(2000, 1) == 4 * bytes_needed(1000, 1) == 2 * bytes_needed(1000, 2)
