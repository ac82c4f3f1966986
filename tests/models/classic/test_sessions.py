"""V-SKNN and Markov chains: scores known by hand, and computed again one session at a time."""

import math
from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmpair import Dataset
from fmpair.data.times import timelines
from fmpair.errors import DataError, Notice, OptionError
from fmpair.models import VSKNN, ItemKNN, MarkovChain, load
from fmpair.models.classic import sessions as module
from fmpair.models.classic.sessions import DECAYS, followers

ITEMS = "abcdef"
WEIGHT = {
    "none": lambda place, length: 1,
    "linear": lambda place, length: 1 - place / length,
    "log": lambda place, length: 1 / math.log(place + 1.7),
    "harmonic": lambda place, length: 1 / (place + 1),
}


def log_of(sessions):
    """Sessions one after the other, a second between clicks."""
    rows = [(f"s{n}", item) for n, session in enumerate(sessions) for item in session]
    frame = pl.DataFrame(rows, schema=["session", "item"], orient="row")
    return Dataset.from_frame(
        frame.with_row_index("time"), user="session", item="item", timestamp="time"
    )


def slow_scores(sessions, current, options):
    """The scores of all items, one session at a time, the latest session first."""
    place = {item: len(current) - 1 - n for n, item in enumerate(current)}
    known = {item: len([s for s in sessions if item in s]) for item in ITEMS}
    sharing = [set(s) for s in reversed(sessions) if set(s) & set(current)][: options.sample]

    def weigh(decay, shared):
        return [WEIGHT[decay](place[item], len(current)) for item in shared]

    similar = [sum(weigh(options.decay, s & set(current))) for s in sharing]
    order = sorted(range(len(sharing)), key=lambda n: (-round(similar[n], 9), n))[: options.k]
    scores: dict[str, float] = {}
    for n in order:
        match = max(weigh(options.match_decay, sharing[n] & set(current)))
        for item in sharing[n]:
            rare = 1 + options.idf * math.log(len(sessions) / known[item])
            scores[item] = scores.get(item, 0) + similar[n] * match * rare
    return {item: known[item] / len(sessions) - 1 for item in ITEMS} | scores


SESSIONS = st.lists(st.text(ITEMS, min_size=1, max_size=6), min_size=1, max_size=12)
OPTIONS = st.builds(
    VSKNN, k=st.integers(1, 4), sample=st.integers(1, 6), idf=st.sampled_from([0.0, 1.0, 2.5]),
    decay=st.sampled_from(DECAYS), match_decay=st.sampled_from(DECAYS),
)  # fmt: skip


@given(SESSIONS, st.lists(st.text(ITEMS, min_size=1, max_size=8), min_size=1, max_size=5), OPTIONS)
def test_scores_are_those_computed_one_session_at_a_time(sessions, current, options):
    sessions = [ITEMS, *sessions]  # every item is known
    model = options.fit(log_of(sessions))
    asked = pl.DataFrame({"history": [list(s) for s in current]})
    queries = model.queries(asked, "features")
    found = model.scorer.following(queries.history)
    for row, session in zip(found, current):
        wanted = slow_scores(sessions, session, options)
        assert row.tolist() == pytest.approx([wanted[i] for i in model.item_ids], rel=1e-5)


def test_the_items_of_the_most_similar_session_are_first():
    model = VSKNN(k=1, idf=0).fit(log_of(["abc", "abd", "ef"]))
    listed = model.recommend(history=["a", "b"], n=2)
    assert listed["item"].to_list()[0] == "d"  # equally similar: the later session
    assert model.recommend(history=["f"], n=1)["item"].to_list() == ["e"]
    both = model.recommend(history=["a", "b"], n=3, exclude_seen=False)
    assert set(both["item"]) == {"a", "b", "d"}  # repeats are listed on request


def test_only_the_latest_sessions_are_compared():
    log = log_of(["ab", "ac", "ad"])
    everyone = VSKNN(sample=3).fit(log).recommend(history=["a"], n=3)
    assert (everyone["score"] > 0).all()
    last = VSKNN(sample=1).fit(log).recommend(history=["a"], n=3)
    assert last.filter(pl.col("score") > 0)["item"].to_list() == ["d"]


def test_lists_go_on_with_popular_items():
    data = log_of(["bca", "ca", "de"])  # d and e have no training event
    model = VSKNN().fit(data.take(np.arange(5)))
    unknown, both = (model.recommend(history=h, n=5) for h in (["d"], ["d", "b"]))
    assert unknown["item"].to_list() == ["c", "a", "b", "e"] and unknown["score"][
        2:4
    ].to_list() == [-0.5, -1]
    assert both["item"].to_list() == ["c", "a", "e"]


def test_a_batch_in_pieces_scores_as_a_whole(monkeypatch):
    sessions = ["abc", "bcd", "aef", "fab", "cd"]
    scorer = VSKNN().fit(log_of(sessions)).scorer
    whole = scorer.following(scorer.known.training)
    monkeypatch.setattr(module, "PAIRS_AT_ONCE", 1)
    np.testing.assert_array_equal(scorer.following(scorer.known.training), whole)


def test_a_known_user_is_asked_about_by_all_events_also_new_ones(tmp_path):
    model = VSKNN().fit(log_of(["abc", "bd", "de"]))
    more = pl.DataFrame({"session": ["s2"], "item": ["b"]})
    grown = model.extended(more)
    by_history = model.recommend(history=["d", "e", "b"], n=6, exclude_seen=False)
    assert grown.recommend("s2", 6, exclude_seen=False)["score"].to_list() == (
        by_history["score"].to_list()
    )
    assert grown.scorer.known is model.scorer.known  # nothing is computed anew
    grown.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.recommend("s2", 3).equals(grown.recommend("s2", 3))


def test_sessions_need_an_order_and_valid_options():
    bare = {"user": list("aab"), "item": list("xyx")}
    with pytest.raises(DataError, match="the data have no times"):
        VSKNN().fit(bare)
    model = VSKNN().fit(Dataset.from_frame(bare, order="per-user"))
    assert model.recommend(history=["x"], n=1)["item"].to_list() == ["y"]
    for options in ({"k": 0}, {"sample": 0}, {"decay": "cubic"}, {"match_decay": ""}, {"idf": -1}):
        with pytest.raises(OptionError, match=next(iter(options))):
            VSKNN(**options)


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
