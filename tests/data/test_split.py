"""Every way of splitting is a partition of the events."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmpair.data import Dataset
from fmpair.data.split import by_time, folds, holdout, leave_last_out
from fmpair.errors import DataError, OptionError


@st.composite
def datasets(draw):
    count = draw(st.integers(10, 60))
    numbers = st.lists(st.integers(0, 6), min_size=count, max_size=count)
    return Dataset.from_frame(
        {"user": draw(numbers), "item": draw(numbers), "timestamp": draw(numbers)}
    )


TIMED = Dataset.from_frame(
    {"user": ["a", "b", "a", "a", "c"], "item": [1, 1, 2, 3, 1], "timestamp": [30, 5, 10, 30, 1]}
)


@given(datasets(), st.integers(0, 3))
def test_every_split_partitions_the_rows(data, seed):
    splits = [
        holdout(data, test=0.3, validation=0.2, seed=seed),
        leave_last_out(data, 1, validation=1),
        by_time(data, test=0.2),
        *folds(data, 3, seed),
    ]
    for split in splits:
        rows = np.concatenate([split.train, split.validation, split.test])
        assert np.sort(rows).tolist() == list(range(len(data)))


@given(datasets(), st.integers(2, 5))
def test_each_event_is_tested_in_exactly_one_fold(data, count):
    tested = np.concatenate([split.test for split in folds(data, count)])
    assert np.sort(tested).tolist() == list(range(len(data)))


@given(datasets())
def test_nothing_tested_is_older_than_what_trains(data):
    split = by_time(data, test=0.3, validation=0.2)
    times = data.column("timestamp")
    assert times[split.train].max() <= times[split.validation].min()
    assert times[split.validation].max() <= times[split.test].min()


def test_the_share_and_the_seed_decide():
    data = Dataset.from_frame(pl.DataFrame({"user": range(100), "item": range(100)}))
    split = holdout(data, test=0.2, validation=0.1, seed=3)
    assert (len(split.train), len(split.validation), len(split.test)) == (70, 10, 20)
    assert np.array_equal(split.test, holdout(data, test=0.2, validation=0.1, seed=3).test)
    assert not np.array_equal(split.test, holdout(data, test=0.2, validation=0.1, seed=4).test)


def test_the_last_event_of_each_user_is_left_out():
    split = leave_last_out(TIMED)
    assert split.test.tolist() == [3], "of two events at one time the later row is the later"
    assert split.train.tolist() == [0, 1, 2, 4], "users with one event only train"
    assert leave_last_out(TIMED, 1, validation=1).validation.tolist() == [0]


def test_the_parts_share_their_vocabularies():
    train, validation, test = leave_last_out(TIMED).parts(TIMED)
    assert (len(train), len(validation), len(test)) == (4, 0, 1)
    assert train.users is test.users


def test_impossible_splits_are_refused():
    with pytest.raises(OptionError, match=r"test \(1.5\) must be between 0 and 1"):
        holdout(TIMED, test=1.5)
    with pytest.raises(OptionError, match="their sum below 1"):
        holdout(TIMED, test=0.5, validation=0.5)
    with pytest.raises(DataError, match="5 events are too few"):
        holdout(TIMED, test=0.01)
    with pytest.raises(OptionError, match=r"from 2 to the number of events \(5\), not 9"):
        folds(TIMED, 9)
    with pytest.raises(OptionError, match="count must be 1 or more"):
        leave_last_out(TIMED, 0)
    timeless = Dataset.from_frame({"user": [1], "item": [2]})
    with pytest.raises(DataError, match="the data have no times"):
        by_time(timeless)
