"""Two arms compared: by users, with intervals that hold what they promise."""

import numpy as np
import polars as pl
import pytest

from fmpair.errors import DataError, Notice
from fmpair.events.compare import by_user, compared, measured
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
        ("users who follow", 1.0, 0.5, -0.5),
        ("hits per user", 1.0, 0.5, -0.5),
        ("events per user", 3.0, 0.5, -2.5),
        ("lists with a hit", 1.0, 0.5, -0.5),
    ]
    assert compared(store, within=40 * HOUR)["current"].to_list() == [1.0, 2.0, 3.0, 1.0]
    assert compared(store)["current_users", "candidate_users"].rows()[0] == (1, 2)


def test_only_what_happened_while_both_were_in_service_counts(store):
    store.record([shown("a", "current", "x", at=hour) for hour in range(-10, 3)])
    store.record([shown("b", "candidate", "x", at=0), shown("e", "current", "x", at=-5)])
    store.append([clicked("a", "x", -9), clicked("b", "x", 1)])
    frame = compared(store)
    assert frame["current"].to_list() == [0.0] * 4 and frame["candidate"].to_list() == [1.0] * 4
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


def world(rng, users, better=0.0):
    """Users of very different activity, whose lists hit more often where the arm is better."""
    arm = np.where(rng.random(users) < 0.4, "candidate", "current")
    lists = 1 + rng.geometric(0.2, users)
    chance = np.clip(rng.beta(1, 4, users) + better * (arm == "candidate"), 0, 1)
    hits = rng.binomial(lists, chance)
    return pl.DataFrame(
        {"user": np.arange(users).astype(str), "arm": arm, "lists": lists, "hit_lists": hits,
         "hits": hits, "events": hits + rng.poisson(lists), "follows": (hits > 0).astype(int)}
    )  # fmt: skip


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_promise():
    rng = np.random.default_rng(7)
    inside = np.array(
        [
            measured(world(rng, 300)).select((pl.col("low") <= 0) & (pl.col("high") >= 0))
            .to_series().to_list()
            for _ in range(120)
        ]
    )  # fmt: skip
    assert (np.abs(inside.mean(axis=0) - 0.95) < 0.06).all(), inside.mean(axis=0)


def test_a_better_model_is_found():
    frame = measured(world(np.random.default_rng(1), 4000, better=0.1))
    row = frame.row(by_predicate=pl.col("measure") == "lists with a hit", named=True)
    assert row["low"] < 0.1 < row["high"] and row["low"] > 0 and row["p"] < 1e-6


def test_one_user_in_an_arm_has_no_interval(store):
    users = by_user(
        pl.DataFrame({"user": ["a", "b"], "arm": ["current", "candidate"], "time": [T, T],
                      "items": [["x"], ["x"]]}),
        pl.DataFrame({"user": ["b"], "item": ["x"], "time": [T + 1]}),
        HOUR,
    )  # fmt: skip
    found = measured(users)
    assert found["difference"][0] == 1.0 and np.isnan(found["low"].to_numpy()).all()
