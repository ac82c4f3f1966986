"""Held-out visits of logs in which users come once."""

import numpy as np
import polars as pl

from fmpair import Dataset, FMPair
from fmpair.training.visits import held_out_visits


def anonymous(visits=400, each=4, items=40):
    """Visits of four clicks within four minutes, one visit an hour; each item has a follower."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, items, visits)
    return Dataset.from_frame(
        pl.DataFrame(
            {
                "user": np.repeat(np.arange(visits), each),
                "item": ((first[:, None] + np.arange(each)) % items).ravel(),
                "timestamp": 1_700_000_000
                + (3_600 * np.arange(visits)[:, None] + 60 * np.arange(each)).ravel(),
            }
        )
    )


def test_whole_visits_are_held_out_and_each_click_but_the_first_is_predicted():
    visits = held_out_visits(anonymous(), None)
    left = len(np.unique(visits.train.user))
    assert 20 < 400 - left < 60
    assert len(visits.item) == 3 * (400 - left)
    assert len(visits.train) == 4 * left
    for before, item in zip(visits.before, visits.item):
        assert item == (before[-1] + 1) % 40


def test_of_what_is_left_other_visits_are_held_out():
    once = held_out_visits(anonymous(), None)
    twice = held_out_visits(once.train, None)
    assert len(twice.item) > 60
    assert not set(twice.train.user) & (set(range(400)) - set(once.train.user))


def test_visits_of_one_click_predict_nothing():
    data = anonymous()
    first = np.flatnonzero(np.diff(data.user, prepend=-1))
    assert held_out_visits(data.take(first), None) is None


def test_tuning_of_visits_tries_histories_on_other_visits():
    tuned = FMPair(factors=4, epochs=8, threads=1).tune(anonymous(), trials=2)
    assert tuned.recipe.history  # the follower of an item is nothing but history
