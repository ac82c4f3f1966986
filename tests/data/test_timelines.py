import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fmpair.data.times import strictly_before, timelines

EVENTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(-2, 3)), max_size=40)


def lines_of(events):
    user, item, moment = (np.array(column, np.int64) for column in zip(*events))
    return timelines(user.astype(np.int32), item.astype(np.int32), 5, moment)


def test_events_of_a_user_stand_oldest_first():
    lines = lines_of([(1, 7, 30), (0, 5, 9), (1, 8, 10), (1, 9, 20)])
    assert lines.start.tolist() == [0, 1, 4, 4, 4, 4]
    assert lines.item.tolist() == [5, 8, 9, 7]
    assert lines.event.tolist() == [1, 2, 3, 0]
    assert lines.place.tolist() == [3, 0, 1, 2]


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
