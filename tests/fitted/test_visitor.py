"""Visitors without an id: lists from a few items, by what the model knows of users."""

from functools import cache

import numpy as np
import polars as pl
import pytest

from fmpair import FMPair
from fmpair.arrays import Rows
from fmpair.engine.contract import Parameters
from fmpair.engine.item_side import item_sides
from fmpair.errors import DataError, Notice, OptionError, UnknownError
from fmpair.fitted.visitor import history_moves, place_new, visitors
from fmpair.models import EASE, ImplicitALS, ItemKNN, Popularity, Random, UserKNN
from fmpair.testing import day_and_night, two_tastes

DATA = two_tastes()  # users choose even or odd items only
BY_SCORES = pytest.mark.parametrize("recipe", [EASE(regularization=1.0), ItemKNN()])


@cache
def learned():
    return FMPair(factors=4, epochs=40, seed=1).fit(DATA)


def parity(lists):
    return set((lists["item"] % 2).to_list())


@pytest.mark.parametrize("item", [4, 7])
def test_one_item_tells_the_taste_of_a_visitor(item):
    out = learned().recommend(history=[item], n=5)
    assert out.columns == ["item", "score", "rank"]
    assert parity(out) == {item % 2} and item not in out["item"]


def test_a_history_is_listed_again_when_seen_items_are_asked_for():
    assert 4 in learned().recommend(history=[4], n=10, exclude_seen=False)["item"]


def test_visitors_in_a_frame_get_what_each_gets_alone():
    frame = pl.DataFrame({"request": ["a", "b", "c"], "history": [[4, 8], [7], []]})
    out = learned().recommend(frame, n=3)
    assert out.columns == ["request", "item", "score", "rank"]
    for request, items in frame.rows():
        alone = learned().recommend(history=items, n=3)
        own = out.filter(request=request)
        assert own["item"].to_list() == alone["item"].to_list()
        np.testing.assert_allclose(own["score"], alone["score"], rtol=1e-5)


def test_a_history_may_be_text_with_bars_and_a_user_may_have_none():
    frame = pl.DataFrame({"user": ["u2", "someone"], "history": [None, "7|9"]})
    out = learned().recommend(frame, n=3)
    usual = learned().recommend("u2", n=3)
    assert out.filter(user="u2")["item"].to_list() == usual["item"].to_list()
    assert parity(out.filter(user="someone")) == {1}


def test_an_empty_history_is_that_of_a_usual_user():
    out = learned().recommend(history=[], n=20)
    nobody = learned().recommend("nobody", n=20, unknown="features")
    assert out["item"].to_list() == nobody["item"].to_list()


def test_a_history_moves_a_known_user_less_than_a_visitor():
    scores = {
        name: asked.filter(item=9)["score"].item()
        for name, asked in {
            "user": learned().recommend("u2", n=30, exclude_seen=False),
            "user and history": learned().recommend("u2", n=30, history=[7], exclude_seen=False),
            "visitor": learned().recommend(history=[7], n=30, exclude_seen=False),
        }.items()
    }  # u2 likes what is even
    assert scores["user"] < scores["user and history"] < scores["visitor"]


def test_a_context_joins_the_history():
    model = FMPair(factors=4, epochs=40, seed=1).fit(day_and_night())
    for time in ("day", "night"):
        out = model.recommend(history=[3], n=3, context={"time": time})
        assert out["time"].to_list() == [time] * 3
        assert parity(out) == {0 if time == "day" else 1}


def test_unknown_items_of_a_history_are_passed_over_and_counted():
    with pytest.warns(Notice, match=r"^history: 1 of 2 items are unknown.*the first is 999"):
        out = learned().recommend(history=[4, 999], n=5)
    assert out["item"].to_list() == learned().recommend(history=[4], n=5)["item"].to_list()
    with pytest.raises(UnknownError, match="unknown item 999"):
        learned().recommend(history=[4, 999], unknown="error")


def test_the_history_of_several_needs_a_frame():
    with pytest.raises(OptionError, match=r"one visitor, got 2: .* column 'history' of lists"):
        learned().recommend(["u1", "u2"], history=[3])
    with pytest.raises(DataError, match=r"column 'history' holds Int64: give lists"):
        learned().recommend(pl.DataFrame({"history": [3]}))


@BY_SCORES
def test_models_that_go_by_items_go_by_a_history(recipe):
    model = recipe.fit(DATA)
    out = model.recommend(history=[4, 8], n=3)
    assert parity(out) == {0} and {4, 8}.isdisjoint(out["item"])
    own = DATA.frame().filter(user="u2")["item"].unique().to_list()
    asked, known = model.recommend(history=own, n=3), model.recommend("u2", n=3)
    assert asked["item"].to_list() == known["item"].to_list()


def test_any_model_of_vectors_goes_by_a_history():
    assert parity(ImplicitALS(factors=4).fit(DATA).recommend(history=[4, 8], n=3)) == {0}
    popular = Popularity().fit(DATA)
    assert len(popular.recommend(history=[4], n=3)) == 3
    assert len(Random().fit(DATA).recommend(history=[4], n=3)) == 3


def test_a_model_that_cannot_go_by_a_history_says_so():
    with pytest.raises(OptionError, match="UserKNN cannot use history: it only knows the users"):
        UserKNN().fit(DATA).recommend(history=[4])


def test_the_step_is_that_of_the_posterior():
    """Held against the formula, solved directly."""
    users, items = learned().user_vectors.astype(float), learned().item_vectors.astype(float)
    common = visitors(items, learned().item_constants, users, learned().seen)
    mean = users.mean(axis=0)
    chance = np.exp(common.scale * (items @ mean + learned().item_constants))
    chance /= chance.sum()
    centre = chance @ items
    choices = (items * chance[:, None]).T @ items - np.outer(centre, centre)
    prior = np.linalg.inv(np.cov(users.T, bias=True))
    history = (
        learned().seen.take(np.array([2]))._replace(value=np.ones(len(learned().seen.take([2])[1])))
    )
    count = len(history.column)
    left = count * common.scale**2 * choices + prior
    right = common.scale * (items[history.column] - centre).sum(axis=0)
    step = history_moves(common, items, history)[0]
    np.testing.assert_allclose(step, np.linalg.solve(left, right), rtol=1e-3, atol=1e-5)


def test_the_scale_is_that_of_the_scores():
    """Scores of ten times the size are logarithms of chances at a tenth of the scale."""
    parts = (learned().item_vectors, learned().item_constants, learned().user_vectors)
    once = visitors(*parts, learned().seen).scale
    tenfold = visitors(10 * parts[0], 10 * parts[1], parts[2], learned().seen).scale
    assert tenfold == pytest.approx(once / 10, rel=1e-3)


def test_new_items_have_the_usual_length_of_lists_and_the_constant_of_rare_items():
    rng = np.random.default_rng(0)
    start, column = np.array([0, 2, 4, 6, 8, 9, 9]), np.array([0, 1, 1, 2, 0, 2, 0, 1, 2], np.int32)
    rows = Rows(start, column, rng.uniform(0.2, 1, 9).astype(np.float32))
    shapes = ((2, 4), (6, 4), 6, (0, 4), (3, 4), 3)
    tables = Parameters(*(rng.normal(size=shape).astype(np.float32) for shape in shapes))
    times = np.array([5, 1, 3, 0, 0, 0])
    before, known = tables.items.copy(), item_sides(*tables[1:3], rows, *tables[4:])[1][1]
    for _ in range(2):  # twice is once
        place_new(tables, rows, rows, times, None)
        sides, constants = item_sides(*tables[1:3], rows, *tables[4:])
        content = rows.dot(tables.features)
        usual = np.sqrt((content[:3] ** 2).sum(axis=1).mean())
        lengths = np.linalg.norm(sides[3:5], axis=1)
        assert np.allclose(lengths, usual, rtol=1e-5)
        along = np.einsum("ik,ik->i", sides[3:5], content[3:5])
        assert np.allclose(along, lengths * np.linalg.norm(content[3:5], axis=1), rtol=1e-5)
        assert np.allclose(constants[3:5], known, atol=1e-5)  # of the item chosen once
    assert (tables.items[[0, 1, 2, 5]] == before[[0, 1, 2, 5]]).all()
