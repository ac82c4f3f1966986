"""Judging epochs: the best is kept, and patience counts from the best."""

from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, FMPair
from fmpair.data.splits import holdout
from fmpair.errors import DataError, OptionError, TrainingError
from fmpair.testing import day_and_night, two_tastes
from fmpair.training.epochs import (
    Epoch,
    Validation,
    best_epoch,
    diverged,
    epochs,
    validation_parts,
    with_models,
)


@dataclass
class Scripted:
    """A judge whose verdicts are known; a 'model' is the number of its epoch."""

    values: list
    patience: int
    seen: list = field(default_factory=list)

    def judge(self, model):
        self.seen.append(model)
        return self.values[model - 1]


def kept(values, patience):
    judge = Scripted(values, patience)
    epochs = (Epoch(n, 0.0, 0.5, lambda n=n: n) for n in range(1, len(values) + 1))
    return best_epoch(epochs, judge, False, len(values)), len(judge.seen)


def test_the_best_epoch_is_restored_not_the_last():
    assert kept([0.1, 0.5, 0.3, 0.4], 5) == (2, 4)


def test_training_stops_when_patience_has_passed_since_the_best():
    assert kept([0.1, 0.5, 0.3, 0.4, 0.9], 2) == (2, 4)


def test_patience_counts_from_the_best_though_each_epoch_beats_the_one_before():
    assert kept([0.9, 0.1, 0.2, 0.3, 0.4, 0.5], 3) == (1, 4)


def test_a_later_epoch_must_be_truly_better():
    assert kept([0.5, 0.5, 0.5], 5) == (1, 3)


def test_the_model_kept_has_the_best_value_of_the_history():
    data = two_tastes()
    split = holdout(data, test=0.2, seed=3)
    train, held_out = data.take(split.train), data.take(split.test)
    judge = Validation(train, held_out, "ndcg@5", 4)
    epochs = FMPair(factors=4, epochs=30, seed=1).train(train)
    model = best_epoch(epochs, judge, False, 30)
    best = max(judge.history)
    assert judge.judge(model) == best
    assert len(judge.history) - 2 - judge.history.index(best) <= 4


def test_fit_with_a_share_held_out_gives_a_good_model_and_tells_of_every_epoch():
    calls = []
    model = FMPair(factors=4, epochs=60, seed=1).fit(
        two_tastes(), validation=0.1, metric="mrr@5", patience=20, progress=calls.append
    )
    assert [epoch.number for epoch in calls] == list(range(1, len(calls) + 1))
    first = model.recommend(n=1, exclude_seen=False)
    assert (first["item"] % 2 == first["user"].str.slice(1).cast(int) % 2).mean() > 0.9


def test_fit_with_events_held_out_by_the_caller_learns_from_all_it_was_given():
    data = two_tastes()
    split = holdout(data, test=0.1)
    train, held_out = data.take(split.train), data.take(split.test)
    model = FMPair(factors=4, epochs=5).fit(train, validation=held_out.frame())
    assert model.seen.value.sum() == len(train)


def test_held_out_events_are_judged_in_their_own_context():
    data = day_and_night()
    split = holdout(data, test=0.2, seed=1)
    train, held_out = data.take(split.train), data.take(split.test)
    with_time = FMPair(factors=4, epochs=60, seed=1).fit(train)
    without = FMPair(factors=4, epochs=60, seed=1).fit(train.frame().drop("time"))
    judge = Validation(train, held_out, "ndcg@5", 5)
    assert judge.judge(with_time) > judge.judge(without) + 0.1


def test_users_count_equally_if_values_are_by_user():
    data = two_tastes()
    split = holdout(data, test=0.2, seed=3)  # one to four events of a user
    train, held_out = data.take(split.train), data.take(split.test)
    model = FMPair(factors=4, epochs=5, seed=1).fit(train)
    by_event = Validation(train, held_out, "ndcg@5", 5)
    by_user = Validation(train, held_out, "ndcg@5", 5, per_user=True)
    values, user = by_event.values(model), by_event.user
    expected = [values[user == number].mean() for number in np.unique(user)]
    assert len(values) > len(expected) > 1
    np.testing.assert_allclose(by_user.values(model), expected)


def repeating(share, **options):
    """Sixty users have three items each; this share of the held-out events repeats one of them."""
    known = [(f"u{n}", f"i{(n + m) % 9}") for n in range(60) for m in range(3)]
    later = [(f"u{n}", f"i{(n if n < share * 60 else n + 5) % 9}") for n in range(60)]
    frames = (pl.DataFrame(rows, ["user", "item"], orient="row") for rows in (known, later))
    return Validation(*map(Dataset.from_frame, frames), "ndcg@5", 5, **options)


def test_events_count_equally_where_users_often_repeat_items():
    assert not repeating(0.2, per_user=True).per_user
    assert repeating(0.05, per_user=True).per_user


def test_all_items_are_ranked_where_users_often_repeat_items():
    judge = repeating(0.2)
    assert judge.count == 60 and len(judge.hidden.column) == 0


def test_rare_repeats_are_not_judged_as_seen_items_are_not_ranked():
    judge = repeating(0.05)
    assert judge.count == 57 and len(judge.hidden.column) == 3 * 57


def test_a_share_splits_the_events_and_a_wrong_one_is_refused():
    data = two_tastes()
    train, held_out = validation_parts(data, 0.25, 0)
    assert len(train) + len(held_out) == len(data)
    assert validation_parts(data, None, 0) == (data, None)
    for share in (0, 1, 1.5, -0.1, float("nan")):
        with pytest.raises(OptionError, match="share between 0 and 1"):
            validation_parts(data, share, 0)


def test_what_cannot_be_judged_is_said_before_training():
    data = two_tastes()
    with pytest.raises(OptionError, match=r"Did you mean 'ndcg'\?"):
        FMPair().fit(data, validation=0.1, metric="ncdg@10")
    with pytest.raises(OptionError, match="patience must be"):
        FMPair().fit(data, validation=0.1, patience=0)
    scores_unknown_users = pl.DataFrame({"user": ["x"], "item": [1]})
    with pytest.raises(DataError, match="no held-out event has a user and an item"):
        FMPair().fit(data, validation=scores_unknown_users)


def test_progress_is_plain_lines_where_there_is_no_terminal(capsys):
    FMPair(factors=2, epochs=2).fit(two_tastes(), progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and lines[0].startswith("epoch 1 of 2: loss 3.")


def test_the_sample_of_many_held_out_events_is_the_same_each_time(monkeypatch):
    monkeypatch.setattr("fmpair.training.epochs.MAX_EVENTS", 20)
    data = two_tastes()
    split = holdout(data, test=0.3)
    judges = [
        Validation(data.take(split.train), data.take(split.test), "hit@5", 5) for _ in range(2)
    ]
    assert len(judges[0].events) == 20
    np.testing.assert_array_equal(judges[0].events.item, judges[1].events.item)


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
    with pytest.raises(TrainingError, match="epoch 1 is over: call its recommender"):
        first.recommender()
    assert second.recommender() == 2


def test_the_last_epoch_gives_its_model_after_the_loop_too():
    *_, last = counted(4)
    assert last.recommender() == 4


def test_models_are_changed_when_they_are_asked_for():
    changed = with_models(counted(2), lambda model: f"model {model}")
    assert [epoch.recommender() for epoch in changed] == ["model 1", "model 2"]


def test_a_divergence_says_when_and_what_would_help():
    assert str(diverged(3, "lower it")) == "training diverged in epoch 3: lower it"
