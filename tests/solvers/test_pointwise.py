"""The machine against sums over all pairs and triples, and its steps against finite differences."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmpair.arrays import Rows, stack_rows
from fmpair.solvers import anova
from fmpair.solvers.anova import Machine
from fmpair.solvers.pointwise import Examples, Penalties, epoch, scores

FEATURES, FACTORS = 7, 3
STEP = 1e-6


def slopes_of(machine, column, value):
    """df/d(parameter) at one row, for its features: [entries] and [entries, factors]."""
    x = value.astype(np.float64)[:, None]
    z = x * machine.pairs[column]
    pairs = x * (z.sum(axis=0) - z)
    z = x * machine.triples[column]
    others, squares = z.sum(axis=0) - z, (z * z).sum(axis=0) - z * z
    return anova.Machine(1.0, x[:, 0], pairs, x * 0.5 * (others * others - squares))


def random_rows(rng, count):
    """Rows of one to five features with values of both signs."""
    chosen = [np.sort(rng.permutation(FEATURES)[: rng.integers(1, 6)]) for _ in range(count)]
    start = np.cumsum([0, *map(len, chosen)])
    value = rng.uniform(-2, 2, start[-1]).astype(np.float32)
    return Rows(start, np.concatenate(chosen).astype(np.int32), value)


def random_machine(rng, order):
    machine = anova.start(FEATURES, FACTORS, order, 0.5, rng)
    return machine._replace(bias=rng.normal(), linear=rng.normal(size=FEATURES))


def spelled_out(machine, rows):
    """The score by its definition: all features, all pairs, all triples."""
    out = []
    for first, last in zip(rows.start[:-1], rows.start[1:]):
        x, column = rows.value[first:last].astype(float), rows.column[first:last]
        total = machine.bias + x @ machine.linear[column]
        for table, order in ((machine.pairs, 2), (machine.triples, 3)):
            z = x[:, None] * table[column]
            total += sum(
                z[list(set_)].prod(axis=0).sum() for set_ in combinations(range(len(x)), order)
            )
        out.append(total)
    return np.array(out)


def loss_of(score, target, binary):
    return np.log1p(np.exp(-target * score)) if binary else 0.5 * (score - target) ** 2


def with_number(machine, place, change):
    """A copy with one number of one table changed; place: (table, index)."""
    name, index = place
    if name == "bias":
        return machine._replace(bias=machine.bias + change)
    table = getattr(machine, name).copy()
    table[index] += change
    return machine._replace(**{name: table})


def places_of(machine):
    for name in Machine._fields:
        for index in np.ndindex(np.shape(getattr(machine, name))):
            yield name, index


@given(st.integers(0, 10_000), st.sampled_from([2, 3]))
def test_a_score_is_the_sum_over_all_pairs_and_triples(seed, order):
    rng = np.random.default_rng(seed)
    machine, rows = random_machine(rng, order), random_rows(rng, 5)
    expected = spelled_out(machine, rows)
    np.testing.assert_allclose(anova.predict(machine, rows), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(scores(machine, rows), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_a_step_follows_the_finite_differences_of_the_loss(seed, order, binary):
    rng = np.random.default_rng(seed)
    machine, rows = random_machine(rng, order), random_rows(rng, 1)
    target = np.array([rng.choice([-1.0, 1.0]) if binary else rng.normal()])
    edges = np.array([0, FEATURES])
    none = Penalties(np.zeros(FEATURES), np.zeros(FEATURES))
    copy = Machine(machine.bias, *(table.copy() for table in machine[1:]))
    moved, loss = epoch(Examples(rows, target, edges, binary), copy, none, 1.0, np.zeros(1, int))
    assert loss == pytest.approx(loss_of(scores(machine, rows), target, binary)[0])
    for name, index in places_of(machine):
        ahead, behind = (
            loss_of(scores(with_number(machine, (name, index), change), rows), target, binary)[0]
            for change in (STEP, -STEP)
        )
        step = np.asarray(getattr(machine, name))[index] - np.asarray(getattr(moved, name))[index]
        assert step == pytest.approx((ahead - behind) / (2 * STEP), abs=1e-5), (name, index)


@given(st.integers(0, 10_000), st.sampled_from([2, 3]))
def test_slopes_follow_the_finite_differences_of_the_score(seed, order):
    rng = np.random.default_rng(seed)
    machine, rows = random_machine(rng, order), random_rows(rng, 1)
    slopes = slopes_of(machine, rows.column, rows.value)
    for name in ("linear", "pairs", "triples"):
        found = getattr(slopes, name)
        for index in np.ndindex(found.shape):
            place = (name, (rows.column[index[0]], *index[1:]))
            ahead, behind = (
                anova.predict(with_number(machine, place, c), rows)[0] for c in (STEP, -STEP)
            )
            assert found[index] == pytest.approx((ahead - behind) / (2 * STEP), abs=1e-5)


@pytest.mark.parametrize("order", [2, 3])
def test_a_pass_takes_the_steps_that_the_slopes_say(order):
    rng = np.random.default_rng(3)
    machine, rows = random_machine(rng, order), random_rows(rng, 20)
    target, visits = rng.normal(size=20), rng.permutation(20)
    penalties = Penalties(rng.uniform(0, 0.3, FEATURES), rng.uniform(0, 0.3, FEATURES))
    plain = Machine(machine.bias, *(table.copy() for table in machine[1:]))
    for row in visits:
        one = rows.take(np.array([row]))
        error = anova.predict(plain, one)[0] - target[row]
        slopes = slopes_of(plain, one.column, one.value)
        held = (penalties.linear, penalties.vectors[:, None], penalties.vectors[:, None])
        for table, slope, pull in zip(plain[1:], slopes[1:], held):
            own = table[one.column]
            table[one.column] = own - 0.05 * (error * slope + pull[one.column] * own)
        plain = plain._replace(bias=plain.bias - 0.05 * error)
    examples = Examples(rows, target, np.array([0, FEATURES]), False)
    moved, _ = epoch(examples, machine, penalties, 0.05, visits)
    for ours, theirs in zip(moved, plain):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_the_loss_of_a_score_far_out_is_a_number():
    rows = Rows(np.array([0, 1]), np.zeros(1, np.int32), np.ones(1, np.float32))
    for bias, target, expected in ((1e4, -1.0, 1e4), (1e4, 1.0, 0.0), (-1e4, 1.0, 1e4)):
        machine = Machine(bias, np.zeros(1), np.zeros((1, 0)), np.zeros((1, 0)))
        examples = Examples(rows, np.array([target]), np.array([0, 1]), True)
        none = Penalties(np.zeros(1), np.zeros(1))
        _, loss = epoch(examples, machine, none, 0.1, np.zeros(1, int))
        assert loss == pytest.approx(expected)


@pytest.mark.parametrize("order", [2, 3])
def test_the_mean_of_machines_scores_the_mean_of_their_scores(order):
    rng = np.random.default_rng(0)
    machines, rows = [random_machine(rng, order) for _ in range(4)], random_rows(rng, 9)
    mean = np.mean([anova.predict(machine, rows) for machine in machines], axis=0)
    np.testing.assert_allclose(anova.predict(anova.mean_of(machines), rows), mean)


@given(st.integers(0, 10_000))
def test_triples_of_two_sides_come_together_from_their_halves(seed):
    rng = np.random.default_rng(seed)
    machine, rows = random_machine(rng, 3), random_rows(rng, 1)
    cut = len(rows.column) // 2
    sides = [
        Rows(np.array([0, len(part)]), rows.column[part], rows.value[part])
        for part in (np.arange(cut), np.arange(cut, len(rows.column)))
    ]
    (one, two), (other_one, other_two) = (anova.halves(machine.triples, side) for side in sides)
    across = (one * other_two + two * other_one).sum(axis=1)
    alone = anova.triples_of(machine.triples, stack_rows(*sides)).sum()
    whole = anova.triples_of(machine.triples, rows)
    np.testing.assert_allclose(across + alone, whole, rtol=1e-5, atol=1e-5)
