"""What was shown and not chosen: a table beside the events, which it never adds to."""

import logging
from datetime import datetime

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, read
from fmpair.data.describe import figures, fingerprint
from fmpair.data.event_types import impression_rows
from fmpair.data.filters import at_least, core, dislikes
from fmpair.data.splits import by_time
from fmpair.errors import DataError

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
