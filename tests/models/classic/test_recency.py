"""What is chosen now: orders and counts known by hand."""

import pytest

from fmpair import Dataset
from fmpair.errors import DataError, OptionError
from fmpair.models import MostRecent, PopularLately

DAY = 86_400
NOW = 1_700_000_000
EVENTS = {
    "user": ["a", "b", "a", "b", "a", "b"],
    "item": ["x", "y", "z", "x", "y", "w"],
    "timestamp": [NOW - 90 * DAY, NOW - 60 * DAY, NOW - 5 * DAY, NOW - 4 * DAY, NOW, NOW - 5 * DAY],
}


def ranked(model):
    out = model.recommend("a", 9, exclude_seen=False)
    return dict(out.select("item", "score").rows())


def test_the_item_that_was_chosen_last_comes_first():
    data = Dataset.from_frame(EVENTS, items={"item": ["w", "x", "y", "z", "never"]})
    assert ranked(MostRecent().fit(data)) == {"y": 3, "x": 2, "z": 1, "w": 1, "never": 0}
    assert ranked(MostRecent(by="first").fit(data)) == {"z": 3, "w": 3, "y": 2, "x": 1, "never": 0}


def test_popular_lately_counts_the_events_of_the_last_days_or_of_each_users_last():
    data = Dataset.from_frame(EVENTS)
    assert ranked(PopularLately().fit(data)) == {"x": 1, "y": 1, "z": 1, "w": 1}
    assert ranked(PopularLately(days=61).fit(data)) == {"x": 1, "y": 2, "z": 1, "w": 1}
    assert ranked(PopularLately(days=5).fit(data)) == {"x": 1, "y": 1, "z": 0, "w": 0}
    assert ranked(PopularLately(last=1).fit(data)) == {"x": 1, "y": 1, "z": 0, "w": 0}
    assert ranked(PopularLately(days=1, last=1).fit(data)) == {"x": 0, "y": 1, "z": 0, "w": 0}


def test_an_order_counts_each_users_last_events():
    bare = {"user": ["a"] * 12, "item": ["x", "x"] + ["y"] * 10}
    assert ranked(PopularLately().fit(Dataset.from_frame(bare, order="rows"))) == {"x": 0, "y": 10}
    ordered = Dataset.from_frame(bare, order="per-user")
    assert ranked(PopularLately(last=11).fit(ordered)) == {"x": 1, "y": 10}
    with pytest.raises(DataError, match="days needs times with dates: use last=10"):
        PopularLately(days=3).fit(ordered)
    with pytest.raises(DataError, match="order of the events of different users is not known"):
        MostRecent().fit(ordered)


def test_without_times_there_is_nothing_recent():
    for recipe in (MostRecent(), PopularLately()):
        with pytest.raises(DataError, match="the data have no times"):
            recipe.fit({"user": ["a", "b"], "item": ["x", "y"]})


@pytest.mark.parametrize("wrong", [{"days": 0}, {"last": 0}, {"last": 1.5}])
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(OptionError, match=next(iter(wrong))):
        PopularLately(**wrong)
    with pytest.raises(OptionError, match="by must be one of last, first"):
        MostRecent(by="now")
