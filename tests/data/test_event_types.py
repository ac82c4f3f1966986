"""Impressions, which never add to the events; refunds and repeats, which are no choices."""

import logging
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, read
from fmpair.data.describe import figures, fingerprint
from fmpair.data.event_types import first_of_run, impression_rows
from fmpair.data.filters import at_least, core, dislikes
from fmpair.data.splits import by_time
from fmpair.errors import DataError, Notice, OptionError
from fmpair.testing import purchase_log

EVENTS = {"user": ["ann", "ann", "bob", "bob"], "item": [1, 2, 2, 3], "timestamp": [10, 20, 5, 40]}
SHOWN = {"user": ["ann", "bob", "ann"], "item": [3, 1, 1]}


def data(impressions=SHOWN, **options):
    return Dataset.from_frame(EVENTS, impressions=impressions, **options)


def pairs(rows):
    return list(zip(rows.owner.tolist(), rows.column.tolist()))


def test_pairs_shown_are_no_events():
    plain, known = Dataset.from_frame(EVENTS), data()
    assert len(known) == len(plain) == 4
    assert known.frame().equals(plain.frame())
    np.testing.assert_array_equal(known.seen.column, plain.seen.column)
    assert repr(known) == repr(plain)[:-1] + ", 3 impressions)"
    assert figures(known) == {**figures(plain), "impressions": 3}


def test_every_user_has_the_items_shown_to_them():
    assert pairs(impression_rows(data())) == [(0, 0), (0, 2), (1, 0)]


def test_ids_the_events_do_not_know_are_counted_and_not_used(caplog):
    with caplog.at_level(logging.WARNING, "fmpair"):
        known = data({"user": ["ann", "cem", "bob"], "item": [3, 1, 9]})
    assert "2 of 3 impressions have a user or item without events" in caplog.text
    assert pairs(impression_rows(known)) == [(0, 2)]


def test_ids_of_another_type_are_refused():
    with pytest.raises(
        DataError, match="user ids of the impressions are Boolean, those of the events String"
    ):
        data({"user": [True], "item": [3]})


def test_a_table_without_users_or_items_is_refused():
    with pytest.raises(DataError, match="the impressions have no item column among user, title"):
        data({"user": ["ann"], "title": [3]})


def test_its_columns_are_named_as_those_of_the_events_or_as_usual():
    events = pl.DataFrame(EVENTS).rename({"user": "who", "item": "what"})
    for shown in (SHOWN, {"who": SHOWN["user"], "what": SHOWN["item"]}):
        known = Dataset.from_frame(events, user="who", item="what", impressions=shown)
        assert pairs(impression_rows(known)) == [(0, 0), (0, 2), (1, 0)]


def test_more_may_be_added_and_a_pair_stays_once_with_its_first_time():
    known = data({**SHOWN, "timestamp": [30, 2, 3]}).with_impressions(
        {"user": ["ann", "bob"], "item": [3, 2], "timestamp": [7, 8]}
    )
    assert known.impressions.rows() == [("ann", 3, 7), ("bob", 1, 2), ("ann", 1, 3), ("bob", 2, 8)]


def test_what_was_shown_after_a_users_last_event_is_left_out():
    known = data({**SHOWN, "timestamp": [21, 39, None]})
    assert pairs(impression_rows(known)) == [(0, 0), (1, 0)]
    train, _, _ = by_time(known, test=0.25).parts(known)  # without bob's last event
    assert pairs(impression_rows(train)) == [(0, 0)]


def test_times_that_cannot_be_compared_are_refused():
    with pytest.raises(DataError, match="give both the same type"):
        data({**SHOWN, "timestamp": [datetime(2024, 1, 1)] * 3})


def test_parts_and_filters_keep_it_and_numbers_follow_the_ids():
    known = data()
    assert known.take(np.array([0])).impressions is known.impressions
    small = core(known, 1, 2)  # item 2 alone is left
    assert small.items.ids.to_list() == [2]
    assert pairs(impression_rows(small)) == []


def test_it_is_a_part_of_the_hash():
    others = [data(None), data(), data({"user": ["ann"], "item": [3]}),
              data({**SHOWN, "timestamp": [1, 2, 3]})]  # fmt: skip
    assert len({fingerprint(one) for one in others}) == 4


def test_low_ratings_leave_and_count_as_shown():
    rated = Dataset.from_frame({**EVENTS, "rating": [5, 2, 4, 3]})
    known = dislikes(rated, below=3)
    assert known.item.tolist() == [0, 1, 2]
    assert known.impressions.rows() == [("ann", 2, 20)]
    assert at_least(known, 4).impressions is known.impressions
    assert not len(dislikes(rated, below=2).impressions)
    with pytest.raises(DataError, match="the data would be empty"):
        dislikes(rated, below=6)


def test_it_is_read_from_a_file_with_ids_as_in_the_events(tmp_path):
    (tmp_path / "clicks.csv").write_text("who,item,when\n007,1,2024-01-02\n8,2,2024-01-03\n")
    (tmp_path / "shown.csv").write_text("who;item;when\n8;1;2024-01-01\n8;3;2024-01-01\n")
    roles = {"user": "who", "timestamp": "when"}
    for impressions in (tmp_path / "shown.csv", {"path": tmp_path / "shown.csv", "separator": ";"}):
        known = read(tmp_path / "clicks.csv", impressions=impressions, **roles)
        day = datetime(2024, 1, 1)
        assert known.impressions.rows() == [("8", 1, day), ("8", 3, day)]
        assert pairs(impression_rows(known)) == [(1, 0)]


START = datetime(2024, 5, 1, 12)


def chain(*rows, **options):
    """The events of (user, item, minute, type) as a Dataset."""
    user, item, minute, event_type = zip(*rows)
    time = [START + timedelta(minutes=m) for m in minute]
    frame = {"user": user, "item": item, "timestamp": time, "event_type": event_type}
    return Dataset.from_frame(pl.DataFrame(frame), **options)


def test_view_cart_and_buy_of_one_item_become_one_event_with_the_first_time():
    data = chain(
        ("a", "x", 0, "view"), ("b", "x", 1, "view"), ("a", "x", 2, "cart"), ("a", "x", 5, "buy"),
        ("a", "y", 6, "view"), ("a", "x", 7, "view"), ("b", "x", 41, "view"), merge_repeats=30,
    )  # fmt: skip
    minutes = [(t - START).seconds // 60 for t in data.columns["timestamp"]]
    rows = list(zip(data.frame()["user"], data.frame()["item"], minutes))
    assert rows == [("a", "x", 0), ("b", "x", 1), ("a", "y", 6), ("a", "x", 7), ("b", "x", 41)]
    assert data.columns["event_type"].to_list() == ["buy", "view", "view", "view", "view"]


def test_the_strongest_type_and_the_largest_weight_count_in_any_order_of_rows():
    rows = [("a", "x", 9, "view"), ("a", "x", 1, "buy"), ("a", "x", 0, "view")]
    data = chain(*rows, merge_repeats=10, event_weights={"view": 1, "buy": 5})
    assert data.columns["event_type"].to_list() == ["buy"]
    assert data.weight.tolist() == [5]
    assert data.columns["timestamp"].to_list() == [START]


def test_of_unknown_types_the_last_counts():
    data = chain(("a", "x", 0, "zip"), ("a", "x", 1, "zap"), ("a", "y", 2, "zip"), merge_repeats=5)
    assert data.columns["event_type"].to_list() == ["zap", "zip"]


def test_a_run_goes_on_while_each_event_is_near_the_one_before():
    minute = np.array([0, 25, 50, 90]) * 60_000_000
    one = np.zeros(4, np.int32)
    assert first_of_run(one, one, minute, 30).tolist() == [0, 0, 0, 3]
    assert first_of_run(one[:0], one[:0], minute[:0], 30).tolist() == []


def test_merging_a_purchase_log_leaves_its_views():
    log = purchase_log(100, 50, 2_000)
    data = Dataset.from_frame(log, merge_repeats=5)
    assert len(data) == 1_500
    assert set(data.columns["event_type"]) == {"view", "cart", "buy"}
    assert (data.columns["event_type"] == "buy").sum() == (log["event_type"] == "buy").sum()


@pytest.mark.parametrize("minutes", [0, -1, True, "5"])
def test_minutes_must_be_a_number_above_0(minutes):
    with pytest.raises(OptionError, match="merge_repeats must be minutes above 0, not"):
        chain(("a", "x", 0, "view"), merge_repeats=minutes)


def test_merging_without_times_is_refused():
    frame = {"user": ["a", "a"], "item": ["x", "x"], "timestamp": [1, 2]}
    for events in (frame, {"user": ["a"], "item": ["x"]}):
        with pytest.raises(DataError, match="merge_repeats needs times with dates"):
            Dataset.from_frame(events, merge_repeats=5)


def sales(**columns):
    """Ten events; columns replace or add to those of users and items."""
    return pl.DataFrame({"user": list("aabbccddee"), "item": list("xyxyxyxyxy"), **columns})


def test_refunds_are_left_out_with_a_line_that_says_so():
    types = ["buy"] * 7 + ["Refund", "return", "remove from cart"]
    frame = sales(event_type=types, Quantity=[1] * 8 + [-1, 1])
    said = (
        r"^left out 3 of 10 events that are refunds \(3 by 'event_type' and 1 by 'Quantity'\); "
        r"refunds='keep' takes them as choices$"
    )
    with pytest.warns(Notice, match=said):
        data = Dataset.from_frame(frame)
    assert len(data) == 7 and set(data.columns["event_type"]) == {"buy"}
    assert len(Dataset.from_frame(frame, refunds="keep")) == 10


@pytest.mark.parametrize("name", ["quantity", "UnitPrice", "total amount", "qty", "sales_total"])
def test_negative_amounts_are_refunds_even_in_a_column_that_is_ignored(name):
    frame = sales(**{name: [3.5] * 9 + [-2.0]})
    with pytest.warns(Notice, match=f"left out 1 of 10 events that are refunds .1 by '{name}'."):
        assert len(Dataset.from_frame(frame, ignore=[name])) == 9


@pytest.mark.parametrize(
    "column", [{"log_price": [1.0] * 9 + [-1]}, {"price": [-1.0] * 5 + [1] * 5}, {"x": [-1] * 10},
               {"price_change": [1.0] * 9 + [-1]}, {"price": ["-1"] * 10}],
)  # fmt: skip
def test_other_negative_numbers_are_not(column):
    assert len(Dataset.from_frame(sales(**column))) == 10


def test_a_role_of_the_caller_is_no_amount_but_a_weight_is():
    frame = sales(total=[3] * 9 + [-2])
    assert len(Dataset.from_frame(frame, rating="total")) == 10
    with pytest.warns(Notice, match="left out 1 of 10 events"):
        assert Dataset.from_frame(frame, weight="total").weight.tolist() == [3] * 9


def test_a_log_of_refunds_alone_is_refused():
    with pytest.raises(DataError, match="all 10 events are refunds by 'event_type'"):
        Dataset.from_frame(sales(event_type=["refund"] * 10))
    with pytest.raises(OptionError, match="refunds must be one of drop, keep, not 'no'"):
        Dataset.from_frame(sales(), refunds="no")
