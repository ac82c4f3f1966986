"""Two arms compared: by users, with intervals that hold what they promise."""

import numpy as np
import polars as pl
import pytest

from fmpair.errors import DataError, Notice
from fmpair.evaluation.clusters import Clusters
from fmpair.evaluation.statistics import permuted, unpaired
from fmpair.events.compare import MEASURES, by_user, compared, measured
from fmpair.events.event import Event, Impression
from fmpair.events.store import open_store

T, HOUR = 1_700_000_000_000_000, 3_600_000_000


@pytest.fixture
def store(tmp_path):
    own = open_store(tmp_path / "events.db")
    yield own
    own.close()


def shown(user, arm, *items, at=0):
    return Impression(user, items, T + at * HOUR, arm)


def clicked(user, item, at):
    return Event(user, item, T + int(at * HOUR))


def test_counts_of_a_user_are_those_of_events_that_follow_lists(store):
    store.record(
        [
            shown("a", "current", "x", "y"),
            shown("a", "current", "x", at=2),
            shown("b", "candidate", "x"),
            shown("c", "candidate", 7, at=1),
        ]
    )
    store.append(
        [
            clicked("a", "x", 3),  # follows both lists: one event, two lists
            clicked("a", "y", 30),  # too late for a day
            clicked("a", "z", 4),  # on no list
            clicked("b", "x", 0),  # at the very moment: it cannot have followed
            clicked("c", "7", 2),  # a number and its text are one item
            clicked("d", "x", 2),  # was shown nothing
        ]
    )
    frame = compared(store).select("measure", "current", "candidate", "difference")
    assert frame.rows() == [
        ("lists per user", 2.0, 1.0, -1.0),
        ("users who follow", 1.0, 0.5, -0.5),
        ("hits per user", 1.0, 0.5, -0.5),
        ("events per user", 3.0, 0.5, -2.5),
        ("lists with a hit", 1.0, 0.5, -0.5),
        ("hits per list", 0.5, 0.5, 0.0),
    ]
    assert compared(store, within=40 * HOUR)["current"].to_list() == [2.0, 1.0, 2.0, 3.0, 1.0, 1.0]
    assert compared(store)["current_users", "candidate_users"].rows()[0] == (1, 2)


def test_purchases_and_revenue_are_compared_without_the_clicks(store):
    store.record([shown("a", "current", "x", "y"), shown("a", "current", "x", at=1)])
    store.record([shown("b", "candidate", "x"), shown("c", "candidate", "x")])
    with pytest.raises(DataError, match=r"is a purchase \(types: none\): send purchases with"):
        compared(store, outcome="purchases")

    def did(user, item, at, event, value=None):
        return Event(user, item, T + at * HOUR, event=event, value=value)

    store.append([did("a", "x", 2, "view"), did("a", "x", 3, "Buy"), did("c", "x", 1, "cart", 90)])
    with pytest.raises(DataError, match="no purchase of the store has a value"):
        compared(store, outcome="revenue")
    store.append([did("b", "x", 1, "purchase", 30), did("b", "z", 2, "purchase", 12.5)])
    store.append([did("b", "x", 3, "purchase", -10)])  # a refund
    rows = {
        outcome: compared(store, outcome=outcome).select("measure", "current", "candidate").rows()
        for outcome in ("purchases", "revenue")
    }
    assert rows["purchases"] == [
        ("lists per user", 2.0, 1.0),
        ("users who buy from lists", 1.0, 0.5),
        ("purchases from lists per user", 1.0, 1.0),
        ("purchases per user", 1.0, 1.5),
        ("lists with a purchase", 1.0, 0.5),
        ("purchases per list", 0.5, 1.0),
    ]
    assert rows["revenue"][2:4] == [
        ("revenue from lists per user", 0.0, 10.0), ("revenue per user", 0.0, 16.25)
    ]  # fmt: skip
    assert rows["revenue"][5] == ("revenue per list", 0.0, 10.0)


def test_only_what_happened_while_both_were_in_service_counts(store):
    store.record([shown("a", "current", "x", at=hour) for hour in range(-10, 3)])
    store.record([shown("b", "candidate", "x", at=0), shown("e", "current", "x", at=-5)])
    store.append([clicked("a", "x", -9), clicked("b", "x", 1)])
    frame = compared(store)
    assert frame["current"].to_list() == [3.0, *[0.0] * 5]
    assert frame["candidate"].to_list() == [1.0] * 6
    assert frame["current_users"][0] == 1
    with pytest.raises(DataError, match="no user was shown a list of the candidate model"):
        compared(store, since=T + HOUR)


def test_users_who_were_moved_are_left_out_and_counted(store):
    store.record([shown("a", "current", "x"), shown("a", "candidate", "x", at=1)])
    store.record([shown("b", "current", "x"), shown("c", "candidate", "x")])
    store.append([])
    with pytest.warns(Notice, match="excluded 1 users who moved"):
        assert compared(store)["current_users"][0] == 1


def test_without_lists_of_both_there_is_nothing_to_compare(store):
    with pytest.raises(DataError, match="no lists of the current model are stored"):
        compared(store)
    store.record([shown("a", "current", "x")])
    store.append([])
    with pytest.raises(DataError, match=r"candidate model are stored: `fmpair serve --candidate"):
        compared(store)


def world(rng, users, share, better=0.0, fewer=1.0):
    """Users of very different activity and taste, who were as active before the comparison.

    better: how much more often lists of the candidate hit; fewer: its share of lists.
    """
    arm = np.where(rng.permutation(users) < share * users, "candidate", "current")
    activity, taste = rng.lognormal(0, 1.2, users), rng.beta(0.5, 6, users)
    lists = 1 + rng.poisson(3 * activity * np.where(arm == "candidate", fewer, 1))
    hits = rng.binomial(lists, np.minimum(taste * np.where(arm == "candidate", 1 + better, 1), 1))
    return pl.DataFrame(
        {"user": np.arange(users).astype(str), "arm": arm, "lists": lists, "hit_lists": hits,
         "hits": hits, "events": hits + rng.poisson(lists), "follows": (hits > 0).astype(int),
         "before": rng.poisson(20 * activity * taste)}
    )  # fmt: skip


def significant(times, **options):
    """The share of comparisons that find a difference, by measure."""
    rng = np.random.default_rng(7)
    p = np.array([measured(world(rng, **options))["p"].to_numpy() for _ in range(times)])
    return dict(zip(MEASURES["clicks"], (p < 0.05).mean(axis=0)))


@pytest.mark.thorough
@pytest.mark.parametrize("fewer", [1.0, 0.5])
@pytest.mark.parametrize("share", [0.5, 0.1, 0.02])
def test_where_lists_are_equally_good_one_in_twenty_comparisons_says_otherwise(
    share, fewer, monkeypatch
):
    monkeypatch.setattr(permuted, "__defaults__", (0.95, 100, 0))
    found = significant(100, users=900, share=share, fewer=fewer)
    if fewer < 1:  # then users of the candidate are shown fewer lists, and have fewer hits
        found = {name: found[name] for name in ("lists with a hit", "hits per list")}
    assert max(found.values()) <= 0.12, found  # three standard errors above .05


def test_with_eighteen_skewed_users_the_interval_is_not_welchs():
    users = world(np.random.default_rng(5), 900, 0.02)
    arms = [users.filter(pl.col("arm") == arm) for arm in ("candidate", "current")]
    few, many = (Clusters(a["hits"].to_numpy() * 1.0, np.ones(len(a))) for a in arms)
    exact, welch = permuted(few, many), unpaired(few, many)
    assert exact.mean == welch.mean
    assert exact.high - exact.mean > 1.2 * (welch.high - welch.mean)  # a long tail to the right


def test_a_better_model_is_found():
    frame = measured(world(np.random.default_rng(1), 4000, 0.4, better=0.8))
    row = frame.row(by_predicate=pl.col("measure") == "hits per list", named=True)
    assert 0 < row["low"] < 0.8 * row["current"] < row["high"] and row["p"] < 0.01


def test_what_users_did_before_narrows_the_interval():
    users = world(np.random.default_rng(2), 2000, 0.5)
    width = [
        frame.filter(measure="hits per user").select(pl.col("high") - pl.col("low")).item()
        for frame in (measured(users), measured(users.drop("before")))
    ]
    assert width[0] < 0.8 * width[1]


def test_measures_per_user_are_not_tested_where_one_arm_shows_fewer_lists(store):
    users = world(np.random.default_rng(3), 900, 0.5, fewer=0.4)
    frame = measured(users)
    assert frame["p"][0] < 0.05 and np.isnan(frame["p"][1:4].to_numpy()).all()
    assert not np.isnan(frame["p"][4:].to_numpy()).any()


def test_what_earlier_events_predict_is_not_the_models(store):
    # Active users have a hit under either model, and more of them got the current one.
    for n in range(100):
        active, arm = n % 2 == 0, "candidate" if n % 5 == 1 or n == 0 else "current"
        store.append([clicked(f"u{n}", "x", -5)] if active else [])
        store.record([shown(f"u{n}", arm, "x")])
        store.append([clicked(f"u{n}", "x", 2)] if active else [])
    frame = compared(store)
    assert frame["difference"].to_list() == pytest.approx([0.0] * 6, abs=1e-9)
    assert frame["candidate"].to_list()[1] == pytest.approx(0.5)


def test_too_few_users_are_said_with_how_many_would_do(store):
    for n in range(40):
        arm = "candidate" if n < 8 else "current"
        store.record([shown(f"u{n}", arm, "x")])
        store.append([clicked(f"u{n}", "x", 1)] if n % 3 == 0 else [])
    with pytest.warns(Notice, match=r"8 users of the candidate model are too few .* about \d+ w"):
        compared(store)


def test_one_user_in_an_arm_has_no_interval(store):
    users = by_user(
        pl.DataFrame({"user": ["a", "b"], "arm": ["current", "candidate"], "time": [T, T],
                      "items": [["x"], ["x"]]}),
        pl.DataFrame({"user": ["b"], "item": ["x"], "time": [T + 1], "amount": [1.0]}),
        HOUR,
    )  # fmt: skip
    found = measured(users)
    assert found["difference"][1] == 1.0 and np.isnan(found["low"].to_numpy()).all()
