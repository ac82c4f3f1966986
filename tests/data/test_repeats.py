from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset
from fmpair.data.repeats import first_of_run
from fmpair.errors import DataError, Notice, OptionError
from fmpair.testing import purchase_log

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
