"""Held-out visits of logs in which users come once."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, FMPair, Protocol, evaluate
from fmpair.training import loop
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


def tastes(visitors=400, kinds=10):
    """Visits that see four of the six items of a kind and, before the last of them, a page that
    says nothing; returns the events before the last and the last.
    """
    rng = np.random.default_rng(0)
    kind = rng.integers(0, kinds, visitors)
    items = np.stack([6 * k + rng.permutation(6)[:5] for k in kind])
    items[:, 3] = 6 * kinds + rng.integers(0, 20, visitors)
    frame = pl.DataFrame(
        {
            "user": np.repeat(np.arange(visitors), 5),
            "item": items.ravel(),
            "timestamp": 1_700_000_000
            + (3_600 * np.arange(visitors)[:, None] + 60 * np.arange(5)).ravel(),
        }
    )
    last = pl.int_range(pl.len()) % 5 == 4
    return Dataset.from_frame(frame.filter(~last)), Dataset.from_frame(frame.filter(last))


SHORT = {"history": {"last": 1}, "order": 2, "times": False, "factors": 16, "epochs": 10}


def test_few_visits_of_a_large_log_are_held_out(monkeypatch):
    data = anonymous()
    assert 80 < held_out_visits(data, None).count < 160  # a tenth: 120 of 1,600 events
    monkeypatch.setattr("fmpair.training.visits.MAX_EVENTS", 40)
    assert 10 < held_out_visits(data, None).count < 60


@pytest.fixture(scope="module")
def fits():
    """A model of `tastes` with and without the users' own vectors learned at the end."""
    known, _ = tastes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "are_visits", lambda data: False)
        without = FMPair(**SHORT, threads=1).fit(known)
    return FMPair(**SHORT, threads=1).fit(known), without


def test_whole_visits_are_held_out_and_each_click_but_the_first_is_predicted():
    visits = held_out_visits(anonymous(), None)
    left = len(np.unique(visits.train.user))
    assert 20 < 400 - left < 60
    assert visits.count == 3 * (400 - left)
    assert len(visits.train) == 4 * left
    for before, item in zip(visits.before, visits.events["item"]):
        assert item == (before[-1] + 1) % 40


def test_of_what_is_left_other_visits_are_held_out():
    once = held_out_visits(anonymous(), None)
    twice = held_out_visits(once.train, None)
    assert twice.count > 60
    assert not set(twice.train.user) & (set(range(400)) - set(once.train.user))


def test_visits_of_one_click_predict_nothing():
    data = anonymous()
    first = np.flatnonzero(np.diff(data.user, prepend=-1))
    assert held_out_visits(data.take(first), None) is None


def by_page(context, visitors=400):
    """Visits with a random page at each click, which decides between two halves of 20 items.

    Clicks on page 1 are in the morning, those on page 0 in the evening.
    """
    rng = np.random.default_rng(0)
    page = rng.integers(0, 2, 4 * visitors)
    midnight = 86_400 * (20_000 + np.arange(visitors).repeat(4))
    columns = {
        "user": np.arange(visitors).repeat(4),
        "item": 10 * page + rng.integers(0, 10, 4 * visitors),
        "page": page,
        "timestamp": midnight + np.where(page, 3_600 * 9, 3_600 * 20) + np.arange(4 * visitors) % 4,
    }
    return Dataset.from_frame(pl.DataFrame(columns), context=context)


def test_held_out_visits_are_predicted_in_their_context_and_at_their_time():
    def value(context=(), fields=None):
        visits = held_out_visits(by_page(list(context)), None)
        recipe = FMPair(factors=8, threads=1, history=0, order=2, times=False, regularization=0.05)
        return visits.values(replace(recipe, fields=fields or {}).fit(visits.train)).mean()

    chance = np.mean(1 / np.log2(np.arange(2, 12)))  # NDCG of a random place among ten
    assert value() < 0.6 * chance
    assert value(context=["page"]) > 0.9 * chance
    assert value(fields={"timestamp": {"kind": "time", "parts": ["hour"]}}) > 0.9 * chance


def test_tuning_of_visits_tries_histories_on_other_visits():
    tuned = FMPair(factors=4, epochs=8, threads=1).tune(anonymous(), trials=2)
    assert tuned.recipe.history  # the follower of an item is nothing but history


def test_visitors_that_the_model_knows_are_ranked_by_their_whole_visit(fits):
    # a history of one item knows the page that says nothing, and no taste
    values = [evaluate(model, *tastes(), Protocol(), ["ndcg@5"]).means["ndcg@5"] for model in fits]
    assert values[0] > 3 * values[1]


def test_visitors_that_the_model_does_not_know_are_ranked_as_before(fits):
    model, without = (one.recommend(history=[1, 2], n=60).sort("item") for one in fits)
    np.testing.assert_allclose(model["score"], without["score"], atol=1e-5)


def test_own_vectors_have_the_same_bits_on_any_number_of_threads(fits):
    other = FMPair(**SHORT, threads=2).fit(tastes()[0])
    np.testing.assert_array_equal(fits[0].parameters.users, other.parameters.users)


def test_a_given_regularisation_of_users_holds_for_their_own_vectors_too(fits):
    def length(strength):
        recipe = FMPair(**SHORT, threads=1, regularization={"user": strength})
        return np.linalg.norm(recipe.fit(tastes()[0]).parameters.users)

    assert length(10.0) < 0.2 * np.linalg.norm(fits[0].parameters.users)
