"""Items of other domains as features of a user."""

import numpy as np
import polars as pl
import pytest
from decode import decode
from hypothesis import given
from hypothesis import strategies as st

from fmpair.data import Dataset
from fmpair.errors import DataError, OptionError
from fmpair.features import FeatureSpace, with_sources

EVENTS = pl.DataFrame(
    {
        "user": ["ann", "ann", "ann", "ann", "ann", "bob", "bob", "cat", "ann"],
        "item": ["film", "b1", "b2", "b3", "song", "film", "b2", "b1", "b1"],
        "domain": ["films", "books", "books", "books", "music", "films", "books", "books", "books"],
        "rating": [5.0, 1.0, 2.0, 1.5, 4.0, 3.0, 5.0, 4.0, 4.5],
    }
)


def source(data, user, domain):
    """The list of a user's items of a source domain."""
    return data.user_table[f"source_{domain}"][data.users.number(user)].to_list()


def test_only_events_of_the_target_are_left():
    data = with_sources(Dataset.from_frame(EVENTS), "films")
    assert data.items.ids.to_list() == ["film"]
    assert data.frame()["user"].to_list() == ["ann", "bob"]
    assert data.user_table.columns == ["source_books", "source_music"]


def test_each_source_domain_is_a_column_of_distinct_items():
    data = with_sources(Dataset.from_frame(EVENTS), "films")
    assert sorted(source(data, "ann", "books")) == ["b1", "b2", "b3"]
    assert source(data, "bob", "books") == ["b2"]
    assert data.user_table["source_music"].to_list() == [["song"], None]


def test_values_sum_to_one_per_domain_and_may_be_binary():
    data = with_sources(Dataset.from_frame(EVENTS), "films")
    space = FeatureSpace.fit(data)
    ann, bob = decode(space.user_rows(data.user_table, 2), space.query.labels())
    third = pytest.approx(1 / 3, abs=1e-5)
    books = {f"source_books={book}": third for book in ("b1", "b2", "b3")}
    assert ann == books | {"source_music=song": 1} and bob == {"source_books=b2": 1}
    binary = FeatureSpace.fit(data, {"source_books": {"normalize": False}})
    assert set(binary.user_rows(data.user_table, 2).value.tolist()) == {1.0}


def test_the_paper_s_share_counts_the_items_that_are_not_listed_too():
    data = with_sources(Dataset.from_frame(EVENTS), "films", most=2, share_of_all=True)
    fields = {name: {"normalize": False} for name in data.user_table.columns}
    space = FeatureSpace.fit(data, fields)
    ann, bob = decode(space.user_rows(data.user_table, 2), space.query.labels())
    assert len(ann) == 3 and ann.pop("source_music=song") == 1  # two of three books
    assert list(ann.values()) == [pytest.approx(1 / 3, abs=1e-6)] * 2
    assert bob == {"source_books=b2": 1}


def test_the_most_popular_items_are_chosen_by_users_not_events():
    many = [{"user": "ann", "item": "b3", "domain": "books", "rating": 1.0}] * 9
    loud = pl.concat([EVENTS, pl.DataFrame(many)])
    data = with_sources(Dataset.from_frame(loud), "films", most=2, choose="popular")
    assert sorted(source(data, "ann", "books")) == ["b1", "b2"]


def test_the_highest_rated_items_are_chosen_by_the_best_rating_of_each():
    data = with_sources(Dataset.from_frame(EVENTS), "films", most=2, choose="rated")
    assert source(data, "ann", "books") == ["b1", "b2"]


def test_random_choices_follow_the_seed():
    events = pl.DataFrame(
        {"user": 1, "item": range(41), "domain": ["a"] * 40 + ["b"]}, strict=False
    )
    chosen = [
        source(with_sources(Dataset.from_frame(events), "b", most=5, seed=seed), 1, "a")
        for seed in (0, 0, 1)
    ]
    assert chosen[0] == chosen[1] != chosen[2]
    assert all(len(set(items)) == 5 for items in chosen)


def test_attributes_users_had_stay_with_them():
    users = pl.DataFrame({"user": ["bob", "cat", "ann"], "age": [30, 50, 40]})
    data = with_sources(Dataset.from_frame(EVENTS, users=users), "films")
    assert data.user_table["age"].to_list() == [40, 30]


def test_ids_and_domains_may_be_numbers_or_categories():
    frame = EVENTS.with_columns(
        pl.col("user", "item").cast(pl.Categorical).to_physical().cast(pl.Int64),
        pl.col("domain").replace_strict({"films": 1, "books": 2, "music": 3}),
    )
    data = with_sources(Dataset.from_frame(frame), 1)
    assert data.user_table["source_2"].list.len().to_list() == [3, 1]
    named = EVENTS.with_columns(pl.col("domain").cast(pl.Categorical))
    assert len(with_sources(Dataset.from_frame(named), "films")) == 2


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 9), st.sampled_from(["a", "b", "c", None])),
        min_size=1,
    ),
    st.integers(1, 4),
    st.sampled_from(["random", "popular"]),
)
def test_a_user_has_at_most_so_many_own_items_per_source(rows, most, choose):
    rows = [*rows, (0, 0, "a")]
    frame = pl.DataFrame(rows, schema=["user", "item", "domain"], orient="row")
    data = with_sources(Dataset.from_frame(frame), "a", most=most, choose=choose)
    assert len(data) == sum(domain == "a" for _, _, domain in rows)
    for number, user in enumerate(data.users.ids):
        for domain in {domain for _, _, domain in rows} - {"a", None}:
            own = {item for u, item, d in rows if (u, d) == (user, domain)}
            listed = data.user_table[f"source_{domain}"][number]
            listed = [] if listed is None else listed.to_list()
            assert len(listed) == min(most, len(own)) and set(listed) <= own


def test_features_of_every_source_sum_to_one():
    data = with_sources(Dataset.from_frame(EVENTS), "books", most=1)
    rows = FeatureSpace.fit(data).user_rows(data.user_table, len(data.users))
    sums = np.bincount(rows.owner, weights=rows.value, minlength=rows.size)
    assert dict(zip(data.users.ids, sums)) == {"ann": 2, "bob": 1, "cat": 0}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"target": "flims"}, DataError, "unknown domain 'flims'. Did you mean 'films'?"),
        ({"choose": "best"}, OptionError, "choose must be one of random, popular, rated"),
        ({"most": 0}, OptionError, "most must be a whole number of at least 1, not 0"),
        ({"most": 2.5}, OptionError, "most must be a whole number of at least 1, not 2.5"),
    ],
)
def test_a_wrong_option_is_named(options, error, message):
    with pytest.raises(error, match=message):
        with_sources(Dataset.from_frame(EVENTS), **({"target": "films"} | options))


@pytest.mark.parametrize(("column", "choose"), [("domain", "random"), ("rating", "rated")])
def test_a_column_that_is_needed_is_named(column, choose):
    with pytest.raises(DataError, match=f"needs? a {column} column"):
        with_sources(Dataset.from_frame(EVENTS.drop(column)), "films", choose=choose)


def test_a_column_of_the_users_is_never_replaced():
    users = pl.DataFrame({"user": ["ann"], "source_books": ["x"]})
    with pytest.raises(DataError, match="has a column 'source_books' already"):
        with_sources(Dataset.from_frame(EVENTS, users=users), "films")
