"""Fitted models that go by what came before."""

import numpy as np
import polars as pl
import pytest

import fmpair
from fmpair.arrays import Rows, starts
from fmpair.errors import Notice, OptionError
from fmpair.features import Field
from fmpair.features.history_fields import PastItems
from fmpair.models import FMPair

ITEMS = 20
OPTIONS = {"factors": 8, "epochs": 30, "seed": 1}


def walks(users=120, steps=12, seed=0):
    """Users walk round a ring of items, one step at a time, from somewhere."""
    rng = np.random.default_rng(seed)
    start = rng.integers(0, ITEMS, users)
    return pl.DataFrame(
        {
            "user": [f"u{u}" for u in range(users) for _ in range(steps)],
            "item": [f"i{(start[u] + t) % ITEMS}" for u in range(users) for t in range(steps)],
            "timestamp": [1_600_000_000 + 60 * t for _ in range(users) for t in range(steps)],
            "genre": [f"g{(start[u] + t) % ITEMS % 5}" for u in range(users) for t in range(steps)],
        }
    )


@pytest.fixture(scope="module")
def model():
    return FMPair(history=3, **OPTIONS).fit(walks().drop("genre"))


def after(model, user, **options):
    return model.recommend(user, 1, **options)["item"][0]


@pytest.mark.parametrize("columns", [{"history": []}, {"user": []}, {"user": [], "history": []}])
def test_no_questions_get_no_lists(model, columns):
    found = model.recommend(pl.DataFrame(columns), 3)
    assert found.height == 0
    assert "item" in found.columns


def following(item):
    return f"i{(int(item[1:]) + 1) % ITEMS}"


def test_what_comes_next_is_told_from_what_came_before(model):
    last = walks().group_by("user").last()
    hits = [after(model, user) == following(item) for user, item in last["user", "item"].rows()]
    assert np.mean(hits) > 0.9


def test_without_a_history_an_arc_has_two_ends():
    model = FMPair(history=0, regularization=0.1, **OPTIONS).fit(walks().drop("genre"))
    last = walks().group_by("user").last()
    hits = [after(model, user) == following(item) for user, item in last["user", "item"].rows()]
    assert np.mean(hits) < 0.8


def test_a_visitor_is_known_by_the_items_given_oldest_first(model):
    found = model.recommend(history=["i3", "i4"], n=1)
    assert found["item"].to_list() == ["i5"]
    assert model.recommend(history=["i4", "i3"], n=1, exclude_seen=False)["item"][0] != "i5"


def test_a_frame_of_visitors_is_answered_row_by_row(model):
    asked = pl.DataFrame({"request": [7, 8], "history": [["i1", "i2"], ["i10"]]})
    found = model.recommend(asked, 1)
    assert found["item"].to_list() == ["i3", "i11"]
    assert found["request"].to_list() == [7, 8]


def test_a_given_history_takes_the_place_of_the_one_known(model):
    assert after(model, "u0", history=["i7", "i8"]) == "i9"


def test_every_earlier_item_has_its_term_and_the_terms_add_up(model):
    user, item = "u1", "i5"
    terms = model.explain(user, item)
    earlier = terms.filter(pl.col("query").str.starts_with("history="))
    known = walks().filter(pl.col("user") == user)["item"].to_list()[-3:]
    assert sorted(earlier["query"]) == sorted(f"history={one}" for one in known)
    score = model.score(pl.DataFrame({"user": [user], "item": [item]}))["score"][0]
    assert terms["value"].sum() == pytest.approx(score, abs=1e-5)


def test_further_events_are_known_without_learning(model):
    events = pl.DataFrame({"user": ["u0"], "item": ["i13"], "timestamp": [1_700_000_000]})
    more = model.extended(events)
    assert after(more, "u0") == "i14"
    assert "i13" not in more.recommend("u0", 20)["item"].to_list()
    assert more.parameters is model.parameters
    assert after(model, "u0") == "i9"  # who came from i17 to i8


def test_further_events_without_times_come_after_all_that_is_known(model):
    more = model.extended(pl.DataFrame({"user": ["u0", "u0"], "item": ["i2", "i10"]}))
    assert after(more, "u0") == "i11"


def test_an_event_that_is_older_than_those_known_does_not_become_the_latest(model):
    old = pl.DataFrame({"user": ["u0"], "item": ["i13"], "timestamp": [1_500_000_000]})
    assert after(model.extended(old), "u0") == after(model, "u0")


def test_events_of_unknown_users_and_items_are_counted_and_passed_over(model):
    events = pl.DataFrame(
        {"user": ["u0", "nobody", "u0"], "item": ["i13", "i1", "no"], "timestamp": [9e8, 9e8, 9e8]}
    )
    with pytest.warns(Notice, match="2 of 3 events have unknown users or items"):
        model.extended(events)


def test_seen_items_are_counted_in_their_rows(model):
    events = pl.DataFrame({"user": ["u5", "u5", "u2"], "item": ["i0", "i0", "i19"]})
    more, whole = model.extended(events), walks().select("user", "item").vstack(events)
    for user in ("u5", "u2", "u3"):
        counts = whole.filter(pl.col("user") == user)["item"].value_counts()
        wanted = dict(counts.rows())
        own = more.seen.take(np.array([more.user_number(user)]))
        found = {more.item_ids[i]: n for i, n in zip(own.column, own.value)}
        assert found == wanted


def test_a_model_without_a_history_says_how_events_become_known():
    plain = FMPair(history=0, **{**OPTIONS, "epochs": 1}).fit(walks().drop("genre"))
    with pytest.raises(OptionError, match="fit it with a history"):
        plain.extended(pl.DataFrame({"user": ["u0"], "item": ["i1"]}))


def test_a_saved_model_goes_on_where_it_was(model, tmp_path):
    model.save(tmp_path / "m.fmpair")
    again = fmpair.load(tmp_path / "m.fmpair")
    assert again.recommend(None, 3).equals(model.recommend(None, 3))
    events = pl.DataFrame({"user": ["u0"], "item": ["i13"], "timestamp": [1_700_000_000]})
    assert after(again.extended(events), "u0") == "i14"


def test_an_update_and_a_fold_in_keep_time_lines(model):
    events = pl.DataFrame(
        {"user": ["u0", "new"], "item": ["i13", "i4"], "timestamp": [1_700_000_000] * 2}
    )
    updated = model.update(events, epochs=1)
    assert after(updated, "u0") == "i14"
    assert after(updated, "new") == "i5"
    folded = model.fold_in(events.filter(pl.col("user") == "new"), epochs=1)
    assert after(folded, "new") == "i5"
    assert after(folded, "u7") == after(model, "u7")
    np.testing.assert_array_equal(folded.parameters.query, model.parameters.query)


def test_attributes_of_earlier_items_tell_of_an_item_nobody_had():
    events = walks()
    field = Field(kind="history", last=2, of=["genre"])
    data = fmpair.Dataset.from_frame(events, item_columns=["genre"])
    model = FMPair(history=field, **OPTIONS).fit(data)
    terms = model.explain("u0", "i5")
    assert any(name.startswith("history.genre=g") for name in terms["query"])
    score = model.score(pl.DataFrame({"user": ["u0"], "item": ["i5"]}))["score"][0]
    assert terms["value"].sum() == pytest.approx(score, abs=1e-5)
    next_genre = model.recommend(history=["i11"], n=1, exclude_seen=False)["item"][0]
    assert int(next_genre[1:]) % 5 == 2


def test_what_is_too_old_does_not_count():
    events = walks().drop("genre")
    model = FMPair(history={"last": 3, "within": "1h"}, **OPTIONS).fit(events)
    soon, late = (model.query_vectors(
        pl.DataFrame({"user": ["u0"], "timestamp": [1_600_000_000 + 60 * 12 + later]})
    ) for later in (0, 10_000))  # fmt: skip
    number = model.user_number("u0")
    np.testing.assert_allclose(late[0], model.parameters.users[number], rtol=1e-6)
    assert np.abs(soon - late).max() > 0.1


def test_a_column_of_times_plays_no_part_where_the_model_does_not_go_by_them():
    events = walks().drop("genre").with_columns(timestamp=pl.int_range(pl.len()))
    model = FMPair(history=3, **{**OPTIONS, "epochs": 1}).fit(events)
    asked = events.head(2)
    plain = model.query_vectors(asked.select("user"))
    np.testing.assert_array_equal(model.query_vectors(asked), plain)
    assert model.score(asked)["score"].len() == 2


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_do_not_change_a_bit(threads):
    events = walks(users=300).drop("genre")
    options = {**OPTIONS, "epochs": 3, "blocks": 4}
    one, other = (
        FMPair(history=3, threads=n, **options).fit(events).parameters for n in (2, threads)
    )
    for first, second in zip(one, other):
        np.testing.assert_array_equal(first, second)


def test_earlier_items_may_have_the_vectors_of_items():
    field = {"last": 3, "shared": True}
    model = FMPair(history=field, **OPTIONS).fit(walks().drop("genre"))
    np.testing.assert_array_equal(model.parameters.query, model.parameters.items)
    near = model.recommend(history=["i10"], n=2)["item"].to_list()
    assert {abs(int(item[1:]) - 10) for item in near} <= {1, 2}


@pytest.mark.parametrize("lengths", [[1, 1, 1, 1], [1, 2, 0, 3]], ids=["one each", "several"])
@pytest.mark.parametrize("items", [[], [2], [0, 3, 1], [3, 3, 2, 1, 0, 1]])
def test_features_of_one_history_are_those_among_several(lengths, items):
    count = sum(lengths)
    column = np.arange(10, 10 + count, dtype=np.int32)
    features = Rows(starts(np.array(lengths)), column, np.linspace(1, 2, count, dtype=np.float32))
    past = PastItems(np.array([1.0, 0.5, 0.25], np.float32), features, None)
    number = np.array(items, np.int32)
    one = past.rows(Rows(np.array([0, len(items)]), number, np.ones(len(items), np.float32)))
    start, twice = np.array([0, len(items), 2 * len(items)]), np.concatenate([number, number])
    two = past.rows(Rows(start, twice, np.ones(len(twice), np.float32)))
    for row in range(2):
        part = slice(two.start[row], two.start[row + 1])
        assert one.column.tolist() == two.column[part].tolist()
        assert one.value.tolist() == two.value[part].tolist()
    assert one.start.tolist() == [0, len(one.column)]
