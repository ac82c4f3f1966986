"""Baselines: popularity, recency and random order."""

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, Popularity
from fmpair.errors import DataError, OptionError, UnknownError
from fmpair.models import MostRecent, PopularLately, Random
from fmpair.testing import day_and_night, two_tastes

FRAME = pl.DataFrame({"user": [*"aabbcd"], "item": [*"xyxzxy"]})


def test_items_are_ranked_by_the_number_of_their_events_for_everyone():
    model = Popularity().fit(FRAME)
    for user in "abcd":
        out = model.recommend(user, exclude_seen=False)
        assert out["item"].to_list() == ["x", "y", "z"]
        assert out["score"].to_list() == [3, 2, 1]


def test_what_a_user_has_is_left_out():
    assert Popularity().fit(FRAME).recommend("b")["item"].to_list() == ["y"]


def test_equally_popular_items_keep_the_order_of_the_catalogue():
    frame = pl.DataFrame({"user": [*"abc"], "item": [3, 1, 2]})
    out = Popularity().fit(frame).recommend("a", exclude_seen=False)
    assert out["item"].to_list() == [3, 1, 2]


def test_a_context_may_be_asked_for_and_changes_nothing():
    model = Popularity().fit(day_and_night())
    day, night = (model.recommend("u1", context={"time": t}) for t in ("day", "night"))
    assert day["item"].to_list() == night["item"].to_list()
    with pytest.raises(UnknownError, match=r"Did you mean 'time'\?"):
        model.recommend("u1", context={"tiem": "day"})


def test_popularity_has_no_vectors_to_tell_what_is_similar():
    model = Popularity().fit(FRAME)
    for ask in (lambda: model.similar_items("x"), lambda: model.similar_users("a")):
        with pytest.raises(OptionError, match="a model without vectors, such as Popularity"):
            ask()


def test_popularity_explains_itself_by_the_item_alone():
    terms = Popularity().fit(FRAME).explain("a", "x")
    assert terms["value"].sum() == 3


def test_popularity_within_a_context_counts_the_events_of_that_context():
    model = Popularity(within="time").fit(day_and_night())
    day, night = (
        model.recommend("u1", 5, context={"time": t}, exclude_seen=False)["item"] % 2
        for t in ("day", "night")
    )
    assert day.sum() == 0 and night.sum() == 5


def test_popularity_within_an_attribute_follows_the_users_own_value():
    events = pl.DataFrame({"user": [*"aabbccd"], "item": [*"xyxzzww"]})
    users = {"user": [*"abcd"], "sex": ["f", "f", "m", None]}
    model = Popularity(within="sex").fit(Dataset.from_frame(events, users=users))
    first = model.recommend(["a", "c"], 1, exclude_seen=False)["item"].to_list()
    assert first == ["x", "z"]
    new = model.recommend("e", 1, user_features={"sex": "m"}, exclude_seen=False)
    assert new["item"].to_list() == ["z"]


def test_an_unknown_value_falls_back_to_the_popularity_among_all():
    frame = FRAME.with_columns(place=pl.Series([*"112121"]))
    within, overall = (p.fit(frame) for p in (Popularity(within="place"), Popularity()))
    asked = {"context": {"place": "9"}, "unknown": "features", "exclude_seen": False}
    assert within.recommend("a", **asked)["item"].equals(
        overall.recommend("a", exclude_seen=False)["item"]
    )


def test_a_column_to_be_popular_within_must_be_there():
    with pytest.raises(OptionError, match=r"'tiem'. Did you mean 'time'\?"):
        Popularity(within="tiem").fit(day_and_night())
    with pytest.raises(OptionError, match="smoothing must be"):
        Popularity(smoothing=0)


DATA = two_tastes()


def scores(**options):
    return Random(**options).fit(DATA)(DATA.take(np.arange(0, len(DATA), 9)))  # each user once


def test_every_user_has_an_order_of_their_own_that_the_seed_fixes():
    table = scores(seed=3)
    assert np.array_equal(table, scores(seed=3))
    assert not np.array_equal(table, scores(seed=4))
    assert len(np.unique(table, axis=0)) == len(DATA.users)


def test_scores_do_not_depend_on_who_else_is_asked_for():
    model = Random().fit(DATA)
    assert model.recommend("u7").equals(model.recommend(["u3", "u7"])[10:])


def test_scores_are_spread_evenly():
    table = scores(seed=0)
    assert table.min() >= 0 and table.max() < 1
    assert abs(table.mean() - 0.5) < 0.05 and abs(table.std() - 12**-0.5) < 0.03


def test_a_seed_is_a_whole_number():
    with pytest.raises(OptionError, match="seed must be a whole number"):
        Random(seed=0.5)


DAY = 86_400
NOW = 1_700_000_000
EVENTS = {
    "user": ["a", "b", "a", "b", "a", "b"],
    "item": ["x", "y", "z", "x", "y", "w"],
    "timestamp": [NOW - 90 * DAY, NOW - 60 * DAY, NOW - 5 * DAY, NOW - 4 * DAY, NOW, NOW - 5 * DAY],
}


def ranked(model):
    out = model.recommend("a", 9, exclude_seen=False)
    return dict(out.select("item", "score").rows())


def test_the_item_that_was_chosen_last_comes_first():
    data = Dataset.from_frame(EVENTS, items={"item": ["w", "x", "y", "z", "never"]})
    assert ranked(MostRecent().fit(data)) == {"y": 3, "x": 2, "z": 1, "w": 1, "never": 0}
    assert ranked(MostRecent(by="first").fit(data)) == {"z": 3, "w": 3, "y": 2, "x": 1, "never": 0}


def test_popular_lately_counts_the_events_of_the_last_days_or_of_each_users_last():
    data = Dataset.from_frame(EVENTS)
    assert ranked(PopularLately().fit(data)) == {"x": 1, "y": 1, "z": 1, "w": 1}
    assert ranked(PopularLately(days=61).fit(data)) == {"x": 1, "y": 2, "z": 1, "w": 1}
    assert ranked(PopularLately(days=5).fit(data)) == {"x": 1, "y": 1, "z": 0, "w": 0}
    assert ranked(PopularLately(last=1).fit(data)) == {"x": 1, "y": 1, "z": 0, "w": 0}
    assert ranked(PopularLately(days=1, last=1).fit(data)) == {"x": 0, "y": 1, "z": 0, "w": 0}


def test_an_order_counts_each_users_last_events():
    bare = {"user": ["a"] * 12, "item": ["x", "x"] + ["y"] * 10}
    assert ranked(PopularLately().fit(Dataset.from_frame(bare, order="rows"))) == {"x": 0, "y": 10}
    ordered = Dataset.from_frame(bare, order="per-user")
    assert ranked(PopularLately(last=11).fit(ordered)) == {"x": 1, "y": 10}
    with pytest.raises(DataError, match="days needs times with dates: use last=10"):
        PopularLately(days=3).fit(ordered)
    with pytest.raises(DataError, match="only the order of each user's events"):
        MostRecent().fit(ordered)


def test_without_times_there_is_nothing_recent():
    for recipe in (MostRecent(), PopularLately()):
        with pytest.raises(DataError, match="the data have no times"):
            recipe.fit({"user": ["a", "b"], "item": ["x", "y"]})


@pytest.mark.parametrize("wrong", [{"days": 0}, {"last": 0}, {"last": 1.5}])
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(OptionError, match=next(iter(wrong))):
        PopularLately(**wrong)
    with pytest.raises(OptionError, match="by must be one of last, first"):
        MostRecent(by="now")
