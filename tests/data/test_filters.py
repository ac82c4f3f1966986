"""Filters are pure and do what their names say."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmpair.data import Dataset
from fmpair.data.filters import (
    above,
    above_mean,
    all_positive,
    at_least,
    core,
    distinct,
    enlarged,
    faded,
    leaked,
    merge_duplicates,
    sampled,
    shuffled,
    thinned,
)
from fmpair.errors import DataError, OptionError

RATED = Dataset.from_frame(
    {"user": [1, 1, 1, 2, 2], "item": ["a", "b", "c", "a", "b"], "rating": [1, 3, 5, 4, 4]}
)
PLAYS = Dataset.from_frame(
    {
        "user": [1, 1, 1, 2],
        "item": ["a", "a", "a", "b"],
        "time": ["day", "night", "day", None],
        "rating": [1, 2, 3, 4],
        "timestamp": [10, 30, 20, 5],
    }
)
PAIRS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=60)


def test_above_the_mean_is_strict_and_per_user():
    assert above_mean(RATED).frame().rows() == [(1, "c", 5)]
    assert len(above_mean(RATED).items) == 3, "the vocabularies stay"


def test_the_mean_is_that_of_the_training_part_and_of_all_users_where_a_user_has_none():
    data = Dataset.from_frame(
        {"user": [1, 1, 1, 2, 2, 3], "item": list("abcdef"), "rating": [2, 4, 5, 3, 1, 3]}
    )
    training = np.array([True, True, False, True, True, False])
    assert above_mean(data, training=training).frame()["item"].to_list() == ["b", "c", "d", "f"]
    assert above_mean(data).frame()["item"].to_list() == ["b", "c", "d"]
    changed = Dataset.from_frame(data.frame().with_columns(rating=pl.Series([2, 4, 1, 3, 1, 3])))
    kept = above_mean(changed, training=training).frame()["item"].to_list()
    assert kept == ["b", "d", "f"], "a test rating decides about nothing but itself"
    of_all = above_mean(data, statistics="all", training=training)
    assert of_all.frame().equals(above_mean(data).frame())
    with pytest.raises(OptionError, match="statistics must be one of training, all, not 'test'"):
        above_mean(data, statistics="test")


def test_weights_fade_by_later_training_events_alone():
    data = Dataset.from_frame(
        {"user": [1, 1, 1, 1], "item": list("abcd"), "timestamp": [1, 2, 3, 4]}
    )
    training = np.array([True, False, True, False])
    weight = faded(data, half=1, least=0.0, training=training).weight
    assert weight.tolist() == [0.5, 0.5, 1.0, 1.0]
    assert faded(data, half=1, least=0.0).weight.tolist() == [0.125, 0.25, 0.5, 1.0]


def test_above_leaves_the_threshold_out_and_at_least_keeps_it():
    assert above(RATED, 4).frame()["item"].to_list() == ["c"]
    assert at_least(RATED, 4).frame()["item"].to_list() == ["c", "a", "b"]


def test_all_events_are_positive_without_their_ratings():
    assert all_positive(RATED).frame().columns == ["user", "item"]
    assert len(all_positive(RATED)) == 5


def test_nothing_left_is_an_error():
    with pytest.raises(DataError, match="no event has a rating above 9"):
        above(RATED, 9)
    with pytest.raises(DataError, match="the data have no ratings"):
        above_mean(all_positive(RATED))


def test_duplicates_in_one_context_become_a_weight():
    merged = merge_duplicates(PLAYS)
    assert merged.frame().select("user", "item", "time", "weight").rows() == [
        (1, "a", "day", 2.0), (1, "a", "night", 1.0), (2, "b", None, 1.0),
    ]  # fmt: skip
    assert merged.columns["rating"].to_list() == [2.0, 2.0, 4.0]
    assert merged.columns["timestamp"].to_list() == [20, 30, 5]


def test_duplicates_across_contexts_lose_the_context():
    merged = merge_duplicates(PLAYS, context=False)
    assert merged.context == ()
    assert merged.weight.tolist() == [3, 1]
    assert len(PLAYS) == 4, "the data themselves stay"


def test_weights_add_up():
    data = Dataset.from_frame({"user": [1, 1], "item": [2, 2], "weight": [2.5, 0.5]})
    assert merge_duplicates(data).weight.tolist() == [3]


@given(PAIRS)
def test_merging_keeps_the_pairs_and_the_number_of_events(pairs):
    frame = pl.DataFrame(pairs, schema=["user", "item"], orient="row")
    merged = merge_duplicates(Dataset.from_frame(frame))
    assert merged.frame().select("user", "item").rows() == list(dict.fromkeys(pairs))
    assert merged.weight.sum() == len(pairs)


@given(PAIRS, st.integers(1, 3), st.integers(1, 3))
def test_in_the_core_everyone_has_enough(pairs, users, items):
    data = Dataset.from_frame(pl.DataFrame(pairs, schema=["user", "item"], orient="row"))
    try:
        left = core(data, users, items)
    except DataError:
        return
    assert np.bincount(left.user).min() >= users
    assert np.bincount(left.item).min() >= items
    assert len(np.unique(left.user)) == len(left.users)


def test_the_core_is_found_step_by_step():
    # d has two events only until item 4 falls out
    chain = {"user": ["a", "a", "b", "b", "d", "d"], "item": [1, 2, 1, 2, 2, 4]}
    left = core(Dataset.from_frame(chain), users=2, items=2)
    assert left.users.ids.to_list() == ["a", "b"]
    assert len(left) == 4


def test_an_empty_core_is_an_error():
    with pytest.raises(DataError, match="no events are left with 9 per user"):
        core(RATED, users=9, items=1)
    with pytest.raises(OptionError, match="must be at least 1"):
        core(RATED, users=0)


def test_of_each_pair_the_first_event_stays_with_its_context():
    assert distinct(PLAYS).frame().select("user", "item", "time").rows() == [
        (1, "a", "day"), (2, "b", None),
    ]  # fmt: skip


@given(PAIRS, st.integers(0, 5))
def test_shuffling_keeps_the_events_and_follows_from_the_seed(pairs, seed):
    data = Dataset.from_frame(pl.DataFrame(pairs, schema=["user", "item"], orient="row"))
    once, again = shuffled(data, seed).frame(), shuffled(data, seed).frame()
    assert once.equals(again)
    assert sorted(once.rows()) == sorted(data.frame().rows())


@given(PAIRS, st.integers(1, 70))
def test_a_sample_has_so_many_events_in_their_order(pairs, count):
    frame = pl.DataFrame(pairs, schema=["user", "item"], orient="row").with_row_index("rating")
    left = sampled(Dataset.from_frame(frame), count)
    assert len(left) == min(count, len(pairs))
    assert left.columns["rating"].is_sorted()
    assert len(left.users) == len(np.unique(left.user)), "compacted"


def test_a_sample_of_nothing_is_refused():
    with pytest.raises(OptionError, match="count must be at least 1"):
        sampled(RATED, 0)


@given(PAIRS, st.integers(1, 9), st.integers(0, 5))
def test_a_thinned_set_has_at_most_so_many_events_of_each_user(pairs, most, seed):
    frame = pl.DataFrame(pairs, schema=["user", "item"], orient="row").with_row_index("rating")
    data = Dataset.from_frame(frame)
    left = thinned(data, most, seed=seed)
    had, has = (np.bincount(one.user, minlength=len(data.users)) for one in (data, left))
    assert (has == np.minimum(had, most)).all()
    assert left.columns["rating"].is_sorted() and left.columns["rating"].is_unique().all()


def test_thinning_one_domain_leaves_the_others_alone():
    domain = ["books", "music"] * 6
    data = Dataset.from_frame({"user": [1] * 12, "item": list(range(12)), "domain": domain})
    left = thinned(data, 2, "books")
    assert left.columns["domain"].value_counts().sort("domain").rows() == [
        ("books", 2),
        ("music", 6),
    ]
    others = [thinned(data, 2, "books", seed).item.tolist() for seed in range(9)]
    assert len(set(map(tuple, others))) > 1, "which stay is drawn"
    with pytest.raises(OptionError, match="most must be at least 1"):
        thinned(data, 0)


def test_faded_events_weigh_half_as_much_for_so_many_later_ones_of_their_user():
    frame = {"user": ["ann", "ann", "bob", "ann"], "item": [1, 2, 3, 4], "timestamp": [5, 9, 1, 7]}
    data = faded(Dataset.from_frame(frame), half=1, least=0)
    assert data.weight.tolist() == [0.25, 1.0, 1.0, 0.5]
    again = faded(data, half=2, least=0.5)
    assert again.weight.tolist() == [0.25 * 0.75, 1.0, 1.0, pytest.approx(0.5 * (0.5 + 0.5**1.5))]


def test_fading_that_makes_no_sense_is_refused():
    data = Dataset.from_frame({"user": [1, 2], "item": [1, 2], "timestamp": [1, 2]})
    for wrong in ({"half": 0}, {"least": 2}):
        with pytest.raises(OptionError, match=f"{next(iter(wrong))} must be"):
            faded(data, **wrong)
    with pytest.raises(DataError, match="timestamp"):
        faded(Dataset.from_frame({"user": [1, 2], "item": [1, 2]}))


def test_a_leaked_attribute_of_items_stands_in_every_event_as_context():
    data = RATED.with_items(pl.DataFrame({"item": ["a", "b", "c"], "genre": ["x", "y", "z"]}))
    found = leaked(data, "genre")
    assert found.columns["genre"].to_list() == ["x", "y", "z", "x", "y"]
    assert found.context == ("genre",) and found.item_table.width == 0
    with pytest.raises(DataError, match="unknown item attribute 'gerne'"):
        leaked(data, "gerne")


def test_an_enlarged_set_has_the_events_again_and_again_and_random_contexts():
    data = Dataset.from_frame({"user": ["a", "b", "c"], "item": [1, 2, 3], "day": ["x", "y", "x"]})
    found = enlarged(data, 8, contexts=2, values=3)
    assert found.context == ("day", "random_1", "random_2")
    frame = found.frame()
    assert frame["user"].to_list() == ["a", "b", "c", "a", "b", "c", "a", "b"]
    assert frame[3].equals(frame[0]) and set(frame["random_1"]) <= {"0", "1", "2"}
    assert enlarged(data, 2).frame().equals(data.frame()[:2])
    with pytest.raises(OptionError, match="events must be at least 1, not 0"):
        enlarged(data, 0)
