"""What notebooks show of models and lists: all of it, and nothing that an id could smuggle in."""

import re

import pytest

from fmpair import FMPair, Popularity
from fmpair.testing import day_and_night


@pytest.fixture(scope="module")
def model():
    return FMPair(factors=4, epochs=2, threads=1).fit(day_and_night())


def test_a_model_shows_what_it_knows_and_which_options_were_chosen(model):
    shown = model._repr_html_()
    for words in ("Recommender of FMPair", "40", "20", "time", "factors=4, epochs=2"):
        assert words in shown
    assert "learning_rate" not in shown


def test_a_model_that_does_not_fold_shows_itself_too():
    assert "of Popularity" in Popularity().fit(day_and_night())._repr_html_()


def test_a_list_shows_its_items_and_where_asked_the_terms_of_every_score(model):
    plain = model.answer("u1", n=3)
    assert re.findall(r"<td[^>]*>(\d+)</td>", plain._repr_html_())[1::2] == [
        str(item) for item in plain.items
    ]
    told = model.answer("u1", n=3, context={"time": "day"}, explain=True)
    shown = told._repr_html_()
    query, item, value = told.terms[0][0]
    named = " x ".join(filter(None, (query, item)))
    assert f"{named} {value:+.2f}" in shown
    assert shown.count("<tr>") == 3


def test_ids_are_text_whatever_they_are():
    frame = day_and_night().frame().head(200)
    nasty = frame.with_columns(item=frame["item"].cast(str) + "<script>alert(1)</script>")
    model = FMPair(factors=4, epochs=1, threads=1).fit(nasty)
    shown = model.answer("u1", n=2, explain=True)._repr_html_()
    assert "<script" not in shown and "&lt;script&gt;" in shown
