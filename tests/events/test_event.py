"""Times as people write them."""

import time

import pytest

from fmpair.errors import DataError
from fmpair.events.event import event_time


@pytest.mark.parametrize(
    "value",
    [
        1_700_000_000,
        1_700_000_000.0,
        1_700_000_000_000,
        1_700_000_000_000_000,
        1_700_000_000_000_000_000,
        "2023-11-14 22:13:20",
        "2023-11-14T22:13:20Z",
        "2023-11-14T23:13:20+01:00",
    ],
)
def test_a_time_is_understood_however_it_is_written(value):
    assert event_time(value) == 1_700_000_000_000_000


def test_no_time_is_now():
    assert abs(event_time(None) - time.time() * 1e6) < 60e6


@pytest.mark.parametrize("value", ["soon", "", 5, -1, float("nan"), True, [1], "x" * 500])
def test_what_is_no_time_is_refused(value):
    with pytest.raises(DataError, match=r"invalid time .*: use seconds since 1970, or text"):
        event_time(value)
