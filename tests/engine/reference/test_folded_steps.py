"""Attributes that learn from sums: one step of theirs, and many summed up."""

import numpy as np
import pytest
from engine.problems import parameters_of, problem_of, settings_of

from fmpair.arrays import group_rows
from fmpair.engine import reference
from fmpair.engine.reference.draws import choices
from fmpair.engine.reference.folding import Folding
from fmpair.engine.reference.objective import ascent
from fmpair.engine.strata.partition import partition

RATE = 0.05
KINDS = {
    "softmax": {"loss": "softmax", "n_negatives": 4},
    "logistic": {"loss": "logistic", "n_negatives": 1, "dropout": 0.3},
    "softmax of cosines": {"loss": "softmax", "n_negatives": 4, "temperature": 0.4},
}


@pytest.mark.parametrize("kind", KINDS)
def test_one_step_moves_attributes_along_their_gradients(kind):
    problem, settings = problem_of("cua"), settings_of(**KINDS[kind])
    training = reference.begin(problem, parameters_of(problem), settings)
    training.partition = partition(training.events, 1, settings.seed, 1)
    own, shares = training.tables, training.feature_rates["features"]
    folding = Folding(training.cell(0, 0), own, settings, (RATE, shares), None)
    choice = next(iter(choices(training.cell(0, 0), 1, own)))
    wanted, features = ascent(own, choice, settings), own.features.copy()
    bias = own.feature_bias.copy()

    folded = next(iter(choices(folding.cell, 1, folding.tables)))
    assert folded.items == choice.items
    folding.steps = 1
    folding.note(folded)
    reference.training.take_step(folding.tables, folded, folding.settings, RATE, {})
    folding.pass_on()

    for f in range(len(features)):
        has = [dict(zip(*side)).get(f, 0.0) for side in choice.sides]
        assert np.allclose(own.features[f], features[f]) == (not any(has))
        if not any(has):
            continue
        due = min((has[0] > 0) + sum(x > 0 for x in has[1:]) / (len(has) - 1), 1)
        pull = wanted["features", f] - settings.features[f] * due * features[f]
        step = own.features[f] - features[f]
        length = step @ pull / (pull @ pull)
        np.testing.assert_allclose(step, length * pull, atol=1e-9)
        assert 0.5 * RATE * shares[f] < length < RATE * shares[f]
        if settings.has_bias:
            pull = wanted["feature_bias", f] - settings.features[f] * due * bias[f]
            assert own.feature_bias[f] - bias[f] == pytest.approx(length * pull)


def test_many_steps_summed_up_hold_each_other_back():
    """Half of all items have the attribute, and every user likes these: all steps go one way."""
    problem = problem_of("a", users=60, items=80, events=2000)
    owner = np.arange(40)
    rows = group_rows(owner, np.zeros(40, np.int32), 80, np.ones(40, np.float32))
    problem = problem._replace(item_rows=rows, item=(problem.item % 40).astype(np.int32))
    settings = settings_of(loss="softmax", n_negatives=32)
    training = reference.begin(problem, parameters_of(problem), settings)
    first, *_, last = [training.epoch(number, 0.3) for number in (1, 2, 3)]
    assert last < 0.9 * first
    assert training.largest() < 20
