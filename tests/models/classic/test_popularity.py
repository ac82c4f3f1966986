import polars as pl
import pytest

from fmpair import Dataset, Popularity
from fmpair.errors import OptionError, UnknownError
from fmpair.testing import day_and_night

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
