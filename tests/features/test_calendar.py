"""Parts of times: known answers, any form, any zone, and nothing from the future."""

import datetime as dt

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmpair import Dataset
from fmpair.errors import DataError, OptionError
from fmpair.features import FeatureSpace, situations
from fmpair.features.calendar import datetimes, part_of, since_last
from fmpair.features.field import Field, field_from

# A Wednesday evening and a Sunday morning
TIMES = pl.Series("when", [dt.datetime(2024, 5, 1, 20, 15), dt.datetime(2024, 6, 30, 6, 0), None])
SECONDS = [1714594500, 1719727200]


@pytest.mark.parametrize(
    ("part", "wanted"),
    [
        ("hour", [20, 6, None]),
        ("daypart", ["evening", "morning", None]),
        ("weekday", ["Wednesday", "Sunday", None]),
        ("weekend", ["no", "yes", None]),
        ("month", ["May", "June", None]),
        ("period", [pytest.approx(19844.84375), 19904.25, None]),
    ],
)
def test_parts_are_what_a_calendar_says(part, wanted):
    assert part_of(TIMES, part, "UTC").to_list() == wanted


def test_hours_are_told_in_the_fields_zone():
    assert part_of(TIMES, "hour", "Europe/Berlin").to_list() == [22, 8, None]
    assert part_of(TIMES, "weekday", "Asia/Tokyo").to_list()[0] == "Thursday"


@pytest.mark.parametrize(
    "values",
    [
        SECONDS,
        [second * 1000 for second in SECONDS],
        [float(second) for second in SECONDS],
        ["2024-05-01 20:15", "2024-06-30 06:00"],
        ["2024-05-01T22:15:00+02:00", "2024-06-30T06:00:00Z"],
        pl.Series(TIMES[:2]).dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo"),
    ],
    ids=["s", "ms", "float", "text", "zones", "other zone"],
)
def test_times_in_any_form_are_the_same_moments(values):
    assert datetimes(pl.Series("when", values)).to_list() == TIMES[:2].to_list()


def test_an_order_has_no_hour():
    with pytest.raises(DataError, match="'when' has numbers in order but no dates"):
        datetimes(pl.Series("when", [1, 2, 3]))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"parts": ["minute"]}, "parts must be some of hour, .*, not 'minute'"),
        ({"zone": "Mars"}, "zone must be a time zone such as 'Europe/Berlin', not 'Mars'"),
        ({"kind": "numeric", "parts": ["hour"]}, "parts requires kind='time', not 'numeric'"),
    ],
)
def test_parts_and_zones_that_are_none_are_refused(options, said):
    with pytest.raises(OptionError, match=said):
        Field(**options)


def test_parts_may_be_one_text_as_on_a_command_line():
    assert field_from({"kind": "time", "parts": "hour, weekday"}).parts == ("hour", "weekday")


EVENTS = {
    "user": ["a", "b", "a", "b"],
    "item": [1, 1, 2, 2],
    "timestamp": [*SECONDS, SECONDS[0] + 60, SECONDS[1] + 86_400],
}


def test_the_events_own_times_are_a_field_where_options_say_so():
    data = Dataset.from_frame(EVENTS)
    assert FeatureSpace.fit(data).context == []
    space = FeatureSpace.fit(data, {"timestamp": "time"})
    assert space.context == ["timestamp"]
    assert space.query.labels() == [
        "timestamp.hour=20", "timestamp.hour=6", "timestamp.weekday=Wednesday",
        "timestamp.weekday=Sunday", "timestamp.weekday=Monday",
    ]  # fmt: skip
    rows, situation = situations(space, data)
    assert situation.tolist() == [0, 1, 0, 2]  # a minute later is the same hour
    assert rows.column.tolist() == [0, 2, 1, 3, 1, 4]
    never, missed = space.context_rows(pl.DataFrame({"timestamp": [dt.datetime(2024, 5, 3, 1)]}))
    assert (len(never.column), missed) == (0, {})  # an hour never seen is no mistake


def test_times_that_are_not_there_cannot_be_a_field():
    bare = {"user": ["a", "b"], "item": [1, 2]}
    with pytest.raises(OptionError, match="field 'timestamp' needs times, but the data have none"):
        FeatureSpace.fit(Dataset.from_frame(bare), {"timestamp": "time"})
    with pytest.raises(DataError, match="has numbers in order but no dates"):
        FeatureSpace.fit(Dataset.from_frame(bare, order="rows"), {"timestamp": "time"})


def test_days_since_the_last_event_are_those_of_the_user_and_strictly_before():
    events = {
        "user": ["a", "a", "a", "b", "a"],
        "item": [1, 2, 3, 1, 4],
        "timestamp": [0, 86_400, 86_400, 5, 4 * 86_400],
    }
    moved = {**events, "timestamp": [1_700_000_000 + time for time in events["timestamp"]]}
    assert since_last(Dataset.from_frame(moved)).to_list() == [None, 1.0, 1.0, None, 3.0]


TIMED = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=30)


@given(TIMED, st.data())
def test_no_days_since_come_from_the_future(events, draw):
    user, day = (np.array(column) for column in zip(*events))
    frame = {
        "user": user,
        "item": np.arange(len(user)) % 3,
        "timestamp": 1_700_000_000 + day * 86_400,
    }
    found = since_last(Dataset.from_frame(frame)).to_list()
    now = draw.draw(st.integers(0, len(events) - 1))
    known = (day < day[now]) | (np.arange(len(day)) == now)  # all later ones, and ties, left out
    part = Dataset.from_frame({name: np.asarray(cells)[known] for name, cells in frame.items()})
    place = int(np.flatnonzero(np.flatnonzero(known) == now)[0])
    assert since_last(part).to_list()[place] == found[now]
    earlier = [d for u, d in events if u == user[now] and d < day[now]]
    assert found[now] == (day[now] - max(earlier) if earlier else None)


def test_the_part_since_is_in_fixed_bins_and_only_of_the_events_times():
    data = Dataset.from_frame(EVENTS)
    space = FeatureSpace.fit(data, {"timestamp": {"kind": "time", "parts": ["since"]}})
    labels = space.query.labels()
    assert "timestamp.since in (0.25, 1]" in labels and len(labels) == 9
    rows, situation = situations(space, data)
    assert situation.tolist() == [0, 0, 1, 2] and rows.column.tolist() == [0, 2]
    dated = Dataset.from_frame(
        EVENTS, users={"user": ["a", "b"], "born": [dt.date(1990, 1, 1)] * 2}
    )
    with pytest.raises(OptionError, match="the part since requires the field 'timestamp'"):
        FeatureSpace.fit(dated, {"born": {"parts": ["since"]}})
    with pytest.raises(OptionError, match="the part age requires a column of the item table"):
        FeatureSpace.fit(dated, {"born": {"parts": ["age"]}})


def test_the_age_of_items_is_a_pair_of_their_date_and_the_events_period():
    dates = [dt.date(1999, 1, 1), dt.date(2020, 1, 1)]
    data = Dataset.from_frame(EVENTS, items={"item": [1, 2], "released": dates})
    space = FeatureSpace.fit(data)
    assert space.item.labels() == [
        "released.age in (-inf, 1999-01-01]", "released.age in (1999-01-01, inf]",
    ]  # fmt: skip
    assert space.context == ["timestamp"]
    assert space.query.labels()[0] == "timestamp.period in (-inf, 2024-05-01]"
    late = space.context_rows(pl.DataFrame({"timestamp": ["2099-01-01"]}))[0]
    assert late.column.tolist() == [space.query.size - 1]  # later than all: the last period
