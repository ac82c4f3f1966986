import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, Popularity, Protocol, evaluate
from fmpair.data.splits import leave_last_out
from fmpair.errors import OptionError
from fmpair.models import MarkovChain
from fmpair.testing import (
    cold_items,
    day_and_night,
    daytime_log,
    purchase_log,
    session_log,
    two_tastes,
)
from fmpair.testing.known_answers import left_out

LOGS = (session_log, daytime_log, purchase_log)
TIME = pl.col("event_time").str.to_datetime("%Y-%m-%d %H:%M:%S UTC")


def before(column):
    """The column's value at the event before of the session."""
    return pl.col(column).shift().over("session_id")


def hit_rate(recipe, log):
    data = Dataset.from_frame(log.select("user_id", "product_id", "event_time"))
    train, _, test = leave_last_out(data).parts(data)
    return evaluate(recipe.fit(train), train, test, Protocol(seen="none"), ["hit@1"]).means["hit@1"]


@pytest.mark.parametrize("log", LOGS)
def test_a_log_is_the_same_for_the_same_seed_and_as_long_as_asked_for(log):
    small = {"users": 50, "items": 30, "events": 1_001}
    assert log(**small, seed=3).equals(log(**small, seed=3))
    assert not log(**small, seed=3).equals(log(**small, seed=4))
    assert len(log(**small)) == 1_001


@pytest.mark.parametrize("log", LOGS)
def test_times_are_in_order_and_sessions_are_a_quarter_of_an_hour_apart(log):
    events = log(100, 50, 3_000).with_columns(TIME)
    assert events["event_time"].is_sorted()
    gap = events.select(pl.col("event_time").diff().over("user_id").dt.total_seconds()).to_series()
    assert gap.min() >= 8
    assert not gap.is_between(91, 15 * 60 - 1).any()
    assert 0.15 < (gap > 90).mean() < 0.35  # a session has about four choices


@pytest.mark.parametrize("log", LOGS)
def test_some_products_are_far_more_popular_and_each_has_one_price(log):
    events = log(200, 100, 6_000)
    counts = events["product_id"].value_counts(sort=True)["count"]
    assert counts.head(10).sum() > 0.2 * len(events)
    assert (events.group_by("product_id").agg(pl.n_unique("price"))["price"] == 1).all()


def test_the_follower_of_a_product_comes_as_often_as_said():
    log = session_log(habit=0.6)
    pairs = log.with_columns(last=before("product_id")).drop_nulls("last")
    assert (pairs["last"] != pairs["product_id"]).all()
    counts = pairs.group_by("last", "product_id").len().sort("len").group_by("last").last()
    assert counts["len"].sum() / len(pairs) == pytest.approx(0.62, abs=0.04)
    assert counts["product_id"].n_unique() == 300  # each product follows one other


def test_a_markov_chain_finds_the_habit_and_there_is_none_without_it():
    log = session_log(200, 100, 8_000)
    assert hit_rate(MarkovChain(), log) > 0.3 > 0.1 > hit_rate(Popularity(), log)
    assert hit_rate(MarkovChain(), session_log(200, 100, 8_000, habit=0)) < 0.1


@pytest.mark.parametrize(("pull", "least", "most"), [(2.0, 0.5, 1.0), (0.0, 0.0, 0.3)])
def test_products_have_an_hour_if_the_daytime_pulls(pull, least, most):
    log = daytime_log(events=10_000, pull=pull)
    hour = (TIME.dt.hour() + TIME.dt.minute() / 60) * (2 * np.pi / 24)
    angles = log.select("product_id", x=hour.cos(), y=hour.sin())
    mean = angles.with_columns(pl.col("x") - pl.col("x").mean(), pl.col("y") - pl.col("y").mean())
    by_product = mean.group_by("product_id").agg(pl.len(), pl.mean("x"), pl.mean("y"))
    often = by_product.filter(pl.col("len") >= 50)
    length = (often["x"] ** 2 + often["y"] ** 2).sqrt()
    assert len(often) > 30
    assert least < length.median() < most


def test_a_quarter_of_purchase_events_repeat_the_one_before_in_chains():
    log = purchase_log()
    again = log.with_columns(TIME, last=before("product_id"), was=before("event_type"))
    repeats = again.filter(pl.col("last") == pl.col("product_id"))
    assert len(repeats) == 0.25 * len(log)
    chains = {("view", "cart"), ("cart", "buy")}
    assert set(repeats.select("was", "event_type").unique().rows()) == chains
    assert (repeats["event_type"] == "cart").mean() == pytest.approx(2 / 3, abs=0.01)
    views = again.filter(event_type="view")
    assert (views["last"].is_null() | (views["last"] != views["product_id"])).all()


@pytest.mark.parametrize(
    ("log", "options", "message"),
    [(session_log, {"habit": 1.5}, "habit must be a share from 0 to 1, not 1.5"),
     (purchase_log, {"repeats": 0.9}, "repeats must be a share from 0 to 0.6, not 0.9"),
     (session_log, {"users": 2}, "users must be more than 2: one would have")],
)  # fmt: skip
def test_what_cannot_be_is_refused(log, options, message):
    with pytest.raises(OptionError, match=message):
        log(**options)


def test_by_day_only_even_items_are_chosen_and_by_night_only_odd_ones():
    frame = day_and_night().frame()
    assert frame["user"].n_unique() == 40 and frame["item"].n_unique() == 20
    assert ((frame["item"] % 2 == 0) == (frame["time"] == "day")).all()
    assert set(frame["time"]) == {"day", "night"}


def test_day_and_night_leaves_every_user_half_of_the_items_unseen():
    assert (np.diff(day_and_night(users=7, items=12).seen.start) == 6).all()


def test_day_and_night_is_the_same_for_the_same_seed():
    assert day_and_night(seed=3).frame().equals(day_and_night(seed=3).frame())
    assert not day_and_night(seed=3).frame().equals(day_and_night(seed=4).frame())


def test_two_tastes_never_mix_and_each_user_lacks_one_item():
    frame = two_tastes().frame()
    for number in range(40):
        own = frame.filter(user=f"u{number}")["item"].to_list()
        lacking = {i for i in range(20) if i % 2 == number % 2} - set(own)
        assert lacking == {int(left_out(np.array(number)))}
        assert len(own) == 9 and all(i % 2 == number % 2 for i in own)


def test_cold_items_have_a_kind_but_no_event():
    data = cold_items()
    frame = data.frame()
    assert set(data.items.ids) == set(range(20))
    assert set(range(14, 20)).isdisjoint(frame["item"])
    assert set(frame["item"]) == set(range(14))
    kinds = dict(zip(data.items.ids, data.item_table["kind"]))
    assert all(kinds[i] == ("calm" if i % 2 == 0 else "loud") for i in range(20))


def test_each_group_of_cold_items_chooses_its_own_kind():
    frame = cold_items().frame()
    odd_user = frame["user"].str.slice(1).cast(int) % 2
    assert (odd_user == frame["item"] % 2).all()
