"""The reference engine is the definition: finite differences check it, the CPU engine follows."""

import numpy as np
import pytest
from engine.problems import parameters_of, problem_of, settings_of

from fmpair.engine.contract import Parameters
from fmpair.engine.cpu import training as cpu
from fmpair.engine.reference import training as reference
from fmpair.engine.reference.training import objective


@pytest.mark.parametrize("parts", ["", "c", "u", "a", "cua"])
def test_the_gradient_of_every_row_agrees_with_finite_differences(parts):
    problem = problem_of(parts)
    start = parameters_of(problem)
    state = reference.begin(problem, start, settings_of())
    reference.epoch(state, 1, 0.0)
    steps = reference._choices(state, 0, 0, 1)
    choice = next(c for c in steps if "a" not in parts or len(c.sides[0][0]))
    tables = state.parameters
    for (name, row), ascent in objective.ascent(tables, choice, state.settings).items():
        table = getattr(tables, name)
        for place in np.ndindex(table[row].shape) if table.ndim > 1 else [()]:
            where = (row, *place)
            kept, step = table[where], 1e-6
            table[where] = kept + step
            above = objective.loss(tables, choice, state.settings)
            table[where] = kept - step
            below = objective.loss(tables, choice, state.settings)
            table[where] = kept
            slope = np.asarray(ascent)[place]
            assert (below - above) / (2 * step) == pytest.approx(slope, abs=1e-6), name


@pytest.mark.parametrize("positives", ["permutation", "bootstrap", "user"])
@pytest.mark.parametrize("parts", ["", "c", "u", "a", "cua"])
@pytest.mark.parametrize("blocks", [1, 3])
def test_the_cpu_engine_learns_what_the_reference_learns(parts, blocks, positives):
    problem = problem_of(parts, weights=True, known=blocks == 3)
    start = parameters_of(problem)
    settings = settings_of(blocks=blocks, positives=positives)
    slow, fast = (e.begin(problem, start, settings) for e in (reference, cpu))
    for number in (1, 2, 3):
        losses = [reference.epoch(slow, number, 0.05), cpu.epoch(fast, number, 0.05)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    for name, wanted, got in zip(Parameters._fields, reference.snapshot(slow), cpu.snapshot(fast)):
        np.testing.assert_allclose(got, wanted, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("parts", ["", "cua"])
def test_any_number_of_threads_gives_the_same_bits(parts):
    problem = problem_of(parts, users=60, items=80, events=2000)
    start = parameters_of(problem)
    results = []
    for threads in (1, 2, 4):
        state = cpu.begin(problem, start, settings_of(blocks=4, threads=threads))
        for number in range(1, 5):
            cpu.epoch(state, number, 0.05)
        results.append(b"".join(table.tobytes() for table in cpu.snapshot(state)))
    assert len(set(results)) == 1


def test_a_frozen_table_does_not_move():
    problem = problem_of("cua")
    still = problem.query_groups._replace(centred=np.zeros(9, bool))
    problem = problem._replace(query_groups=still)
    start = parameters_of(problem)
    state = cpu.begin(problem, start, settings_of(item_rate=0.0, feature_rate=0.0))
    cpu.epoch(state, 1, 0.05)
    after = cpu.snapshot(state)
    assert not np.array_equal(after.users, start.users)
    for name in ("items", "item_bias", "query", "features", "feature_bias"):
        np.testing.assert_array_equal(getattr(after, name), getattr(start, name))
