"""What a fitted model does: lists, scores, neighbours, and clear words on what it cannot do."""

import datetime
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fmpair import Dataset, FMPair, load
from fmpair.errors import DataError, Notice, OptionError, UnknownError
from fmpair.testing import day_and_night, two_tastes

DATA = day_and_night()


@cache
def learned():
    return FMPair(factors=4, epochs=40, seed=1).fit(DATA)


def described():
    """Users of two sexes: each sex chooses the items of its own half."""
    data = two_tastes()
    table = {"user": data.users.ids, "sex": [("f", "m")[int(u[1:]) % 2] for u in data.users.ids]}
    return data.with_users(table)


@cache
def learned_by_sex():
    return FMPair(factors=4, epochs=40, seed=1, regularization={"user": 0.5}).fit(described())


def test_a_list_is_a_frame_of_user_context_item_score_rank():
    out = learned().recommend("u3", n=3, context={"time": "day"})
    assert out.columns == ["user", "time", "item", "score", "rank"]
    assert out["user"].to_list() == ["u3"] * 3 and out["rank"].to_list() == [1, 2, 3]
    assert out["score"].is_sorted(descending=True)


def test_seen_items_are_left_out_unless_asked_for():
    seen = set(DATA.frame().select("user", "item").rows())
    every = learned().recommend(n=20)
    assert len(every) == 40 * 10
    assert seen.isdisjoint(every.select("user", "item").rows())
    assert len(learned().recommend("u1", n=20, exclude_seen=False)) == 20


def test_a_list_longer_than_the_catalogue_is_short_and_never_padded():
    out = learned().recommend("u1", n=10_000, exclude_seen=False)
    assert len(out) == 20 and out["item"].n_unique() == 20
    assert out["score"].is_finite().all()


def test_candidates_and_exclusions_are_honoured():
    out = learned().recommend("u1", candidates=[1, 2, 3], exclude=[2], exclude_seen=False)
    assert set(out["item"]) == {1, 3}
    assert len(learned().recommend("u1", candidates=[])) == 0
    assert learned().recommend("u1", candidates=5, exclude_seen=False)["item"].to_list() == [5]


def test_candidates_the_user_has_seen_stay_out():
    seen = DATA.frame().filter(user="u1")["item"].to_list()
    assert len(learned().recommend("u1", candidates=seen)) == 0


def test_equal_scores_are_listed_in_the_order_of_the_catalogue():
    level = learned().parameters._replace(
        items=np.zeros((20, 4), np.float32), item_bias=np.zeros(20)
    )
    out = learned().replaced(parameters=level).recommend("u1", n=20, exclude_seen=False)
    assert out["item"].to_list() == learned().item_ids.tolist()


def test_one_user_alone_gets_what_the_user_gets_among_all():
    together = learned().recommend(n=5, context={"time": "night"}).filter(user="u7")
    alone = learned().recommend("u7", n=5, context={"time": "night"})
    assert alone.drop("score").equals(together.drop("score"))
    np.testing.assert_allclose(alone["score"], together["score"], rtol=1e-5)


@pytest.mark.parametrize(
    "kind", [list, tuple, dict.fromkeys, iter, np.array, pl.Series, pd.Series, pa.array]
)
def test_users_may_come_in_any_collection(kind):
    out = learned().recommend(kind(["u1", "u2"]), n=1)
    assert out["user"].to_list() == ["u1", "u2"]


def test_no_users_get_no_lists():
    out = learned().recommend([], context={"time": "day"})
    assert len(out) == 0 and {"user", "time", "item"} <= set(out.columns)


def test_a_frame_of_queries_gives_each_row_its_own_context():
    asked = pl.DataFrame({"user": ["u1", "u1", "u2"], "time": ["day", "night", None]})
    out = learned().recommend(asked, n=2, exclude_seen=False)
    assert out.select("user", "time").rows()[::2] == asked.rows()
    for time in ("day", "night"):
        one = learned().recommend("u1", n=2, context={"time": time}, exclude_seen=False)
        mine = out.filter(user="u1", time=time)
        assert mine["item"].to_list() == one["item"].to_list()


def test_a_frame_without_users_asks_for_a_context_alone():
    out = learned().recommend(pl.DataFrame({"time": ["day", "night"]}), n=3)
    assert out.columns == ["time", "item", "score", "rank"]
    assert (out["item"] % 2).to_list() == [0] * 3 + [1] * 3


def test_a_context_named_like_a_column_of_the_answer_does_no_harm():
    frame = DATA.frame().with_columns(rank=pl.Series(["low", "high"] * 200))
    out = FMPair(factors=2, epochs=1).fit(frame).recommend("u1", n=2, context={"rank": "low"})
    assert out["rank"].to_list() == [1, 2]


def test_several_values_of_one_context_may_be_given():
    tags = pl.Series([["a", "b"], ["b", "c"]] * 200)
    model = FMPair(factors=2, epochs=2).fit(DATA.frame().with_columns(tags=tags))
    assert len(model.recommend(["u1", "u2"], n=1, context={"tags": ["a", "c"]})) == 2
    with pytest.raises(UnknownError, match=r"context 'tags' 'bb'. Did you mean 'b'\?"):
        model.recommend("u1", context={"tags": ["a", "bb"]})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"users": "u400"}, r"unknown user 'u400'. Did you mean 'u4\d?'\?"),
        ({"users": ["u1", "v2"]}, r"unknown user 'v2'"),
        ({"users": 7}, "unknown user 7|unknown user '7'"),
        ({"users": "u1", "context": {"tiem": "day"}}, r"'tiem'. Did you mean 'time'\?"),
        ({"users": "u1", "context": {"time": "dya"}}, r"'dya'. Did you mean 'day'\?"),
        ({"users": pl.DataFrame({"user": ["u1"], "tme": ["day"]})}, r"Did you mean 'time'\?"),
        (
            {"users": "u1", "candidates": [1, 99], "unknown": "error"},
            "unknown item 99: the model knows 20 items",
        ),
        ({"users": "u1", "exclude": ["x"], "unknown": "error"}, "unknown item 'x'"),
        ({"users": "u1", "user_features": {"sex": "f"}}, "unknown user feature 'sex'"),
    ],
)
def test_what_the_model_does_not_know_is_named(arguments, message):
    with pytest.raises(UnknownError, match=message):
        learned().recommend(**arguments)


@pytest.mark.parametrize("n", [0, -1, 2.5, "3", None, True])
def test_a_list_of_no_proper_length_is_refused(n):
    for ask in (
        lambda: learned().recommend("u1", n=n),
        lambda: learned().similar_items(1, n=n),
        lambda: learned().recommend_users(1, n=n),
    ):
        with pytest.raises(OptionError, match="n must be a whole number of at least 1"):
            ask()


def test_ids_of_mixed_types_are_refused():
    with pytest.raises(DataError, match="several types"):
        learned().recommend("u1", candidates=[1, "a"])


def test_a_context_that_is_no_mapping_is_refused():
    with pytest.raises(OptionError, match="context must be a mapping"):
        learned().recommend("u1", context="day")


def test_an_unknown_user_goes_by_features_or_by_popularity_when_asked():
    by_context = learned().recommend("nobody", n=3, context={"time": "day"}, unknown="features")
    assert (by_context["item"] % 2 == 0).all()
    popular = learned().recommend("nobody", n=3, context={"time": "day"}, unknown="popular")
    usual = learned().item_vectors @ learned().mean_user + learned().item_constants
    best = learned().item_ids[np.argsort(-usual, kind="stable")[:3]]
    assert popular["item"].to_list() == best.tolist()
    with pytest.raises(OptionError, match="unknown must be one of ignore, error, features, popu"):
        learned().recommend("nobody", unknown="pass")
    with pytest.raises(UnknownError, match="unknown user 'nobody'"):
        learned().recommend("nobody", unknown="ignore")


def test_unknown_candidates_and_exclusions_are_passed_over_and_counted():
    told = r"candidates: 2 of 3 items are unknown and ignored, the first is 98; unknown='error'"
    with pytest.warns(Notice, match=told):
        out = learned().recommend("u1", candidates=[98, 5, 99], exclude_seen=False)
    assert out["item"].to_list() == [5]
    with pytest.warns(Notice, match="exclude: 1 of 2 items"):
        out = learned().recommend("u1", n=20, exclude=[5, 99], exclude_seen=False)
    assert len(out) == 19 and 5 not in out["item"]
    with pytest.warns(Notice):
        assert not len(learned().recommend("u1", candidates=[99]))


def shop():
    """day_and_night under the names of a shop's log."""
    return DATA.frame().rename({"user": "customer_id", "item": "product_id"})


def test_answers_call_their_columns_as_the_events_did(tmp_path):
    fitted = FMPair(factors=2, epochs=2).fit(shop())
    fitted.save(tmp_path / "shop.fmpair")
    for model in (fitted, load(tmp_path / "shop.fmpair")):
        lists = model.recommend("u1", n=2)
        assert lists.columns == ["customer_id", "product_id", "score", "rank"]
        assert model.similar_items(1).columns == ["product_id", "similarity", "rank"]
        assert model.similar_users("u1").columns == ["customer_id", "similarity", "rank"]
        assert model.recommend_users(1).columns == ["customer_id", "score", "rank"]
        assert model.score(lists.drop("score")).columns == [*lists.drop("score").columns, "score"]


def test_a_name_that_no_reader_would_guess_is_found_again():
    data = Dataset.from_frame(shop().rename({"customer_id": "wer", "product_id": "was"}),
                              user="wer", item="was")  # fmt: skip
    model = FMPair(factors=2, epochs=1).fit(data)
    asked = pl.DataFrame({"wer": ["u1", "u2"]})
    assert model.recommend(asked, n=1)["wer"].to_list() == ["u1", "u2"]
    assert model.score(pl.DataFrame({"wer": ["u1"], "was": [3]}))["score"].is_finite().all()


def test_further_columns_of_a_frame_of_users_come_back():
    asked = pl.DataFrame({"request_id": [71, 72], "user_id": ["u1", "u2"], "time": ["day", None]})
    out = learned().recommend(asked, n=2)
    assert out.columns == ["request_id", "user_id", "time", "item", "score", "rank"]
    assert out["request_id"].to_list() == [71, 71, 72, 72]


@pytest.mark.parametrize("name", ["score", "rank"])
def test_ids_in_a_column_named_like_one_of_the_answer_are_called_item(name):
    data = Dataset.from_frame(DATA.frame().rename({"item": name}), item=name)
    out = FMPair(factors=2, epochs=1).fit(data).recommend("u1", n=1)
    assert out.columns == ["user", "item", "score", "rank"]


def test_an_unseen_context_value_is_absent_when_asked():
    open_ = learned().recommend("u1", n=5)
    out = learned().recommend("u1", n=5, context={"time": "dawn"}, unknown="features")
    assert out["item"].to_list() == open_["item"].to_list()


def test_a_new_user_is_served_by_features():
    for sex, parity in (("f", 0), ("m", 1)):
        out = learned_by_sex().recommend("new", n=5, user_features={"sex": sex})
        assert (out["item"] % 2 == parity).all()


def test_a_table_of_features_serves_several_new_users():
    table = pl.DataFrame({"user": ["anna", "otto"], "sex": ["f", "m"]})
    out = learned_by_sex().recommend(["otto", "anna"], n=3, user_features=table)
    assert out["user"].to_list() == ["otto"] * 3 + ["anna"] * 3
    assert (out["item"] % 2).to_list() == [1] * 3 + [0] * 3


def test_a_new_user_may_be_described_by_a_time():
    days = [datetime.date(year, 1, 1) for year in (2020, 2022, 2024)]
    users = pl.DataFrame({"user": ["a", "b", "c"], "joined": days})
    log = {"user": ["a", "b", "c"] * 2, "item": [1, 2, 3, 2, 3, 1]}
    model = FMPair(factors=2, epochs=2).fit(Dataset.from_frame(log, users=users))
    for day in (days[0], "2020-01-01"):
        given = {"joined": day}
        scores = model.recommend("new", user_features=given)["score"].to_list()
        assert model.answer("new", user_features=given).scores == pytest.approx(scores)


def test_features_with_a_mistake_are_refused_by_name():
    with pytest.raises(UnknownError, match=r"user feature 'sxe'. Did you mean 'sex'\?"):
        learned_by_sex().recommend("new", user_features={"sxe": "f"})
    with pytest.raises(UnknownError, match=r"value of user feature 'sex' 'x'. Known: f, m"):
        learned_by_sex().recommend("new", user_features={"sex": "x"})
    twice = pl.DataFrame({"user": ["anna", "anna"], "sex": ["f", "m"]})
    with pytest.raises(DataError, match="several rows of user 'anna'"):
        learned_by_sex().recommend("anna", user_features=twice)
    with pytest.raises(UnknownError, match="unknown user 'otto'"):
        learned_by_sex().recommend("otto", user_features=twice[:1])
    with pytest.raises(UnknownError, match="needs a column 'user'"):
        learned_by_sex().recommend("otto", user_features=pl.DataFrame({"sex": ["m"]}))


def test_pandas_in_gives_pandas_out():
    model = FMPair(factors=2, epochs=1).fit(pd.DataFrame(DATA.frame().to_dicts()))
    for out in (model.recommend("u1", n=2), model.similar_items(1), model.explain("u1", 1)):
        assert isinstance(out, pd.DataFrame)
    asked = pl.DataFrame({"user": ["u1"], "time": ["day"]})
    assert isinstance(model.recommend(asked, n=2), pl.DataFrame)


def test_pyarrow_in_gives_pyarrow_out():
    model = FMPair(factors=2, epochs=1).fit(DATA.frame().to_arrow())
    assert isinstance(model.recommend("u1", n=2), pa.Table)
    pairs = pa.table({"user": ["u1"], "item": [3]})
    assert isinstance(model.score(pairs), pa.Table)


def test_a_score_is_that_of_the_list():
    listed = learned().recommend("u1", n=5, context={"time": "day"})
    scored = learned().score(listed.select("user", "time", "item"))
    np.testing.assert_allclose(scored["score"], listed["score"], rtol=1e-5)
    assert scored.columns == ["user", "time", "item", "score"]


def test_a_score_needs_items_the_model_knows():
    with pytest.raises(UnknownError, match="unknown item 99"):
        learned().score(pl.DataFrame({"user": ["u1"], "item": [99]}))
    with pytest.raises(UnknownError, match="needs a column 'item'"):
        learned().score(pl.DataFrame({"user": ["u1"]}))
    assert len(learned().score(pl.DataFrame({"user_id": ["u1"], "product_id": [9]}))) == 1


def test_similar_items_are_those_of_the_same_taste_and_never_the_item_itself():
    model = FMPair(factors=4, epochs=60, seed=1).fit(two_tastes())
    out = model.similar_items(4, n=9)
    assert set(out["item"]) == {0, 2, 6, 8, 10, 12, 14, 16, 18}
    assert out["rank"].to_list() == list(range(1, 10))
    assert out["similarity"].is_between(-1.001, 1.001).all()
    assert len(model.similar_items(4, n=1000)) == 19
    users = model.similar_users("u4", n=10)["user"].str.slice(1).cast(int)
    assert (users % 2 == 0).all()
    with pytest.raises(UnknownError, match="unknown user"):
        model.similar_users("x")


def test_an_item_is_offered_first_to_those_of_its_taste_who_lack_it():
    model = FMPair(factors=4, epochs=60, seed=1).fit(two_tastes())
    out = model.recommend_users(0, n=30)
    lacking = {"u0", "u20"}
    assert set(out["user"][:2]) == lacking
    every = model.recommend_users(0, n=100, exclude_seen=False)
    assert len(every) == 40
    assert (every["user"][:20].str.slice(1).cast(int) % 2 == 0).all()


def test_folded_arrays_rank_as_the_list_does():
    q = learned().query_vectors(pl.DataFrame({"user": ["u3"], "time": ["night"]}))[0]
    best = learned().item_ids[np.argsort(-(learned().item_vectors @ q + learned().item_constants))]
    listed = learned().recommend("u3", n=20, context={"time": "night"}, exclude_seen=False)
    assert listed["item"].to_list() == best.tolist()
    assert learned().user_ids.tolist() == DATA.users.ids.to_list()


def test_dates_may_be_ids():
    day = pl.lit(datetime.date(2024, 1, 1)) + pl.duration(days=pl.col("item"))
    model = FMPair(factors=2, epochs=2).fit(DATA.frame().with_columns(item=day))
    out = model.recommend("u1", n=3)
    assert out["item"].dtype == pl.Date
    few = model.recommend("u1", candidates=model.item_ids[:4], exclude_seen=False)
    assert set(few["item"].to_numpy()) == set(model.item_ids[:4])
    assert len(model.similar_items(datetime.date(2024, 1, 3))) == 10


def test_a_user_known_only_from_the_table_goes_by_features():
    data = described()
    data = data.with_users(pl.DataFrame({"user": [*data.users.ids, "idle"],
                                         "sex": [*data.user_table["sex"], "m"]}))  # fmt: skip
    model = FMPair(factors=4, epochs=40, regularization={"user": 0.5}).fit(data)
    assert (model.recommend("idle", n=5)["item"] % 2 == 1).all()


def test_an_item_nobody_chose_does_not_stand_above_those_chosen():
    data = Dataset.from_frame(two_tastes().frame(), items={"item": [*range(20), 100, 101]})
    model = FMPair(factors=4, epochs=30).fit(data)
    first = model.recommend(n=3, exclude_seen=False)
    assert set(first["item"]).isdisjoint({100, 101})


def test_the_model_says_what_it_is():
    assert repr(learned()) == "Recommender(FMPair, 40 users, 20 items, context time)"
