"""One loop over anything that keeps the contract of training."""

import numpy as np
import pytest

from fmpair import FMPair
from fmpair.engine import engine
from fmpair.errors import TrainingError
from fmpair.testing import cold_items, day_and_night, two_tastes
from fmpair.training import loop
from fmpair.training.epochs import best_epoch
from fmpair.training.loop import Task, begin, learn, train
from fmpair.training.start import initial

RECIPE = FMPair(factors=3, epochs=4, loss="bpr")


class Scripted:
    """Training that moves nothing and tells what it was asked for."""

    def __init__(self, parameters, largest=1.0):
        self.parameters, self.asked, self.size = parameters, [], largest

    def epoch(self, number, rate):
        self.asked.append((number, round(rate, 6)))
        return 0.5

    def largest(self):
        return self.size

    def snapshot(self):
        return type(self.parameters)(*(table.copy() for table in self.parameters))

    def close(self):
        self.asked.append("closed")


def scripted(data, **options):
    task = Task.of(RECIPE, RECIPE, data)
    return task, Scripted(initial(RECIPE, task.space), **options)


def test_the_rate_falls_in_a_straight_line_and_training_is_closed_in_the_end():
    task, training = scripted(two_tastes())
    assert [epoch.loss for epoch in learn(task, training)] == [0.5] * 4
    assert training.asked[:4] == [(1, 0.1), (2, 0.07), (3, 0.04), (4, 0.01)]
    assert set(training.asked[4:]) == {"closed"}


def test_training_that_is_stopped_early_is_closed_too():
    task, training = scripted(two_tastes())
    for epoch in learn(task, training):
        if epoch.number == 2:
            break
    assert training.asked == [(1, 0.1), (2, 0.07), "closed"]
    assert len(epoch.recommender().user_ids) == 40


@pytest.mark.parametrize("size", [1e6, np.nan])
def test_numbers_without_bound_end_it_with_what_would_help(size):
    task, training = scripted(two_tastes(), largest=size)
    with pytest.raises(TrainingError, match=r"diverged in epoch 1: lower learning_rate \(0.1\)"):
        list(learn(task, training))
    assert training.asked[-1] == "closed"


def test_the_same_loop_runs_over_the_reference_engine(monkeypatch):
    fast = list(train(RECIPE, RECIPE, cold_items()))
    monkeypatch.setattr(loop, "engine", lambda name: engine("reference"))
    plain = list(train(RECIPE, RECIPE, cold_items()))
    assert [e.loss for e in fast] == pytest.approx([e.loss for e in plain], abs=1e-4)
    for one, other in zip(fast[-1].recommender().parameters, plain[-1].recommender().parameters):
        np.testing.assert_allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("frozen", ["users", "items", "features"])
def test_frozen_tables_stay_as_they_are(frozen):
    task = Task.of(RECIPE, RECIPE, day_and_night())
    first = initial(RECIPE, task.space)
    training = begin(task, first, (frozen,))
    list(learn(task, training))
    learned = training.snapshot()
    moved = {
        "users": not np.array_equal(learned.users, first.users),
        "items": not np.array_equal(learned.items, first.items),
        "features": not np.array_equal(learned.query, first.query),
    }
    assert moved == {name: name != frozen for name in moved}


def test_the_model_keeps_the_recipe_and_is_learned_by_the_options():
    options = FMPair(factors=2, epochs=1, damping=0.5)
    model = best_epoch(train(RECIPE, options, two_tastes()), None, False, 1)
    assert model.recipe == RECIPE and model.parameters.users.shape[1] == 2
    assert model.damping == 0.5


def test_every_epochs_model_shares_what_was_seen():
    epochs = train(RECIPE, RECIPE, two_tastes())
    first, second = next(epochs).recommender(), next(epochs).recommender()
    assert first.seen is second.seen
    assert first.parameters.users is not second.parameters.users
