import numpy as np
import polars as pl
import pytest

from fmpair.errors import DataError, OptionError
from fmpair.models import FMMap
from fmpair.models.fm_training import unobserved
from fmpair.testing import cold_items, day_and_night, two_tastes
from fmpair.testing.contract import RULES, ModelContract

# Tight: some of the items left out of the toys are drawn as unobserved pairs.
HELD = {"als": 3.0, "sgd": 0.1}


def recipe(learner="als", **options):
    usual = {"factors": 4, "epochs": 30, "learning_rate": 0.05, "init_std": 0.3, "threads": 1}
    return FMMap(learner=learner, **{**usual, "regularization": HELD[learner], **options})


@pytest.mark.parametrize("learner", ["als", "sgd"])
@pytest.mark.parametrize("rule", RULES)
def test_it_keeps_what_every_model_must(rule, learner):
    ModelContract(lambda: recipe(learner)).check(rule)


def test_unobserved_pairs_are_as_many_as_events_and_none_is_an_event():
    data = day_and_night()
    drawn = unobserved(data, 0)
    assert len(drawn) == len(data)
    both = drawn.frame().join(data.frame(), on=["user", "item"], how="semi")
    assert not len(both)
    assert drawn.columns.columns == data.columns.columns


def test_unobserved_pairs_are_spread_evenly_and_follow_the_seed():
    data = two_tastes(users=20, items=10)
    free = 20 * 10 - len(data)
    drawn = [unobserved(data, seed) for seed in range(100)]
    times = np.zeros((20, 10))
    for part in drawn:
        np.add.at(times, (part.user, part.item), 1)
    expected = 100 * len(data) / free
    seen = np.zeros((20, 10), bool)
    seen[data.user, data.item] = True
    assert not times[seen].any()
    assert np.abs(times[~seen] - expected).max() < 5.5 * np.sqrt(expected)
    assert np.array_equal(drawn[0].item, unobserved(data, 0).item)
    assert not np.array_equal(drawn[0].item, drawn[1].item)


def test_an_event_scores_near_one_and_an_unchosen_item_near_minus_one():
    data = two_tastes()
    model = recipe(epochs=50).fit(data)
    chosen = model.score(data.frame())["score"].to_numpy()
    user, item = np.divmod(np.arange(800), 20)
    other = (user % 2) != (item % 2)
    frame = pl.DataFrame({"user": [f"u{n}" for n in user[other]], "item": item[other]})
    assert chosen.mean() > 0.7
    assert model.score(frame)["score"].mean() < -0.7


def test_ratings_play_no_part():
    frame = two_tastes().frame()
    rated = frame.with_columns(rating=pl.lit(1.0))
    ours, theirs = (recipe().fit(f).score(frame) for f in (frame, rated))
    assert ours.equals(theirs)


def test_attributes_rank_items_that_nobody_chose():
    model = recipe().fit(cold_items())
    cold = list(range(14, 20))
    best = model.recommend(n=1, candidates=cold, exclude_seen=False)
    number = best["user"].str.strip_prefix("u").cast(pl.Int64).to_numpy()
    assert (best["item"].to_numpy() % 2 == number % 2).mean() > 0.9


def test_what_is_wrong_is_said_in_one_line():
    with pytest.raises(OptionError, match="learner must be one of"):
        FMMap(learner="mcmc")
    every = pl.DataFrame({"user": [*"aabb"], "item": [*"xyxy"]})
    with pytest.raises(DataError, match="so there are no negatives"):
        FMMap().fit(every)
