import numpy as np
import polars as pl
import pytest

from fmpair.data import Dataset, synthetic
from fmpair.data.split_leakage import report
from fmpair.data.splits import by_time, holdout

TRAIN = Dataset.from_frame(
    {"user": ["a", "a", "b", "b"], "item": [1, 2, 1, 3], "timestamp": [10, 20, 5, 50],
     "time": ["day", None, "day", "day"]}
)  # fmt: skip
TEST = Dataset.from_frame(
    {"user": ["a", "a", "b", "c", "a"], "item": [2, 2, 3, 1, 9], "timestamp": [20, 15, 50, 99, 30],
     "time": [None, "day", "day", "day", "day"]}
)  # fmt: skip
SAME = ("same_pair", "same_situation", "same_event")


def test_every_figure_is_as_counted_by_hand():
    (found,) = report(TRAIN, TEST).comparisons
    assert (found.totals["events"], found.totals["users"], found.totals["items"]) == (5, 3, 4)
    assert found.counts["older"] == 3  # than 50: 20, 15, 30
    assert found.counts["older_for_user"] == 1  # a's latest is 20, b's 50
    assert found.counts["tied_for_user"] == 2  # with just these
    assert (found.totals["earlier_events"], found.counts["later"]) == (4, 2)  # than 15: 20, 50
    assert found.counts["later_for_user"] == 1  # a's first of test is 15, b's 50
    assert (found.counts["unseen_users"], found.counts["unseen_user_events"]) == (1, 1)
    assert (found.counts["unseen_items"], found.counts["unseen_item_events"]) == (1, 1)
    assert (
        found.counts["same_pair"],
        found.counts["same_situation"],
        found.counts["same_event"],
    ) == (3, 2, 2)


def test_it_does_not_matter_whether_the_parts_share_their_numbering():
    both = Dataset.from_frame(pl.concat([TRAIN.frame(), TEST.frame()]))
    train, test = both.take(np.arange(4)), both.take(np.arange(4, 9))
    assert report(train, test) == report(TRAIN, TEST)


def test_without_times_or_with_other_columns_those_figures_are_unknown():
    bare = Dataset.from_frame({"user": ["a", "c"], "item": [2, 7]})
    (found,) = report(TRAIN, bare).comparisons
    assert found.counts["older"] is None and found.counts["older_for_user"] is None
    assert found.counts["tied_for_user"] is None
    assert found.counts["later"] is None and found.counts["later_for_user"] is None
    assert (
        found.counts["same_pair"],
        found.counts["same_situation"],
        found.counts["same_event"],
    ) == (1, None, None)
    (found,) = report(bare, bare).comparisons
    assert (
        found.counts["same_pair"],
        found.counts["same_situation"],
        found.counts["same_event"],
    ) == (2, 2, 2)
    assert report(bare, bare).frame().filter(figure="older")["share"].to_list() == [None]


def test_lists_and_mixed_numbers_are_compared_too():
    columns = {"tags": [["x", "y"], ["z"]], "size": [1, 2]}
    one = Dataset.from_frame({"user": [1, 1], "item": [1, 2], **columns})
    two = Dataset.from_frame({"user": [1, 1], "item": [1, 2], **columns, "size": [1.0, 2.5]})
    assert report(one, two).comparisons[0].counts["same_event"] == 1


def test_the_validation_part_stands_between():
    data = synthetic.make(users=40, items=30, events=1000).data
    train, validation, test = holdout(data, validation=0.2).parts(data)
    found = report(train, test, validation)
    assert [(c.before, c.after) for c in found.comparisons] == [
        ("train", "test"), ("train", "validation"), ("validation", "test"),
    ]  # fmt: skip
    frame = found.frame()
    assert frame.columns == ["before", "after", "figure", "count", "share"] and len(frame) == 36
    assert frame["share"].is_between(0, 1).all()


def test_the_sentences_name_what_was_found_and_nothing_else():
    lines = report(TRAIN, TEST).lines()
    assert "3 of 5 events of test (60.0%) are older than the latest event of train" in lines
    assert "1 of 3 users of test (33.3%) have no event in train" in lines
    later = "2 of 4 events of train (50.0%) are later than the first event of test"
    assert f"{later}: learning from later events" in lines
    assert len(lines) == 12
    clean = Dataset.from_frame({"user": ["a", "b"], "item": [3, 2], "timestamp": [60, 70]})
    assert report(TRAIN, clean).lines() == ["no leakage between the parts was found"]


def test_a_split_by_time_has_nothing_older_in_its_test_part():
    data = synthetic.make(users=40, items=30, events=1000).data
    train, _, test = by_time(data).parts(data)
    assert report(train, test).comparisons[0].counts["older"] == 0
    train, _, test = holdout(data).parts(data)
    share = report(train, test).frame().filter(figure="older")["share"].item()
    assert share == pytest.approx(1, abs=0.05)


def test_where_only_each_users_order_is_known_only_their_own_future_is_told():
    events = {"user": ["a", "b", "a", "b"], "item": [1, 1, 2, 2]}
    data = Dataset.from_frame(events, order="per-user")
    (found,) = report(data.take(np.array([1, 2])), data.take(np.array([0, 3]))).comparisons
    assert (found.counts["older"], found.counts["older_for_user"]) == (None, 1)
    assert (found.counts["later"], found.counts["later_for_user"]) == (None, 1)


def test_rows_of_different_data_sets_have_no_order():
    one, two = (Dataset.from_frame({"user": ["a"], "item": [1]}, order="rows") for _ in range(2))
    (found,) = report(one, two).comparisons
    assert found.counts["older"] is None and found.counts["later_for_user"] is None
