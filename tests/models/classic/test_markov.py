"""What follows what: counts known by hand, and counted again the slow way."""

from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmpair import Dataset
from fmpair.data.times import timelines
from fmpair.errors import DataError, Notice, OptionError
from fmpair.models import ItemKNN, MarkovChain, load
from fmpair.models.classic.markov import followers

CHAIN = {"user": list("aaabbbcc"), "item": list("xyzxyxyx"), "timestamp": [1, 2, 3, 1, 2, 3, 1, 2]}


def test_items_are_ranked_by_what_followed_the_last_one():
    # after x came y twice; after y came x twice and z once; c's last is x, a's z
    model = MarkovChain(smoothing=1).fit(CHAIN)
    listed = dict(model.recommend("c", 3, exclude_seen=False).select("item", "score").rows())
    assert list(listed) == ["y", "x", "z"]
    assert listed["y"] == pytest.approx((2 + 3 / 8) / (2 + 1))
    assert listed["x"] == pytest.approx(4 / 8 / (2 + 1))
    y = model.scorer.chance.take(np.array([model.item_number("y")]))
    assert y.value.tolist() == pytest.approx([2 / 4, 1 / 4])
    nothing_follows = model.recommend("a", 3, exclude_seen=False)  # so popularity decides
    assert nothing_follows["item"].to_list() == ["x", "y", "z"]


def test_terms_add_up_to_the_score():
    model = MarkovChain().fit(CHAIN)
    terms = model.explain("b", "y")
    assert "after item=x" in str(terms.rows()) and "popularity" in str(terms.rows())
    assert terms["value"].sum() == pytest.approx(
        model.score({"user": ["b"], "item": ["y"]})["score"][0]
    )


EVENTS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 5)), min_size=1, max_size=40
)


@given(EVENTS)
def test_each_item_of_a_moment_follows_each_of_the_moment_before(events):
    user, item, moment = (np.array(column, np.int32) for column in zip(*events))
    found = followers(timelines(user, item, 4, moment.astype(np.int64)), 5)
    counted = Counter()
    for one in range(4):
        own = sorted({m for u, _, m in events if u == one})
        for now, then in zip(own[1:], own):
            before = [i for u, i, m in events if (u, m) == (one, then)]
            for i in [i for u, i, m in events if (u, m) == (one, now)]:
                for j in before:
                    counted[j, i] += 1 / len(before)
    assert {
        (int(o), int(c)): float(v) for o, c, v in zip(found.owner, found.column, found.value)
    } == (pytest.approx(counted))


def test_nothing_of_the_future_decides_and_ties_share():
    data = Dataset.from_frame({"user": ["a"] * 3, "item": ["x", "y", "z"], "timestamp": [1, 2, 2]})
    model = MarkovChain().fit(data)
    assert model.scorer.last.value.tolist() == [0.5, 0.5]
    assert model.scorer.chance.take(np.array([0])).column.tolist() == [1, 2]


def test_a_visitor_is_known_by_the_last_item_of_their_history():
    model = MarkovChain(smoothing=1).fit(CHAIN)
    listed = model.recommend(history=["z", "x", "y"], n=2, exclude_seen=False)
    assert listed["item"].to_list() == ["x", "z"]  # as after y
    again = model.recommend("a", 2, history=["y"], exclude_seen=False)
    assert again["score"].to_list() == listed["score"].to_list()


def test_further_events_are_known_without_learning():
    model = MarkovChain(smoothing=1).fit(CHAIN)
    more = pl.DataFrame({"user": ["c", "c", "new"], "item": ["x", "y", "z"]})
    with pytest.warns(Notice, match="1 of 3 events have unknown users or items"):
        grown = model.extended(more)
    assert grown.recommend("c", 1, exclude_seen=False)["item"].to_list() == ["x"]  # after y
    assert grown.recommend("b", 3).equals(model.recommend("b", 3))
    assert grown.scorer.chance is model.scorer.chance
    assert grown.seen.take(np.array([model.user_number("c")])).value.tolist() == [2, 2]
    with pytest.raises(OptionError, match="does not use history"):
        ItemKNN().fit(CHAIN).extended(more)


def test_a_chain_needs_times_or_an_order(tmp_path):
    bare = {"user": list("aab"), "item": list("xyx")}
    with pytest.raises(DataError, match="the data have no times"):
        MarkovChain().fit(bare)
    model = MarkovChain().fit(Dataset.from_frame(bare, order="per-user"))
    model.save(tmp_path / "m")
    asked = pl.DataFrame({"user": ["a", "b"], "item": ["x", "y"]})
    assert load(tmp_path / "m").score(asked).equals(model.score(asked))
    with pytest.raises(OptionError, match="smoothing"):
        MarkovChain(smoothing=0)
