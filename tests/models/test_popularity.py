import polars as pl
import pytest

from fmpair import Popularity
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
