"""Columns of times: recognised, parsed, checked, and as microseconds since 1970."""

import datetime as dt
import logging

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmpair.data import Dataset
from fmpair.data.parts import user_timelines
from fmpair.data.times import (
    before_all,
    is_calendar,
    moments,
    parse_times,
    strictly_before,
    time_form,
    timelines,
)
from fmpair.errors import DataError, Notice
from fmpair.features.calendar import since_last

SECOND = 1_000_000
MARCH = int(dt.datetime(2024, 3, 1, tzinfo=dt.UTC).timestamp())  # 2024-03-01 00:00 UTC


def events(times, name="timestamp"):
    column = times.alias(name) if isinstance(times, pl.Series) else pl.Series(name, times)
    return pl.DataFrame({"user": ["u"] * len(column), "item": ["i"] * len(column), name: column})


@pytest.mark.parametrize(
    "text",
    [
        "2024-03-01",
        "2024-03-01 00:00",
        "2024-03-01T00:00:00",
        "2024-03-01 00:00:00.000",
        "2024-03-01T01:00:00+01:00",
        "2024-03-01T01:00+01",
        "2024-02-29 19:00:00 -0500",
        "2024-03-01T00:00:00Z",
        "2024-03-01 00:00:00 UTC",
        "2024/03/01 00:00:00",
        "01.03.2024 00:00",
        "1.3.2024",
    ],
)
def test_text_in_any_usual_form_is_a_time(text):
    assert str(parse_times(pl.Series([text, None]))[0]) == "2024-03-01 00:00:00"
    assert moments(Dataset.from_frame(events([text]))).tolist() == [MARCH * SECOND]


@pytest.mark.parametrize("text", ["soon", "2024-13-01", "12:30", "20240301", "v2024-03-01"])
def test_text_that_is_no_time_stays_text(text):
    assert parse_times(pl.Series(["2024-03-01", text])).dtype == pl.String


@pytest.mark.parametrize(
    "times",
    [
        pl.Series([MARCH]),
        pl.Series([float(MARCH)]),
        pl.Series([str(MARCH)]),
        pl.Series([MARCH * 1000]),
        pl.Series([MARCH * SECOND]),
        pl.Series([MARCH * SECOND * 1000]),
        pl.Series([dt.date(2024, 3, 1)]),
        pl.Series([dt.datetime(2024, 3, 1)], dtype=pl.Datetime("ns")),
        pl.Series([dt.datetime(2024, 3, 1)], dtype=pl.Datetime("ms")),
        pl.Series([dt.datetime(2024, 3, 1)]).dt.replace_time_zone("UTC"),
        pl.Series([dt.datetime(2024, 3, 1, 1)]).dt.replace_time_zone("Europe/Berlin"),
    ],
)
def test_epochs_and_dates_of_any_unit_and_zone_are_one_moment(times):
    data = Dataset.from_frame(events(times))
    assert moments(data).tolist() == [MARCH * SECOND]
    assert is_calendar(data)


def test_times_of_pandas_are_read():
    frame = pd.DataFrame({"user": [1], "item": [1], "ts": [pd.Timestamp("2024-03-01", tz="UTC")]})
    assert moments(Dataset.from_frame(frame)).tolist() == [MARCH * SECOND]


def test_fractions_of_seconds_are_kept():
    text = "2024-03-01 00:00:00.25"
    assert moments(Dataset.from_frame(events([text]))).tolist() == [MARCH * SECOND + 250_000]
    assert moments(Dataset.from_frame(events([MARCH + 0.25]))).tolist() == [
        MARCH * SECOND + 250_000
    ]


@pytest.mark.parametrize("times", [[3, 1, 2], [0.3, 0.1, 0.2], [3 * 10**18, 10**18, -(10**18)]])
def test_numbers_that_are_no_times_of_a_calendar_are_an_order(times):
    data = Dataset.from_frame(events(times))
    assert not is_calendar(data)
    assert np.argsort(moments(data)).tolist() == np.argsort(times).tolist()


def test_data_without_times_have_no_moments():
    data = Dataset.from_frame({"user": [1], "item": [2]})
    assert moments(data) is None
    assert not is_calendar(data)


@pytest.mark.parametrize(
    ("values", "form"),
    [
        (pl.Series("bought", [dt.date(2024, 3, 1)]), "dates"),
        (pl.Series("bought", ["2024-03-01 10:00:00 UTC"]), "text such as 2024-03-01 10:00:00 UTC"),
        (pl.Series("x", [MARCH]), "seconds since 1970"),
        (pl.Series("x", [MARCH * 1000.0]), "milliseconds since 1970"),
        (pl.Series("event_time", [200_000_000]), "seconds since 1970"),
        (pl.Series("x", [200_000_000]), None),  # 1976 under a name that says nothing
        (pl.Series("x", [4_000_000_000]), None),  # 2096
        (pl.Series("time", [8, 12, 20]), None),  # hours of a day are context
        (pl.Series("time", ["day", "night"]), None),
        (pl.Series("time", [dt.time(8, 30)]), None),
        (pl.Series("when", ["1709287200", "2024-03-01 10:00:00"] * 200), "dates and numbers"),
        (pl.Series("x", ["1709287200", "2024-03-01 10:00:00"]), None),
        (pl.Series("when", ["1709287200", "2024-03-01", "w7"]), None),
        (pl.Series("long", [dt.timedelta(1)]), None),
        (pl.Series("event_time", [], pl.Int64), None),
        (pl.Series("event_time", [None], pl.String), None),
        (pl.Series("event_time", [None], pl.Int64), None),
    ],
)
def test_a_column_of_times_is_told_by_type_contents_and_name(values, form):
    assert time_form(values) == form


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (["a", "b"], "'timestamp' is text, not a time"),
        (
            ["2024-03-01", None, f"{MARCH}", f"{MARCH}"],
            rf"mixes dates and numbers, such as '2024-03-01' and '{MARCH}' \(1 and 2 events\): "
            r"write all in one form, .* timestamp='...', .* ignore=\['timestamp'\]",
        ),
        (["2024-03-01", "soon"], r"1 of 2 invalid timestamps, the first in row 1 .*'soon'"),
        ([MARCH] * 30 + [MARCH * 1000], r"mixes seconds and milliseconds \(30 and 1 events\)"),
        ([MARCH] * 30 + [0], r"has 1 of 31 invalid timestamps, such as 0, among seconds"),
        (["2024-03-01 10:00:00", "2024-03-01 10:00:00Z"], "with and without a zone"),
        ([dt.time(8), dt.time(9)], "holds Time, not times"),
        ([True, False], "holds Boolean, not times"),
        ([float(MARCH), float("inf")], "has infinite times"),
    ],
)
def test_what_is_wrong_with_times_is_said_in_one_line(times, message):
    with pytest.raises(DataError, match=message):
        Dataset.from_frame(events(times))


def test_a_mixed_column_that_is_named_like_a_time_is_refused_without_being_asked_for():
    when = [f"{MARCH + 60 * n}" if n % 3 else f"2024-03-01 10:00:{n:02d}" for n in range(40)]
    frame = {"user": [n % 5 for n in range(40)], "item": [n % 8 for n in range(40)], "when": when}
    with pytest.raises(DataError, match="'when' mixes dates and numbers, such as '2024-03-01 10"):
        Dataset.from_frame(frame)
    assert len(Dataset.from_frame(frame, ignore=["when"])) == 40


def test_events_without_a_time_are_kept_and_refused_where_times_are_needed(caplog):
    with caplog.at_level(logging.WARNING, "fmpair"):
        data = Dataset.from_frame(events(["2024-03-01", None, None]))
    assert "'timestamp' has no time in 2 of 3 events" in caplog.text
    assert len(data) == 3
    with pytest.raises(DataError, match=r"2 of 3 events have no time \(the first in row 1"):
        moments(data)
    assert "missing='drop-untimed' leaves them out" in caplog.text
    with pytest.warns(Notice, match=r"without a user, item or time \(2 in 'timestamp'\)$"):
        dated = Dataset.from_frame(events(["2024-03-01", None, None]), missing="drop-untimed")
    assert len(moments(dated)) == 1


def test_a_few_events_without_a_time_are_the_oldest_of_their_users():
    times = [None, *range(1, 40)]
    frame = pl.DataFrame({"user": ["a", "b"] * 20, "item": range(40), "timestamp": times})
    data = Dataset.from_frame(frame.sort(pl.col("timestamp").is_null(), maintain_order=True))
    lines = user_timelines(data)
    ann, bob = (int(lines.start[data.users.number(user)]) for user in ("a", "b"))
    oldest = data.items.ids.gather(lines.item[[ann, bob]]).to_list()
    assert oldest == [0, 1]  # 0 has no time, and stands in the last row
    assert strictly_before(lines)[ann] == ann  # nothing comes before it
    with pytest.raises(DataError, match="1 of 40 events have no time"):
        since_last(data)


@pytest.mark.parametrize(
    ("times", "filled"),
    [
        ([5, None, 7, None], [5, 4, 7, 4]),
        ([5.0, float("nan"), None, 2.0], [5.0, 4.0, 1.0, 2.0]),
        (
            [dt.date(2024, 3, 1), None, dt.date(2024, 3, 9), None],
            [dt.date(2024, 3, 1), dt.date(2024, 2, 29), dt.date(2024, 3, 9), dt.date(2024, 2, 29)],
        ),
    ],
)
def test_a_missing_time_is_just_before_the_first_of_its_user_or_of_all(times, filled):
    user = np.array([0, 0, 1, 2], np.int32)
    assert before_all(pl.Series("timestamp", times), user).to_list() == filled


def test_times_in_the_future_are_named(caplog):
    with caplog.at_level(logging.WARNING, "fmpair"):
        Dataset.from_frame(events([MARCH, 40 * MARCH]))
    assert "'timestamp' has 1 of 2 times in the future" in caplog.text


EVENTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(-2, 3)), max_size=40)


def lines_of(events):
    user, item, moment = (np.array(column, np.int64) for column in zip(*events))
    return timelines(user.astype(np.int32), item.astype(np.int32), 5, moment)


def test_events_of_a_user_stand_oldest_first():
    lines = lines_of([(1, 7, 30), (0, 5, 9), (1, 8, 10), (1, 9, 20)])
    assert lines.start.tolist() == [0, 1, 4, 4, 4, 4]
    assert lines.item.tolist() == [5, 8, 9, 7]
    assert lines.event.tolist() == [1, 2, 3, 0]
    assert lines.positions.tolist() == [3, 0, 1, 2]


def test_events_of_one_moment_are_not_before_each_other():
    lines = lines_of([(0, 1, 10), (0, 2, 20), (0, 3, 20), (0, 4, 30), (1, 5, 30)])
    assert strictly_before(lines).tolist() == [0, 1, 1, 3, 4]


@given(EVENTS.filter(len))
def test_what_is_before_an_event_is_exactly_what_its_user_did_earlier(events):
    lines = lines_of(events)
    before = strictly_before(lines)
    for place, number in enumerate(lines.event):
        user, _, moment = events[number]
        found = lines.event[lines.start[user] : before[place]]
        earlier = [n for n, (u, _, m) in enumerate(events) if u == user and m < moment]
        assert sorted(found.tolist()) == earlier
