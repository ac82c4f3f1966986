"""AdaGrad, and l2_scales of every row's own: the engines agree, and what they promise holds."""

import numpy as np
import pytest
from engine.problems import parameters_of, problem_of, settings_of

from fmpair.engine.contract import LISTED, LOSSES, L2Scale, Parameters
from fmpair.engine.cpu import training as cpu
from fmpair.engine.cpu.optimizer import FIRST
from fmpair.engine.reference import training as reference
from fmpair.engine.reference.step import take_step
from fmpair.engine.reference.training import objective

LOSS = {loss: {"loss": loss, "n_negatives": 4 if loss in LISTED else 1} for loss in LOSSES}
COSINES = {f"{loss} of cosines": {**LOSS[loss], "temperature": 0.4} for loss in LISTED}
ADAGRAD = {kind: {"optimizer": "adagrad", **own} for kind, own in {**LOSS, **COSINES}.items()}


def l2_scale_of(problem, most=4.0):
    rng = np.random.default_rng(5)
    sizes = (problem.users, problem.items)
    return L2Scale(*(rng.uniform(0, most, size).astype(np.float32) for size in sizes))


def learn_with_both(problem, settings, rate=0.05):
    """(reference, CPU engine) after three epochs whose losses agree."""
    start = parameters_of(problem)
    slow, fast = (e.begin(problem, start, settings) for e in (reference, cpu))
    for number in (1, 2, 3):
        losses = [reference.epoch(slow, number, rate), cpu.epoch(fast, number, rate)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    return slow, fast


def assert_alike(slow, fast):
    for name, wanted, got in zip(Parameters._fields, reference.snapshot(slow), cpu.snapshot(fast)):
        np.testing.assert_allclose(got, wanted, atol=3e-5, err_msg=name)


@pytest.mark.parametrize("parts", ["", "cua"])
@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("kind", ADAGRAD)
def test_adagrad_learns_what_the_reference_learns(kind, blocks, parts):
    problem = problem_of(parts, events=60, weights=True, known=blocks == 3)
    slow, fast = learn_with_both(problem, settings_of(blocks=blocks, **ADAGRAD[kind]))
    assert_alike(slow, fast)
    users, items, query, features = fast.accumulators[0][:4]
    partitioned = (
        slow.accumulators.users[fast.partition.user_at],
        slow.accumulators.items[fast.partition.item_at],
    )
    for wanted, got in zip(
        (*partitioned, *slow.accumulators[2:4]), (users, items, query, features)
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-3)


@pytest.mark.parametrize("parts", ["", "cua"])
@pytest.mark.parametrize("kind", ["bpr", "softmax", "softmax of cosines"])
def test_pulls_hold_as_in_the_reference(kind, parts):
    problem = problem_of(parts, events=60, weights=True)
    settings = settings_of(blocks=3, l2_scale=l2_scale_of(problem), **{**LOSS, **COSINES}[kind])
    assert_alike(*learn_with_both(problem, settings))


def test_pulls_and_adagrad_go_together():
    problem = problem_of("", events=60)
    assert_alike(
        *learn_with_both(problem, settings_of(l2_scale=l2_scale_of(problem), **ADAGRAD["softmax"]))
    )


@pytest.mark.parametrize("parts", ["", "cua"])
@pytest.mark.parametrize("kind", ["bpr", "softmax", "softmax of cosines"])
def test_any_number_of_threads_gives_the_same_bits(kind, parts):
    problem = problem_of(parts, users=60, items=80, events=2000)
    start, results = parameters_of(problem), set()
    for threads in (1, 2, 4):
        settings = settings_of(blocks=4, threads=threads, **ADAGRAD[kind])
        state = cpu.begin(problem, start, settings)
        for number in (1, 2, 3):
            cpu.epoch(state, number, 0.05)
        results.add(b"".join(table.tobytes() for table in cpu.snapshot(state)))
    assert len(results) == 1


def test_a_step_is_divided_by_the_root_of_the_squares_so_far():
    problem = problem_of("")
    settings = settings_of(user=0.0, **ADAGRAD["bpr"])
    state = reference.begin(problem, parameters_of(problem), settings)
    reference.epoch(state, 1, 0.0)
    state.accumulators.users[:] = FIRST
    choice = next(reference._choices(state, 0, 0, 1))
    way = objective.ascent(state.parameters, choice, settings)["users", choice.u]
    before = state.parameters.users[choice.u].copy()
    take_step(state.parameters, choice, settings, 0.05, {}, state.accumulators)
    step = 0.05 / np.sqrt(FIRST + np.mean(way**2))
    np.testing.assert_allclose(state.parameters.users[choice.u], before + step * way)


def test_pulls_of_one_change_nothing():
    problem = problem_of("", users=60, items=80, events=2000)
    ones = L2Scale(np.ones(problem.users, np.float32), np.ones(problem.items, np.float32))
    results = []
    for l2_scale in (None, ones):
        state = cpu.begin(
            problem, parameters_of(problem), settings_of(l2_scale=l2_scale, **LOSS["hinge"])
        )
        cpu.epoch(state, 1, 0.05)
        results.append(cpu.snapshot(state))
    for wanted, got in zip(*results):
        np.testing.assert_allclose(got, wanted, atol=1e-5)


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
def test_no_pull_takes_more_of_a_row_than_there_is(optimizer):
    problem = problem_of("", events=60)
    settings = settings_of(
        l2_scale=l2_scale_of(problem, 1e6), optimizer=optimizer, **LOSS["softmax"]
    )
    slow, fast = learn_with_both(problem, settings)
    assert_alike(slow, fast)
    assert cpu.largest(fast) < 2


def test_a_frozen_table_does_not_move():
    problem = problem_of("")
    start = parameters_of(problem)
    settings = settings_of(item_rate=0.0, l2_scale=l2_scale_of(problem), **ADAGRAD["softmax"])
    state = cpu.begin(problem, start, settings)
    cpu.epoch(state, 1, 0.05)
    after = cpu.snapshot(state)
    assert not np.array_equal(after.users, start.users)
    np.testing.assert_array_equal(after.items, start.items)
    np.testing.assert_array_equal(after.item_bias, start.item_bias)
