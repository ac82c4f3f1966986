"""Every loss: its gradients, and the CPU engine beside the reference."""

import numpy as np
import pytest
from engine.problems import parameters_of, problem_of, settings_of

from fmpair.engine.contract import LOSSES, Parameters
from fmpair.engine.cpu import training as cpu
from fmpair.engine.reference import training as reference
from fmpair.engine.reference.training import objective

# Name -> settings: every loss, and the list-wise ones with cosines too.
KINDS = {
    "hinge": {"loss": "hinge"},
    "logistic": {"loss": "logistic"},
    "softmax": {"loss": "softmax", "n_negatives": 4},
    "softmax of cosines": {"loss": "softmax", "n_negatives": 4, "temperature": 0.4},
    "corrected softmax of cosines": {"loss": "softmax", "n_negatives": 4, "temperature": 0.4,
                                     "negative_sampler": "batch", "logq_correction": True},
    "warp": {"loss": "warp", "n_negatives": 5},
    "warp of cosines": {"loss": "warp", "n_negatives": 5, "temperature": 0.4},
}  # fmt: skip


def first_choice(state, parts):
    """A step with candidates, and where there are attributes, with some on the chosen item."""
    steps = reference._choices(state, 0, 0, 1)
    return next(c for c in steps if len(c.items) > 1 and ("a" not in parts or len(c.sides[0][0])))


@pytest.mark.parametrize("parts", ["", "cua"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_of_every_row_agrees_with_finite_differences(kind, parts):
    problem, settings = problem_of(parts), settings_of(**KINDS[kind])
    state = reference.begin(problem, parameters_of(problem), settings)
    reference.epoch(state, 1, 0.0)
    choice, tables = first_choice(state, parts), state.parameters
    for (name, row), ascent in objective.ascent(tables, choice, settings).items():
        table = getattr(tables, name)
        for place in np.ndindex(table[row].shape) if table.ndim > 1 else [()]:
            kept, ways = table[row, *place], []
            for step in (1e-6, -1e-6):
                table[row, *place] = kept + step
                ways.append(objective.loss(tables, choice, settings))
            table[row, *place] = kept
            slope = (ways[1] - ways[0]) / 2e-6
            assert slope == pytest.approx(np.asarray(ascent)[place], abs=1e-6), name


@pytest.mark.parametrize("parts", ["", "cua"])
@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_cpu_engine_learns_what_the_reference_learns(kind, blocks, parts):
    problem = problem_of(parts, events=60, weights=True, known=blocks == 3)
    start = parameters_of(problem)
    settings = settings_of(blocks=blocks, positives="bootstrap", **KINDS[kind])
    slow, fast = (e.begin(problem, start, settings) for e in (reference, cpu))
    for number in (1, 2):
        losses = [reference.epoch(slow, number, 0.05), cpu.epoch(fast, number, 0.05)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    for name, wanted, got in zip(Parameters._fields, reference.snapshot(slow), cpu.snapshot(fast)):
        np.testing.assert_allclose(got, wanted, atol=3e-5, err_msg=name)


@pytest.mark.parametrize("parts", ["", "cua"])
@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_threads_gives_the_same_bits(kind, parts):
    problem = problem_of(parts, users=60, items=80, events=2000)
    start, results = parameters_of(problem), set()
    for threads in (1, 2):
        state = cpu.begin(problem, start, settings_of(blocks=4, threads=threads, **KINDS[kind]))
        for number in (1, 2, 3):
            cpu.epoch(state, number, 0.05)
        results.add(b"".join(table.tobytes() for table in cpu.snapshot(state)))
    assert len(results) == 1


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_fall_as_the_engine_learns(loss):
    problem = problem_of("", users=60, items=80, events=2000)
    state = cpu.begin(problem, parameters_of(problem), settings_of(loss=loss, n_negatives=1))
    first, *_, last = [cpu.epoch(state, number, 0.05) for number in range(1, 11)]
    assert last < 0.95 * first


def test_warp_hurries_more_the_sooner_it_finds_an_item_that_ranks_too_high():
    problem = problem_of("", items=40)
    state = reference.begin(
        problem, parameters_of(problem), settings_of(loss="warp", n_negatives=9)
    )
    reference.epoch(state, 1, 0.0)
    urgencies = {c.warp_weight for c in reference._choices(state, 0, 0, 1) if len(c.items) > 1}
    assert max(urgencies) == 1.0
    assert 0 < min(urgencies) < 0.9


def test_a_list_takes_no_more_candidates_than_are_unseen():
    problem = problem_of("", items=6, events=40)
    settings = settings_of(loss="softmax", n_negatives=50)
    state = reference.begin(problem, parameters_of(problem), settings)
    reference.epoch(state, 1, 0.0)
    for choice in reference._choices(state, 0, 0, 1):
        had = set(problem.item[problem.user == choice.u].tolist())
        assert had.isdisjoint(choice.items[1:])
        assert len(set(choice.items)) == len(choice.items)
