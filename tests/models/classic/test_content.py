"""Content models against their definition with dense matrices, and on items without events."""

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, load
from fmpair.errors import DataError, OptionError
from fmpair.evaluation import evaluate
from fmpair.models import ContentKNN, ContentProfile
from fmpair.testing import cold_items, two_tastes

TAGS = [["a", "b"], ["a", "c"], ["b"], ["c", "d"], [], ["d"], ["a", "b", "d"]]
PRICE = [1.0, 2.0, None, 4.0, 3.0, 9.0, 2.5]


def shop():
    """Seven items with tags and prices; the last two have no events."""
    events = pl.DataFrame({"user": list("uuvvvww"), "item": [0, 1, 1, 2, 3, 0, 4]})
    return Dataset.from_frame(events, items={"item": range(7), "tags": TAGS, "price": PRICE})


def dense_content(rarity):
    """The content of `shop` by its definition: TF-IDF of tags and a squashed price, unit length."""
    tags = np.array([[tag in own for tag in "abcd"] for own in TAGS], float)
    tags *= np.log1p(7 / tags.sum(0)) ** rarity
    tags /= np.maximum(np.linalg.norm(tags, axis=1, keepdims=True), 1e-12)
    known = np.array([p for p in PRICE if p is not None])
    z = np.array([0 if p is None else (p - known.mean()) / known.std() for p in PRICE])
    both = np.column_stack([tags, z / np.sqrt(1 + z**2)])
    return both / np.linalg.norm(both, axis=1, keepdims=True)


def had(data):
    own = np.zeros((len(data.users), len(data.items)))
    own[data.user, data.item] = 1
    return own


@pytest.mark.parametrize("rarity", [0.0, 1.0, 2.0])
def test_a_profile_is_the_sum_of_the_content_of_the_users_items(rarity):
    data = shop()
    content = dense_content(rarity)
    profile = had(data) @ content
    wanted = profile @ content.T / np.linalg.norm(profile, axis=1, keepdims=True)
    found = ContentProfile(rarity=rarity).fit(data)(data)
    np.testing.assert_allclose(found, wanted[data.user], atol=1e-5)


@pytest.mark.parametrize("k", [2, 100])
def test_neighbours_are_the_items_with_the_most_similar_content(k):
    data = shop()
    content = dense_content(1.5)
    cosine = content @ content.T
    np.fill_diagonal(cosine, 0)
    near = np.where(cosine >= -np.sort(-cosine, axis=1)[:, [min(k, 7) - 1]], cosine, 0).clip(0)
    found = ContentKNN(k=k).fit(data)(data)
    np.testing.assert_allclose(found, (had(data) @ near.T)[data.user], atol=1e-5)


@pytest.mark.parametrize("recipe", [ContentProfile(), ContentKNN(k=15)])
def test_items_without_events_are_ranked_by_their_attributes(recipe):
    data = cold_items()
    model = recipe.fit(data)
    for user in ("u0", "u1"):
        listed = model.recommend(user, 6, candidates=list(range(14, 20)))["item"].to_list()
        assert {item % 2 for item in listed[:3]} == {int(user[1:])}
    test = Dataset.from_frame({"user": [f"u{n}" for n in range(40)], "item": [14, 15] * 20})
    assert evaluate(model, data, test, "cold", ["recall@3"]).means["recall@3[cold]"] == 1


def test_an_explanation_names_the_shared_attributes_or_the_users_items(tmp_path):
    ContentProfile().fit(shop()).save(tmp_path / "profile.fmpair")
    model = load(tmp_path / "profile.fmpair")
    terms = model.explain("u", 6)
    assert set(terms["query"]) == {"tags=a", "tags=b", "price"}
    score = model.score({"user": ["u"], "item": [6]})["score"][0]
    assert terms["value"].sum() == pytest.approx(score, abs=1e-6)
    assert model.similar_items(6, n=1)["item"].to_list() == [0]
    near = ContentKNN(k=5).fit(shop()).explain("u", 6)
    assert set(near["query"]) == {"item=0", "item=1"}


def test_a_visitor_may_have_items_without_events():
    listed = ContentProfile().fit(shop()).recommend(history=[5], n=1)
    assert listed["item"].to_list() == [3]  # d alone is in 3, and it costs most after 5


def test_items_need_attributes():
    for recipe in (ContentProfile(), ContentKNN()):
        with pytest.raises(DataError, match="no attributes of items to compare them by"):
            recipe.fit(two_tastes())
    with pytest.raises(OptionError, match="rarity"):
        ContentProfile(rarity=-1)
    with pytest.raises(OptionError, match="k"):
        ContentKNN(k=0)
