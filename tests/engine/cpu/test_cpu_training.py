"""What the CPU engine keeps beside the contract: accumulators, copies of shared tables."""

import numpy as np
import pytest
from engine.problems import parameters_of, problem_of, settings_of

from fmpair.engine import cpu, reference
from fmpair.engine.contract import L2Scale

SOFTMAX = {"loss": "softmax", "n_negatives": 4}


@pytest.mark.parametrize("parts", ["", "cua"])
@pytest.mark.parametrize("blocks", [1, 3])
def test_accumulators_are_those_of_the_reference(parts, blocks):
    problem = problem_of(parts, events=60, weights=True, known=blocks == 3)
    settings = settings_of(blocks=blocks, optimizer="adagrad", **SOFTMAX)
    slow, fast = (e.begin(problem, parameters_of(problem), settings) for e in (reference, cpu))
    for number in (1, 2, 3):
        slow.epoch(number, 0.05), fast.epoch(number, 0.05)
    wanted = slow.accumulators
    ids = wanted.users[fast.order.user_at], wanted.items[fast.order.item_at]
    found = fast.accumulators
    ours = found.users, found.items, found.query[0], found.features[0]
    for theirs, own in zip((*ids, wanted.query, wanted.features), ours):
        np.testing.assert_allclose(own, theirs, rtol=1e-3)


def test_l2_scales_of_one_change_nothing():
    problem = problem_of("", users=60, items=80, events=2000)
    ones = L2Scale(np.ones(problem.users, np.float32), np.ones(problem.items, np.float32))
    results = []
    for scale in (None, ones):
        settings = settings_of(l2_scale=scale, loss="hinge")
        training = cpu.begin(problem, parameters_of(problem), settings)
        training.epoch(1, 0.05)
        results.append(training.snapshot())
    for wanted, got in zip(*results):
        np.testing.assert_allclose(got, wanted, atol=1e-5)


@pytest.mark.parametrize("parts", ["c", "cua"])
def test_all_copies_of_a_shared_table_are_equal_between_rounds(parts):
    problem = problem_of(parts)
    training = cpu.begin(problem, parameters_of(problem), settings_of(blocks=3))
    training.epoch(1, 0.05)
    assert len(training.query.table) == 3
    for copies in (training.query, training.features):
        for table in copies.table[1:] if copies else ():
            np.testing.assert_array_equal(table, copies.table[0])
