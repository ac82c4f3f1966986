"""Every loss of the reference engine: its gradients, by finite differences."""

import numpy as np
import pytest
from engine.problems import (
    choices_of,
    partitioned,
    problem_of,
    settings_of,
    triple_l2_of,
    with_triples,
    without_mirror,
)

from fmpair.engine.reference.objective import ascent, loss, take_step
from fmpair.engine.strata.field_regularisation import FIRST, first_accumulators

# Name -> settings: every loss, and the list-wise ones with cosines too.
KINDS = {
    "bpr": {"loss": "bpr"},
    "hinge": {"loss": "hinge"},
    "logistic": {"loss": "logistic"},
    "softmax": {"loss": "softmax", "n_negatives": 4},
    "softmax of cosines": {"loss": "softmax", "n_negatives": 4, "temperature": 0.4},
    "corrected softmax of cosines": {"loss": "softmax", "n_negatives": 4, "temperature": 0.4,
                                     "negative_sampler": "batch", "logq_correction": True},
    "corrected softmax": {"loss": "softmax", "n_negatives": 4, "logq_correction": True},
    "warp": {"loss": "warp", "n_negatives": 5},
    "warp of cosines": {"loss": "warp", "n_negatives": 5, "temperature": 0.4},
}  # fmt: skip


def first_choice(training, parts):
    """A step with negatives, and where there are attributes, with some on the positive item."""
    steps = choices_of(training)
    return next(c for c in steps if len(c.items) > 1 and ("a" not in parts or len(c.sides[0][0])))


@pytest.mark.parametrize("parts", ["", "c", "u", "a", "cua", "av"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_of_every_row_agrees_with_finite_differences(kind, parts):
    problem, settings = problem_of(parts), settings_of(**KINDS[kind])
    training = partitioned(problem, settings)
    choice, tables = first_choice(training, parts), training.tables
    for (name, row), way in ascent(tables, choice, settings).items():
        table = getattr(tables, name)
        for place in np.ndindex(table[row].shape) if table.ndim > 1 else [()]:
            kept, values = table[row, *place], []
            for step in (1e-6, -1e-6):
                table[row, *place] = kept + step
                values.append(loss(tables, choice, settings))
            table[row, *place] = kept
            slope = (values[1] - values[0]) / 2e-6
            assert slope == pytest.approx(np.asarray(way)[place], abs=1e-6), name


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("parts", ["", "c", "a", "cua"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_of_triples_agrees_with_finite_differences(kind, parts, apart):
    problem, settings = with_triples(problem_of(parts), apart=apart), settings_of(**KINDS[kind])
    if settings.temperature:
        problem = without_mirror(problem)
    settings = settings._replace(triples=triple_l2_of(problem))
    training = partitioned(problem, settings)
    choice, tables = first_choice(training, parts), training.tables
    for (name, row), way in ascent(tables, choice, settings, problem.triples).items():
        table = getattr(tables, name)
        for place in np.ndindex(table[row].shape) if table.ndim > 1 else [()]:
            kept, values = table[row, *place], []
            for step in (1e-6, -1e-6):
                table[row, *place] = kept + step
                values.append(loss(tables, choice, settings, problem.triples))
            table[row, *place] = kept
            slope = (values[1] - values[0]) / 2e-6
            assert slope == pytest.approx(np.asarray(way)[place], abs=1e-6), name


def test_adagrad_divides_a_step_by_the_root_of_the_squares_so_far():
    problem = problem_of("")
    settings = settings_of(user=0.0, optimizer="adagrad")
    training = partitioned(problem, settings)
    tables, choice = training.tables, next(choices_of(training))
    way = ascent(tables, choice, settings)["users", choice.u]
    before = tables.users[choice.u].copy()
    accumulators = first_accumulators(tables, settings, np.float64)
    take_step(tables, choice, settings, 0.05, {}, accumulators)
    step = 0.05 / np.sqrt(FIRST + np.mean(way**2))
    np.testing.assert_allclose(tables.users[choice.u], before + step * way)


def test_warp_weighs_an_item_that_ranks_too_high_more_the_sooner_it_is_found():
    training = partitioned(problem_of("", items=40), settings_of(loss="warp", n_negatives=9))
    weights = {c.warp_weight for c in choices_of(training) if len(c.items) > 1}
    assert max(weights) == 1.0
    assert 0 < min(weights) < 0.9
