"""The protocol of sessions: every next event is predicted from the events before it."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, FMPair, Popularity, Protocol, evaluate
from fmpair.data import by_session
from fmpair.errors import DataError, OptionError
from fmpair.evaluation import given_lists, preset
from fmpair.models import EASE, VSKNN, ItemKNN, MarkovChain, UserKNN

SESSIONS = preset("sessions")
TRAIN = {"user": list("ppqq"), "item": list("xyxz"), "timestamp": [1, 2, 3, 4]}
# s: x new y x; t: z, out of order in time with u: y z
TEST = {
    "user": ["s", "s", "s", "s", "t", "u", "u"],
    "item": ["x", "new", "y", "x", "z", "z", "y"],
    "timestamp": [11, 12, 13, 14, 15, 17, 16],
}


def remembered(train, test, protocol=SESSIONS):
    """The evaluation of a function, and the histories it was asked with."""
    asked = []

    def model(queries):
        asked.extend(queries.columns["history"].to_list())
        scores = np.zeros((len(queries), len(train.items)), np.float32)
        for row, history in enumerate(queries.columns["history"]):
            scores[row, train.items.numbers(history)] = 1  # an item of the history, any order
        return scores

    return evaluate(model, train, test, protocol, ["hit@1", "mrr@3"]), asked


def test_every_event_but_the_first_is_predicted_from_those_before_it():
    found, asked = remembered(Dataset.from_frame(TRAIN), Dataset.from_frame(TEST))
    # the new item is in no history and is not to be found; t has one event only
    assert found.units.select("user", "item", "row").rows() == [
        ("s", "y", 2), ("s", "x", 3), ("u", "z", 5)
    ]  # fmt: skip
    assert asked == [["x"], ["x", "y"], ["y"]]
    # y and z are not in their histories, behind x and y: ties of y and z share the ranks 2 and 3;
    # x is a repeat, tied with y for the ranks 1 and 2
    assert found.units["hit@1"].to_list() == [0, 0.5, 0]
    tied = (1 / 2 + 1 / 3) / 2
    assert found.units["mrr@3"].to_list() == pytest.approx([tied, 0.75, tied])


def test_parts_of_one_data_set_are_judged_as_parts_of_two():
    both = {name: TRAIN[name] + TEST[name] for name in TRAIN}
    data = Dataset.from_frame(both)
    train, _, test = by_session(data, test=0.6).parts(data)
    assert test.frame()["user"].to_list() == TEST["user"]
    found, asked = remembered(train, test)
    apart, told = remembered(Dataset.from_frame(TRAIN), Dataset.from_frame(TEST))
    assert asked == told and found.units["row"].to_list() == apart.units["row"].to_list()


def ring(sessions, items=12, length=5, first=0):
    """Sessions walk round a ring of items, one step a minute."""
    rows = [
        (f"v{first + s}", f"i{(7 * s + t) % items}", 600 * (first + s) + 60 * t)
        for s in range(sessions)
        for t in range(length)
    ]
    return pl.DataFrame(rows, schema=["user", "item", "timestamp"], orient="row")


RING, NEW = Dataset.from_frame(ring(60)), Dataset.from_frame(ring(24, first=60))


@pytest.mark.parametrize(
    "recipe",
    [
        MarkovChain(),
        FMPair(factors=8, history=1, times=False, order=2, epochs=80, threads=1),
    ],
    ids=lambda recipe: type(recipe).__name__,
)
def test_what_follows_is_found_for_sessions_that_no_model_knows(recipe):
    found = evaluate(recipe.fit(RING), RING, NEW, "sessions", ["hit@1"])
    assert len(found.units) == 24 * 4
    assert found.means["hit@1"] > 0.95


@pytest.mark.parametrize(
    "recipe",
    [VSKNN(), ItemKNN(shrinkage=0), EASE(), FMPair(factors=8, history=0, epochs=10, threads=1)],
    ids=lambda recipe: type(recipe).__name__,
)
def test_scores_are_those_of_a_question_with_the_history(recipe):
    model = recipe.fit(RING)
    found = evaluate(model, RING, NEW, "sessions", ["mrr@12"]).units
    asked = pl.DataFrame({"history": [["i0"], ["i0", "i1"], ["i0", "i1", "i2"]]})
    listed = model.recommend(asked, n=12, exclude_seen=False)
    for step in range(3):
        one = listed[12 * step : 12 * step + 12]
        score = one.filter(pl.col("item") == f"i{step + 1}")["score"][0]
        level = int((one["score"] == score).sum())
        above = int((one["score"] > score).sum())
        mean = np.mean([1 / (above + rank) for rank in range(1, level + 1)])
        assert found["mrr@12"][step] == pytest.approx(mean, abs=1e-6)


def test_popularity_is_the_same_for_every_history():
    found = evaluate(Popularity().fit(TRAIN), TRAIN, TEST, "sessions", ["mrr@3"])
    assert found.units["mrr@3"].to_list()[1] == 1  # x, the most popular


def test_users_with_training_events_are_no_new_sessions():
    known = {**TEST, "user": ["p", "p", "s", "s", "t", "u", "u"]}
    with pytest.raises(DataError, match="1 of 4 test users have training events: history='test'"):
        evaluate(MarkovChain().fit(TRAIN), TRAIN, known, "sessions")


def test_what_cannot_be_judged_by_sessions_is_refused():
    with pytest.raises(OptionError, match="history='test' needs unit='interaction'"):
        replace(SESSIONS, unit="user")
    with pytest.raises(OptionError, match="history must be one of train, test"):
        Protocol(history="all")
    with pytest.raises(OptionError, match="UserKNN cannot use history"):
        evaluate(UserKNN().fit(TRAIN), TRAIN, TEST, "sessions")
    lists = pl.DataFrame({"user": ["s"], "item": ["x"], "score": [1.0]})
    with pytest.raises(OptionError, match="a file has one list per user"):
        given_lists.judge(lists, TRAIN, TEST, "sessions")
    bare = {"user": TEST["user"], "item": TEST["item"]}
    with pytest.raises(DataError, match="the data have no times"):
        evaluate(MarkovChain().fit(TRAIN), TRAIN, bare, "sessions")
    single = {name: values[4:6] for name, values in TEST.items()}
    with pytest.raises(DataError, match="no test event is relevant"):
        evaluate(MarkovChain().fit(TRAIN), TRAIN, single, "sessions")
