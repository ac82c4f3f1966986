"""Every way of splitting is a partition of the events."""

import contextlib
from datetime import date

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmpair import checks
from fmpair.data import Dataset, splits, synthetic
from fmpair.data.splits import (
    SPLITS,
    by_attribute,
    by_session,
    by_time,
    cold_items,
    cold_users,
    folds,
    hash_of,
    holdout,
    leave_last_out,
    leave_out,
    per_user,
    target,
)  # fmt: skip
from fmpair.errors import DataError, OptionError, UnknownError


@st.composite
def datasets(draw):
    count = draw(st.integers(10, 60))
    numbers = st.lists(st.integers(0, 6), min_size=count, max_size=count)
    domains = st.lists(st.sampled_from(["books", "music"]), min_size=count - 4, max_size=count - 4)
    columns = {"user": draw(numbers), "item": draw(numbers), "timestamp": draw(numbers)}
    return Dataset.from_frame({**columns, "domain": ["books", "music"] * 2 + draw(domains)})


TIMED = Dataset.from_frame(
    {"user": ["a", "b", "a", "a", "c"], "item": [1, 1, 2, 3, 1], "timestamp": [30, 5, 10, 30, 1]}
)

# sessions that end on the days 1, 4, 6 and 2 of January
VISITS = Dataset.from_frame(
    {
        "user": ["a", "b", "c", "a", "d", "b", "c"],
        "item": [1, 2, 3, 4, 5, 6, 7],
        "timestamp": [f"2024-01-0{day} 12:00:00" for day in (1, 3, 1, 1, 2, 4, 6)],
    }
)


def every_split(data, seed):
    """One of each kind that these small data allow."""
    attempts = [
        lambda: holdout(data, test=0.3, validation=0.2, seed=seed),
        lambda: per_user(data, 0.4, validation=0.3, seed=seed),
        lambda: per_user(data, 0.4, validation=0.3, order="time"),
        lambda: leave_last_out(data, 1, validation=1),
        lambda: leave_out(data, 1, validation=1, seed=seed),
        lambda: by_time(data, test=0.2),
        lambda: by_time(data, after=4, validation_after=2),
        lambda: by_session(data, test=0.3, validation=0.2),
        lambda: cold_users(data, 0.3, validation=0.2, seed=seed, given=seed),
        lambda: cold_items(data, 0.3, validation=0.2, seed=seed, given=seed),
        lambda: by_attribute(data, "domain", test=["books"]),
        lambda: splits.given(data, [len(data) - 3, 1, 2]),
    ]
    found = [*folds(data, 3, seed, validation=0.3), *target(data, "books", 2, seed, 0.5)]
    for attempt in attempts:
        with contextlib.suppress(DataError):  # too few users, items or times
            found.append(attempt())
    return found


@settings(deadline=None)
@given(datasets(), st.integers(0, 3))
def test_every_split_partitions_the_rows(data, seed):
    for split in every_split(data, seed):
        rows = np.concatenate([split.train, split.validation, split.test])
        assert np.sort(rows).tolist() == list(range(len(data)))
        assert all((np.diff(part) > 0).all() for part in (split.train, split.test))


@settings(max_examples=20, deadline=None)
@given(datasets(), st.integers(0, 3))
def test_a_split_follows_from_its_seed(data, seed):
    assert hash_of(every_split(data, seed)) == hash_of(every_split(data, seed))


@given(datasets(), st.integers(2, 5))
def test_each_event_is_tested_in_exactly_one_fold(data, count):
    tested = np.concatenate([split.test for split in folds(data, count)])
    assert np.sort(tested).tolist() == list(range(len(data)))


@given(datasets())
def test_nothing_tested_is_as_old_as_what_trains(data):
    times = data.column("timestamp")
    try:
        split = by_time(data, test=0.3, validation=0.2)
    except DataError as error:
        assert len(np.unique(times)) < 3 and "have the same time" in str(error)
        return
    assert times[split.train].max() < times[split.validation].min()
    assert times[split.validation].max() < times[split.test].min()


def test_a_split_by_time_never_cuts_inside_one_moment():
    days = np.repeat([1, 2, 3, 4], [5, 3, 7, 5])
    data = Dataset.from_frame({"user": range(20), "item": range(20), "timestamp": days})
    for share, first in ((0.2, 4), (0.1, 4), (0.4, 4), (0.5, 3), (0.55, 3), (0.8, 2)):
        assert set(days[by_time(data, test=share).test]) == set(range(first, 5)), share
    split = by_time(data, test=0.2, validation=0.1)
    assert [set(days[rows]) for rows in (split.train, split.validation)] == [{1, 2}, {3}]
    late = by_time(data, after=4, validation=0.3)
    assert set(days[late.validation]) == {3} and set(days[late.test]) == {4}


def test_events_of_one_moment_cannot_be_split_by_time():
    data = Dataset.from_frame({"user": [1, 2, 3], "item": [1, 2, 3], "timestamp": [7, 7, 7]})
    with pytest.raises(DataError, match="3 events have the same time"):
        by_time(data, test=0.5)


def test_the_share_and_the_seed_decide():
    data = Dataset.from_frame(pl.DataFrame({"user": range(100), "item": range(100)}))
    split = holdout(data, test=0.2, validation=0.1, seed=3)
    assert (len(split.train), len(split.validation), len(split.test)) == (70, 10, 20)
    assert np.array_equal(split.test, holdout(data, test=0.2, validation=0.1, seed=3).test)
    assert not np.array_equal(split.test, holdout(data, test=0.2, validation=0.1, seed=4).test)


def test_the_last_event_of_each_user_is_left_out():
    split = leave_last_out(TIMED)
    assert split.test.tolist() == [0], "of two events at one time the seed says which is later"
    assert split.train.tolist() == [1, 2, 3, 4], "users with one event only train"
    assert leave_last_out(TIMED, 1, validation=1).validation.tolist() == [3]


@pytest.mark.parametrize(
    "last",
    [leave_last_out, lambda data, seed: per_user(data, 0.25, seed=seed, order="time")],
    ids=["leave_last_out", "per_user"],
)
def test_ties_at_a_user_s_last_event_do_not_follow_the_order_of_rows(last):
    rows = {"user": np.repeat(np.arange(300), 4), "item": np.tile([5, 6, 7, 8], 300)}
    data = Dataset.from_frame({**rows, "timestamp": np.tile([1, 2, 2, 2], 300)})
    tested = data.frame()["item"].to_numpy()[last(data, seed=0).test]
    assert len(tested) == 300
    counts = np.bincount(tested, minlength=9)
    assert counts[5] == 0 and (counts[6:] > 70).all()  # a hundred each on average
    assert last(data, seed=0).hash == last(data, seed=0).hash != last(data, seed=1).hash


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


WORLD = synthetic.make(users=60, items=40, events=2000).data


def numbers_of(split):
    return len(split.train), len(split.validation), len(split.test)


def test_the_validation_part_of_a_fold_is_a_share_of_what_it_does_not_test():
    found = folds(WORLD, 4, validation=0.1)
    assert [numbers_of(split) for split in found] == [(1350, 150, 500)] * 4
    plain = folds(WORLD, 4)
    assert all(np.array_equal(a.test, b.test) for a, b in zip(found, plain))
    assert not np.intersect1d(found[0].validation, found[1].validation).size


def test_a_share_of_every_users_events_is_set_aside():
    split = per_user(WORLD, test=0.2, validation=0.1)
    times, tested = (np.bincount(rows, minlength=60) for rows in
                     (WORLD.user, WORLD.user[split.test]))  # fmt: skip
    assert np.array_equal(tested, np.minimum(np.rint(0.2 * times), times - 1))
    latest = per_user(TIMED, test=0.5, order="time")
    assert latest.test.tolist() in ([0, 3], [3]), "round(1.5) of a's three events, the latest"
    assert {1, 4} <= set(latest.train.tolist()), "users with one event only train"


def test_some_random_events_of_each_user_are_left_out():
    split = leave_out(WORLD, 2, validation=1)
    assert np.bincount(WORLD.user[split.test]).max() == 2
    assert np.bincount(WORLD.user[split.validation]).max() == 1
    assert not np.array_equal(split.test, leave_out(WORLD, 2, 1, seed=1).test)


def test_cold_users_have_no_training_event_but_those_given():
    split = cold_users(WORLD, test=0.25, validation=0.25)
    users = [set(WORLD.user[rows].tolist()) for rows in (split.train, split.validation, split.test)]
    assert [len(part) for part in users] == [30, 15, 15]
    assert not users[0] & users[1] and not users[0] & users[2] and not users[1] & users[2]
    warm = cold_users(WORLD, test=0.25, given=2)
    tested = np.unique(WORLD.user[warm.test])
    assert (np.bincount(WORLD.user[warm.train])[tested] == 2).all()
    times = WORLD.column("timestamp")
    for user in tested:
        train, test = (rows[WORLD.user[rows] == user] for rows in (warm.train, warm.test))
        assert times[train].max() <= times[test].min()


def test_cold_items_have_no_training_event():
    split = cold_items(WORLD, test=0.2)
    assert not np.intersect1d(WORLD.item[split.train], WORLD.item[split.test]).size
    assert len(np.unique(WORLD.item[split.test])) == 8


def test_beside_cold_items_a_share_of_the_other_events_can_be_tested():
    alone = cold_items(WORLD, test=0.2, validation=0.1)
    both = cold_items(WORLD, test=0.2, validation=0.1, warm=0.25)
    rows = np.concatenate([both.train, both.validation, both.test])
    assert np.array_equal(np.sort(rows), np.arange(len(WORLD)))
    for part, before in ((both.test, alone.test), (both.validation, alone.validation)):
        assert np.isin(before, part).all()
        assert len(part) - len(before) == round(0.25 * len(alone.train))
    cold = np.unique(WORLD.item[alone.test])
    assert not np.isin(WORLD.item[both.train], cold).any()


def test_only_events_of_the_target_domain_are_tested():
    domain = WORLD.columns["domain"].to_numpy()
    found = target(WORLD, "music", 4, validation=0.2)
    assert np.array_equal(
        np.sort(np.concatenate([split.test for split in found])), np.flatnonzero(domain == "music")
    )
    for split in found:
        assert set(domain[split.validation]) == {"music"}
        assert np.isin(np.flatnonzero(domain != "music"), split.train).all()
    with pytest.raises(UnknownError, match="Did you mean 'music'"):
        target(WORLD, "musik")
    with pytest.raises(DataError, match="no domains"):
        target(TIMED, "music")


def test_values_of_a_column_decide_wherever_the_column_is():
    night = by_attribute(WORLD, "daytime", test=["night"], validation=["evening"])
    assert set(WORLD.columns["daytime"].gather(night.test)) == {"night"}
    assert set(WORLD.columns["daytime"].gather(night.validation)) == {"evening"}
    genre = WORLD.item_table["genre"]
    first = genre.drop_nulls().explode()[0]
    split = by_attribute(WORLD, "item.genre", test=first)
    tested = genre.gather(WORLD.item[split.test])
    held = tested.list.contains(first) if isinstance(genre.dtype, pl.List) else tested == first
    assert held.all()
    likes = by_attribute(WORLD, "interests", test=WORLD.user_table["interests"].explode()[:1])
    assert 0 < len(likes.test) < len(WORLD)


def test_a_date_can_cut_the_times():
    days = pl.Series(["2020-01-01", "2020-03-01", "2019-12-31", "2020-02-01"]).str.to_date()
    for times in (days, days.cast(pl.Datetime("ms")), days.dt.epoch("s")):
        data = Dataset.from_frame({"user": [1, 2, 3, 4], "item": [1, 1, 1, 1], "timestamp": times})
        for moment in ("2020-02-01", date(2020, 2, 1), "2020-02-01T00:00:00Z"):
            split = by_time(data, after=moment, validation_after="2020-01-01")
            assert (split.train.tolist(), split.validation.tolist()) == ([2], [0])
        assert len(by_time(data, after="2020-02-01", validation=0.25).validation) == 1
        with pytest.raises(DataError, match="times range from"):
            by_time(data, after="2031-01-01")
        with pytest.raises(OptionError, match="'yesterday' is not a time"):
            by_time(data, after="yesterday")
    with pytest.raises(OptionError, match="requires after"):
        by_time(data, validation_after=3)


def test_parts_made_by_others_are_counted_off():
    split = splits.given(TIMED, (2, 1, 2))
    assert (split.train.tolist(), split.validation.tolist()) == ([0, 1], [2])
    with pytest.raises(OptionError, match="5 in all"):
        splits.given(TIMED, (2, 1, 1))


def test_splits_come_back_from_their_file_and_keep_their_hash(tmp_path):
    found = folds(WORLD, 3, validation=0.1)
    splits.save(found, tmp_path / "splits.parquet")
    again = splits.load(tmp_path / "splits.parquet")
    assert hash_of(again) == hash_of(found)
    frame = pl.read_parquet(tmp_path / "splits.parquet")
    assert frame.columns == ["row", "fold", "part"] and len(frame) == 3 * len(WORLD)
    frame.slice(1).write_parquet(tmp_path / "part.parquet")
    with pytest.raises(DataError, match="fold 0 does not have every row exactly once"):
        splits.load(tmp_path / "part.parquet")
    (tmp_path / "text").write_text("row,fold,part")
    with pytest.raises(DataError, match="not a file of splits"):
        splits.load(tmp_path / "text")


def test_sessions_stay_whole_and_the_latest_to_end_are_tested():
    assert by_session(TIMED, 0.34).test.tolist() == [0, 2, 3]  # a ended last
    found = by_session(VISITS, test=0.25, validation=0.25)
    assert [rows.tolist() for rows in (found.train, found.validation, found.test)] == [
        [0, 3, 4], [1, 5], [2, 6]
    ]  # fmt: skip
    assert by_session(VISITS, days=1.5, validation_days=1).hash == found.hash
    assert by_session(VISITS, days=2.5).test.tolist() == [1, 2, 5, 6]


def test_the_hash_is_the_same_everywhere_and_tells_splits_apart():
    split = leave_last_out(TIMED)
    assert split.hash == "08288d0f5c984ff0d4078235101087ead0f88762fcee2ebd906c70ffcb81a375"
    others = [holdout(WORLD, seed=seed) for seed in range(3)]
    assert len({hash_of(others), hash_of(others[::-1]), *(one.hash for one in others)}) == 5
    moved = splits.Split(split.train, split.test, split.validation)
    assert moved.hash != split.hash


def test_every_split_has_the_name_of_its_function():
    assert all(function.__name__ == name for name, function in SPLITS.items())


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (lambda: per_user(TIMED, order="size"), "order must be one of random, time"),
        (lambda: per_user(TIMED, test=0.01), "no user has enough events"),
        (lambda: cold_users(TIMED, given=-1), "given must be 0 or more"),
        (lambda: cold_items(TIMED, 0.4, warm=0.5), "warm must be from 0 to below 0.5, not 0.5"),
        (lambda: cold_users(TIMED, 0.5, 0.4), "3 users with more than 0 events are too few"),
        (lambda: by_session(TIMED, 0.9), "3 sessions are too few for a test share of 0.9"),
        (lambda: by_session(VISITS, days=0), "days must be a number above 0"),
        (lambda: by_session(VISITS, days=9), "all 4 sessions end in the last 9 days"),
        (lambda: by_session(VISITS, validation_days=1), "validation_days requires days"),
        (lambda: by_session(TIMED, days=1), "an order but no times: give shares, not days"),
        (lambda: folds(TIMED, 2, validation=1), "share from 0 to below 1"),
        (lambda: by_attribute(WORLD, "daytme", ["night"]), "Did you mean 'daytime'"),
        (lambda: by_attribute(WORLD, "daytime", ["nigth"]), "Did you mean 'night'"),
        (
            lambda: by_attribute(WORLD, "daytime", ["night"], ["night"]),
            "have values of test and of validation",
        ),
        (lambda: splits.save([], "none"), "no split"),
    ],
)
def test_what_cannot_be_split_is_said(attempt, words):
    with pytest.raises((DataError, OptionError, UnknownError), match=words):
        attempt()


def test_more_folds_than_the_memory_holds_are_refused(monkeypatch):
    monkeypatch.setattr(checks, "memory", lambda: 1000)
    with pytest.raises(OptionError, match=r"splitting needs .* GB for 5 folds, .*: lower count"):
        splits.folds(WORLD, count=5)
