"""Attributes that learn from sums: the sum of one step is that step."""

import numpy as np
import pytest
from engine.problems import parameters_of, problem_of, settings_of

from fmpair.engine import reference
from fmpair.engine.reference.draws import choices
from fmpair.engine.reference.objective import ascent, take_step
from fmpair.engine.reference.reference_training import FoldedCell
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
    folded = FoldedCell(training.cell(0, 0), own, settings, (RATE, shares), None)
    choice = next(iter(choices(training.cell(0, 0), 1, own)))
    wanted, features = ascent(own, choice, settings), own.features.copy()
    bias = own.feature_bias.copy()

    step_of_folded = next(iter(choices(folded.cell, 1, folded.tables)))
    assert step_of_folded.items == choice.items
    folded.steps = 1
    folded.note(step_of_folded)
    take_step(folded.tables, step_of_folded, folded.settings, RATE, {})
    folded.pass_on()

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
