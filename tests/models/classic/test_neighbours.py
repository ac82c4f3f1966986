"""Sums over neighbours against their definition, written out with dense matrices."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmpair.arrays import Rows
from fmpair.data import as_dataset
from fmpair.errors import DataError, OptionError
from fmpair.models import EASE, ItemKNN, UserKNN
from fmpair.models.classic.neighbours import weighted
from fmpair.solvers.linear_algebra import gram, product, turned
from fmpair.testing import two_tastes


def events(users=12, items=9, share=0.35, seed=0):
    """Random events, some of them repeated, over all users and items."""
    had = np.random.default_rng(seed).random((users, items)) < share
    had[np.arange(users), np.arange(users) % items] = True
    user, item = np.nonzero(had)
    again = slice(0, None, 3)
    return pl.DataFrame(
        {"user": np.append(user, user[again]), "item": np.append(item, item[again])}
    )


def dense(data, values=None):
    rows = data.seen
    out = np.zeros((len(data.users), len(data.items)))
    out[rows.owner, rows.column] = 1 if values is None else values
    return out


def cosines(rows, k, shrinkage):
    """The k nearest other rows of each, by cosine; the lower number first among equals."""
    norm = np.linalg.norm(rows, axis=1)
    similar = rows @ rows.T / np.maximum(np.outer(norm, norm) + shrinkage, 1e-12)
    np.fill_diagonal(similar, 0)
    kept = np.zeros_like(similar)
    for row, own in enumerate(similar):
        best = np.argsort(-own.round(6), kind="stable")[:k]
        kept[row, best] = own[best]
    return kept


@pytest.mark.parametrize("k, shrinkage", [(3, 0.0), (100, 0.0), (4, 2.5)])
def test_an_item_scores_by_its_nearest_items_among_the_users(k, shrinkage):
    data = as_dataset(events())
    own = dense(data)
    wanted = own @ cosines(own.T, k, shrinkage).T
    found = ItemKNN(k=k, shrinkage=shrinkage, scheme="plain").fit(data)(data)
    np.testing.assert_allclose(found, wanted[data.user], atol=1e-5)


@pytest.mark.parametrize("k, shrinkage", [(3, 0.0), (100, 0.0), (4, 2.5)])
def test_an_item_scores_by_the_nearest_users_who_have_it(k, shrinkage):
    data = as_dataset(events())
    own = dense(data)
    wanted = cosines(own, k, shrinkage) @ own
    found = UserKNN(k=k, shrinkage=shrinkage, scheme="plain").fit(data)(data)
    np.testing.assert_allclose(found, wanted[data.user], atol=1e-5)


def test_repeated_events_count_as_the_weights_say():
    data = as_dataset(events())
    own = dense(data, 1 + np.log(data.seen.value))
    wanted = own @ cosines(own.T, 5, 1).T
    found = ItemKNN(k=5, shrinkage=1, scheme="plain", weights="log").fit(data)(data)
    np.testing.assert_allclose(found, wanted[data.user], atol=1e-5)


def test_what_everyone_has_says_little_about_taste():
    frame = pl.DataFrame({"user": [*"aabbccdd"], "item": [*"pxpxpypy"]})
    rows = as_dataset(frame).seen
    for scheme in ("tf-idf", "bm25"):
        values = weighted(rows, 3, scheme).value.reshape(4, 2)  # p, then x or y
        assert (values[:, 0] < values[:, 1]).all()
    assert weighted(rows, 3, "plain") is rows


@pytest.mark.parametrize("recipe", [ItemKNN(k=4), UserKNN(k=4)])
def test_the_terms_of_an_explanation_add_up_to_the_score(recipe):
    model = recipe.fit(events())
    for item in range(9):
        terms = model.explain(3, item)
        score = model.score({"user": [3], "item": [item]})["score"][0]
        assert terms["value"].sum() == pytest.approx(score, abs=1e-5)
        assert terms["value"].is_sorted(descending=True)


def test_a_user_without_events_is_explained_by_popularity():
    data = as_dataset(events()).with_users({"user": [*range(12), 99]})
    model = ItemKNN().fit(data)
    times = (data.item == data.items.number(4)).sum()
    assert model.explain(99, 4).rows() == [("a usual user", "item=4", times)]


def test_similar_items_are_those_with_the_same_users():
    frame = pl.DataFrame({"user": [*"abcabdef"], "item": [*"xxxyyyzz"]})
    model = ItemKNN(shrinkage=0, scheme="plain").fit(frame)
    assert model.similar_items("x", 1).rows() == [("y", pytest.approx(2 / 3), 1)]
    with pytest.raises(OptionError, match="ItemKNN cannot compare users"):
        model.similar_users("a")
    assert UserKNN().fit(frame).similar_users("a", 1)["user"].to_list() == ["b"]


def test_options_out_of_range_are_refused():
    for options in ({"k": 0}, {"shrinkage": -1}, {"scheme": "tfidf"}, {"weights": "cubic"}):
        for recipe in (ItemKNN, UserKNN):
            with pytest.raises(OptionError, match=f"{next(iter(options))} must be"):
                recipe(**options)


@st.composite
def sparse(draw):
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    table = draw(
        st.lists(
            st.lists(st.sampled_from([0, 0, 1, 2, -3]), min_size=columns, max_size=columns),
            min_size=rows, max_size=rows,
        )
    )  # fmt: skip
    return np.array(table, np.float32).reshape(rows, columns)


def rows_of(table):
    column = [np.flatnonzero(row) for row in table]
    start = np.concatenate([[0], np.cumsum([len(c) for c in column])])
    flat = np.concatenate(column).astype(np.int32)
    return Rows(start, flat, table[table != 0])


@given(table=sparse())
@settings(max_examples=60)
def test_products_of_sparse_rows_are_those_of_the_matrices(table):
    rows, columns = rows_of(table), table.shape[1]
    np.testing.assert_array_equal(gram(rows, columns), table.T @ table)
    back = turned(rows, columns)
    np.testing.assert_array_equal(product(rows, back, len(table)), table @ table.T)


DATA = two_tastes()


def own(data):
    out = np.zeros((len(data.users), len(data.items)))
    out[data.user, data.item] = 1
    return out


def test_each_item_is_the_ridge_regression_on_all_others():
    had, strength = own(DATA), 3.0
    wanted = np.zeros((20, 20))
    for item in range(20):
        others = np.arange(20) != item
        x, y = had[:, others], had[:, item]
        wanted[others, item] = np.linalg.solve(x.T @ x + strength * np.eye(19), x.T @ y)
    found = EASE(regularization=strength).fit(DATA).scorer.weights
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_scores_are_the_users_items_times_the_weights():
    model = EASE().fit(DATA)
    wanted = own(DATA)[DATA.user] @ model.scorer.weights
    np.testing.assert_allclose(model(DATA), wanted, atol=1e-6)


def test_an_explanation_adds_up_and_similar_items_share_a_taste():
    model = EASE(regularization=5.0).fit(DATA)
    score = model.score({"user": ["u1"], "item": [3]})["score"][0]
    assert model.explain("u1", 3)["value"].sum() == pytest.approx(score, abs=1e-5)
    assert all(item % 2 == 0 for item in model.similar_items(4, 9)["item"])


def test_what_cannot_fit_is_refused_before_it_is_begun():
    with pytest.raises(
        OptionError, match=r"EASE needs .* GB for 20 items, but 1e-06 GB are allowed: raise max_gb"
    ):
        EASE(max_gb=1e-6).fit(DATA)


def test_there_must_be_events():
    with pytest.raises(DataError, match="no events"):
        EASE().fit(as_dataset(DATA).take(np.arange(0)))
