"""The loop that makes epochs, whoever learns in them."""

import pytest

from fmpair.errors import TrainingError
from fmpair.training.epochs import diverged, epochs, with_models


def counted(count):
    """Epochs of a learner that counts, and whose model is the count."""
    done = []

    def learn(number):
        done.append(number)
        return 1 / number

    return epochs(count, learn, lambda: len(done))


def test_epochs_are_counted_from_one_and_have_the_loss_of_their_pass():
    made = list(counted(3))
    assert [epoch.number for epoch in made] == [1, 2, 3]
    assert [epoch.loss for epoch in made] == [1, 1 / 2, 1 / 3]
    assert all(epoch.seconds >= 0 and epoch.value is None for epoch in made)


def test_nothing_is_learned_before_it_is_asked_for():
    loop = counted(2)
    assert next(loop).recommender() == 1
    assert next(loop).recommender() == 2


def test_an_epoch_gives_its_model_until_the_next_one_begins():
    loop = counted(3)
    first = next(loop)
    assert first.recommender() == first.recommender() == 1
    second = next(loop)
    with pytest.raises(TrainingError, match="epoch 1 is past: ask for its recommender before"):
        first.recommender()
    assert second.recommender() == 2


def test_the_last_epoch_gives_its_model_after_the_loop_too():
    *_, last = counted(4)
    assert last.recommender() == 4


def test_models_are_changed_when_they_are_asked_for():
    changed = with_models(counted(2), lambda model: f"model {model}")
    assert [epoch.recommender() for epoch in changed] == ["model 1", "model 2"]


def test_a_divergence_says_when_and_what_would_help():
    assert str(diverged(3, "lower it")) == "diverged in epoch 3: lower it"
