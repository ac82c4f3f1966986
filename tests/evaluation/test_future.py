"""The next item of each user: what is ranked, what is left out, and no look into the future."""

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset
from fmpair.data.parts import split_of
from fmpair.data.splits import by_time, holdout, leave_last_out
from fmpair.errors import DataError, Notice
from fmpair.evaluation import Protocol, evaluate
from fmpair.evaluation.protocol import preset
from fmpair.models import FMPair

# Four events of either user, the times of b's all after a's second.
EVENTS = {
    "user": ["a", "a", "a", "a", "b", "b", "b", "b"],
    "item": [0, 1, 2, 3, 1, 2, 3, 4],
    "timestamp": [1, 2, 30, 40, 11, 21, 31, 41],
}
DATA = Dataset.from_frame(EVENTS)


def ranks(scores, train, test, protocol):
    """(user, item, rank) of every unit, for a scorer that gives everybody the same scores."""
    found = evaluate(
        lambda rows: np.tile(np.asarray(scores, np.float32), (len(rows), 1)),
        train, test, protocol, ["mrr@9"],
    )  # fmt: skip
    rows = found.units.select("user", "item", "mrr@9").rows()
    return [(user, item, round(1 / value)) for user, item, value in rows]


def test_the_last_event_tests_and_all_that_the_user_had_before_leaves_the_list():
    split = leave_last_out(DATA, validation=1)
    train, validation, test = split.parts(DATA)
    assert validation.frame()["item"].to_list() == [2, 3]
    assert test.frame()["item"].to_list() == [3, 4]
    worst = [5, 4, 3, 1, 2]  # of the items 0 to 4, all that a had stand above 3
    found = ranks(worst, split.before_test(DATA), test, preset("next-item"))
    assert found == [("a", 3, 2), ("b", 4, 2)]  # behind 4, behind 0: all others they had
    without_validation = ranks(worst, train, test, preset("next-item"))
    assert without_validation == [("a", 3, 3), ("b", 4, 2)]  # a's 2 was not known to be had


def test_of_a_users_test_events_the_next_new_item_is_relevant():
    split = by_time(DATA, after=30)
    train, _, test = split.parts(DATA)
    assert test.frame()["item"].to_list() == [2, 3, 3, 4]
    found = ranks([1, 2, 3, 4, 5], train, test, preset("next-item-in-time"))
    assert [(user, item) for user, item, _ in found] == [("a", 2), ("b", 3)]
    again = Dataset.from_frame({**EVENTS, "item": [0, 1, 1, 3, 1, 2, 3, 4]})
    train, _, test = split.parts(again)
    found = ranks([1, 2, 3, 4, 5], train, test, preset("next-item-in-time"))
    assert [(user, item) for user, item, _ in found] == [("a", 3), ("b", 3)]  # 1 is not new to a


def test_of_test_events_at_one_time_the_first_row_is_next():
    data = Dataset.from_frame({"user": ["a"] * 3, "item": [0, 2, 1], "timestamp": [1, 5, 5]})
    train, test = data.take(np.array([0])), data.take(np.array([1, 2]))
    assert ranks([0, 0, 0], train, test, Protocol(relevant="next"))[0][:2] == ("a", 2)


def judged(train, test, protocol):
    return evaluate(lambda rows: np.zeros((len(rows), 5)), train, test, protocol)


def test_training_on_later_events_is_refused_by_name():
    train, _, test = leave_last_out(DATA).parts(DATA)
    judged(train, test, "next-item-in-time")
    moved = Dataset.from_frame({**EVENTS, "timestamp": [1, 2, 3, 20, 11, 21, 31, 41]})
    train, _, test = leave_last_out(moved).parts(moved)
    judged(train, test, "next-item")
    with pytest.raises(DataError, match="1 of 2 test events are older than the latest training "
                       "event of all, so the model is trained on later events"):  # fmt: skip
        judged(train, test, "next-item-in-time")
    first, rest = DATA.take(np.array([0, 4])), DATA.take(np.array([1, 2, 3, 5, 6, 7]))
    with pytest.raises(DataError, match=r"2 of 2 test .* training event of their own user"):
        judged(rest, first, "next-item")


def test_events_without_times_or_an_order_have_no_next_item():
    bare = Dataset.from_frame({"user": EVENTS["user"], "item": EVENTS["item"]})
    train, test = bare.take(np.arange(6)), bare.take(np.arange(6, 8))
    with pytest.raises(DataError, match="after='user' needs times, and the training events have"):
        judged(train, test, "next-item")
    with pytest.raises(DataError, match="the data have no times"):
        evaluate(lambda rows: np.zeros((len(rows), 5)), train, test, Protocol(relevant="next"))


def test_an_order_of_each_users_rows_is_enough_for_next_but_not_for_all():
    data = Dataset.from_frame(
        {"user": EVENTS["user"], "item": EVENTS["item"]}, order="per-user"
    )  # fmt: skip
    split = leave_last_out(data, validation=1)
    known, test = split.before_test(data), split.parts(data)[2]
    found = ranks([5, 4, 3, 1, 2], known, test, preset("next-item"))
    assert found == [("a", 3, 2), ("b", 4, 2)]
    with pytest.raises(DataError, match="different users is not known; use after='user'"):
        ranks([5, 4, 3, 1, 2], known, test, preset("next-item-in-time"))


def test_a_model_that_goes_by_what_came_last_is_not_judged_unsaid_by_what_came_earlier():
    rng = np.random.default_rng(0)
    events = pl.DataFrame(
        {
            "user": rng.integers(0, 30, 600),
            "item": rng.integers(0, 20, 600),
            "timestamp": np.arange(600),
        }
    )
    data = Dataset.from_frame(events)
    train, _, test = holdout(data, test=0.3).parts(data)
    model = FMPair(history=3, factors=4, epochs=1).fit(train)
    with pytest.warns(Notice, match=r"test events are older than that.*history=0"):
        evaluate(model, train, test)


def test_training_events_of_a_random_split_have_gaps_and_those_of_a_split_in_time_none():
    frame = pl.DataFrame({"user": [1, 1, 1, 2, 2, 2], "item": [1, 2, 3] * 2, "timestamp": range(6)})
    data = Dataset.from_frame(frame)
    assert not leave_last_out(data).parts(data)[0].gaps
    assert split_of(np.array([1, 2, 4, 5]), np.zeros(0), np.array([0, 3])).parts(data)[0].gaps
