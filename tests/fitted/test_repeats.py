"""What an earlier item gains itself: in scores, lists, ranks, rules and explanations."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import fmpair
from fmpair import Dataset, FMPair, Protocol, evaluate
from fmpair.errors import OptionError
from fmpair.fitted import large_catalogue

GAIN, ITEMS = 3.0, 30
HISTORY = {"last": 3, "fade": 1.0}


def clicks(users=60, steps=6):
    """Random items; every item has a colour."""
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "user": np.repeat([f"u{n}" for n in range(users)], steps),
            "item": [f"i{n}" for n in rng.integers(0, ITEMS, users * steps)],
            "timestamp": np.tile(np.arange(steps), users),
        }
    )


COLOURS = pl.DataFrame(
    {"item": [f"i{n}" for n in range(ITEMS)], "colour": ["red", "blue", "green"] * (ITEMS // 3)}
)


@pytest.fixture(scope="module")
def pair():
    """A model without gains, and the same one with them."""
    data = Dataset.from_frame(clicks(), items=COLOURS)
    without = FMPair(factors=8, epochs=3, history=HISTORY, fields={}).fit(data)
    history = replace(without.space.history, repeat=GAIN)
    return without, without.replaced(space=replace(without.space, history=history))


def gains(history):
    """What each item gains after these items: half a gain for the last but one, and so on."""
    out = dict.fromkeys(COLOURS["item"], 0.0)
    for age, item in enumerate(reversed(history[-3:]), 1):
        out[item] += GAIN / age
    return out


def scores(model, history):
    lists = model.recommend(history=history, n=ITEMS, exclude_seen=False)
    return dict(lists.select("item", "score").iter_rows())


@pytest.mark.parametrize("history", [["i3"], ["i3", "i4", "i3", "i5"], ["i1", "i2", "i7", "i9"]])
def test_earlier_items_gain_their_weight_times_the_option(pair, history):
    without, with_gains = (scores(model, history) for model in pair)
    expected = {item: without[item] + gain for item, gain in gains(history).items()}
    assert with_gains == pytest.approx(expected, abs=1e-5)


def test_the_option_of_a_fit_is_added_after_training(pair):
    data = Dataset.from_frame(clicks(), items=COLOURS)
    recipe = FMPair(factors=8, epochs=3, history={**HISTORY, "repeat": GAIN}, fields={})
    assert scores(recipe.fit(data), ["i3"]) == scores(pair[1], ["i3"])


@pytest.mark.parametrize("n", [1, 4])
def test_short_lists_are_the_beginning_of_long_ones(pair, n):
    whole = pair[1].recommend(n=ITEMS, exclude_seen=False)
    short = pair[1].recommend(n=n, exclude_seen=False)
    assert short.equals(whole.filter(pl.col("rank") <= n))


def test_seen_items_stay_out_of_lists(pair):
    without, with_gains = (model.recommend(n=5) for model in pair)
    assert with_gains.select("user", "item").equals(without.select("user", "item"))


def test_candidates_and_rules_list_what_they_allow(pair):
    model, red = pair[1], [f"i{n}" for n in range(0, ITEMS, 3)]
    whole = model.recommend(n=ITEMS, exclude_seen=False).filter(pl.col("item").is_in(red))
    best = whole.group_by("user", maintain_order=True).head(4).select("user", "item")
    for rule in ({"candidates": red}, {"where": "colour=red"}):
        listed = model.recommend(n=4, exclude_seen=False, **rule)
        assert listed.select("user", "item").equals(best)


@pytest.mark.parametrize("rule", [{}, {"where": "colour=red"}, {"boost": {"colour": {"red": 1}}}])
def test_lists_of_a_large_catalogue_are_the_same(pair, rule, monkeypatch):
    wanted = pair[1].recommend(n=4, exclude_seen=False, **rule)
    monkeypatch.setattr(large_catalogue, "LARGE", 1)
    listed = pair[1].recommend(n=4, exclude_seen=False, **rule)
    assert listed.drop("score").equals(wanted.drop("score"))
    np.testing.assert_allclose(listed["score"], wanted["score"], atol=1e-5)


def test_one_answer_has_the_scores_of_a_frame_of_many(pair):
    model = pair[1]
    many = model.recommend(n=3, exclude_seen=False)
    alone = model.recommend("u7", n=3, exclude_seen=False)
    assert alone["item"].equals(many.filter(user="u7")["item"])
    scored = model.score(many.select("user", "item"))
    np.testing.assert_allclose(scored["score"], many["score"], atol=1e-5)


def test_the_terms_add_up_to_the_score(pair):
    model = pair[1]
    user, item, score, _ = model.recommend("u7", n=1, exclude_seen=False).row(0)
    terms = model.explain(user, item)
    assert terms["value"].sum() == pytest.approx(score, abs=1e-5)
    assert terms.row(0)[:2] == (f"history={item}", f"item={item}")


def test_users_who_have_just_chosen_an_item_come_first(pair):
    last = clicks().group_by("user").last().filter(item="i5")["user"].to_list()
    users = pair[1].recommend_users("i5", n=len(last), exclude_seen=False)["user"]
    assert set(users) == set(last)


@pytest.mark.parametrize("device", [None, "cpu"])
def test_evaluation_ranks_by_scores_with_gains(pair, device, monkeypatch):
    monkeypatch.setattr("fmpair.evaluation.evaluation.ranking_device", lambda *_: device)
    model, train = pair[1], Dataset.from_frame(clicks())
    asked = [(f"u{n}", f"i{n % ITEMS}", 99) for n in range(40)]
    test = pl.DataFrame(asked, schema=["user", "item", "timestamp"], orient="row")
    protocol = Protocol(unit="interaction", seen="none")
    values = evaluate(model, train, test, protocol, ["mrr@30"]).units["mrr@30"]
    ranks = model.recommend(n=ITEMS, exclude_seen=False)
    expected = test.join(ranks, on=["user", "item"], maintain_order="left")["rank"]
    np.testing.assert_allclose(values, 1 / expected)


def test_models_with_gains_are_stored(pair, tmp_path):
    pair[1].save(tmp_path / "m.fmpair")
    loaded = fmpair.load(tmp_path / "m.fmpair")
    assert scores(loaded, ["i3", "i4"]) == scores(pair[1], ["i3", "i4"])


@pytest.mark.parametrize(("given", "said"), [
    ({"repeat": -1}, "repeat of a field must be 0 or more, not -1"),
    ({"repeat": 2, "of": ["colour"]}, "repeat requires 'item' in of"),
])  # fmt: skip
def test_gains_that_make_no_sense_are_refused(given, said):
    with pytest.raises(OptionError, match=said):
        FMPair(history={**HISTORY, **given})


def test_the_score_of_a_visitor_is_explained(pair):
    model, history = pair[1], ["i3", "i4"]
    terms = model.explain(None, "i4", history=history)
    assert terms["value"].sum() == pytest.approx(scores(model, history)["i4"], abs=1e-5)
    with pytest.raises(OptionError, match="give user, or history of a visitor"):
        model.explain(None, "i4")
