"""Metrics of lists, results by group, groups of columns with many values."""

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset
from fmpair.errors import DataError, OptionError, UnknownError
from fmpair.evaluation import Protocol, evaluate
from fmpair.evaluation.derived_metrics import gini
from fmpair.evaluation.views import (
    MAX_GROUPS,
    OTHERS,
    binned,
    context,
    groups,
    in_order,
    item_events,
    item_popularity,
    user_activity,
    view,
    warmth,
)


def dataset(user, item, **columns):
    return Dataset.from_frame({"user": list(user), "item": list(item), **columns})


# Owners: w a, b, c; x a, b; y a; z d. Items are numbered w, x, y, z.
TRAIN = dataset("aaabbcd", "wxywxwz")
TEST = dataset("abcde", "zzzwx", time=["day", "day", "night", "day", "night"])


def same_for_all(rows):
    return np.tile(np.array([4, 3, 2, 1], np.float32), (len(rows), 1))


def judged(*metrics, **protocol):
    return evaluate(same_for_all, TRAIN, TEST, Protocol(**protocol), metrics)


def test_lists_are_described_by_what_is_in_them():
    found = judged("coverage@1", "gini@1", "novelty@1", "popularity@1", "diversity@2", seen="none")
    assert found.means["coverage@1"] == 1 / 4  # everyone gets w
    assert found.means["gini@1"] == pytest.approx(3 / 4)
    assert found.means["novelty@1"] == pytest.approx(-np.log2(3 / 4))
    assert found.means["popularity@1"] == 3
    assert found.means["diversity@2"] == pytest.approx(1 - 2 / np.sqrt(3 * 2))
    assert found.units["coverage@1"].null_count() == len(found.units)
    assert found.units["popularity@1"].to_list() == [3] * 5


def test_lists_leave_out_what_was_seen_and_may_end_early():
    found = judged("popularity@3", "coverage@3", "diversity@3")
    assert found.units["popularity@3"].to_list() == [1, 1, 4 / 3, 2, 2]
    assert found.units["diversity@3"][0] is None  # a has all but z: no pair
    assert found.means["coverage@3"] == 1


def test_gini_is_zero_when_all_are_listed_alike_and_near_one_when_one_is():
    assert gini(np.array([3, 3, 3])) == 0
    assert gini(np.array([0] * 99 + [5])) == pytest.approx(0.99)
    assert np.isnan(gini(np.zeros(3)))


def test_a_view_gives_the_mean_of_every_group():
    found = judged("mrr@9", "recall@1")
    table = view(found, context(found, TEST, "time"))
    assert table["group"].to_list() == ["day", "night"]
    assert table["units"].to_list() == [3, 2]
    for group, rows in (("day", [0, 1, 3]), ("night", [2, 4])):
        mean = found.units["mrr@9"].gather(rows).mean()
        assert table.filter(group=group)["mrr@9"].item() == pytest.approx(mean)


def test_items_users_and_warmth_are_told_apart():
    found = judged("mrr@9")
    # 7 events: w has 3, x 2, y and z 1 each; a has 3, b 2, c and d 1 each, e none.
    assert item_popularity(found, TRAIN).to_list() == ["tail", "tail", "tail", "head", "mid"]
    assert user_activity(found, TRAIN).to_list() == ["head", "mid", "tail", "tail", "unseen"]
    assert warmth(found, TRAIN).to_list() == ["warm user, warm item"] * 4 + ["cold user, warm item"]


def test_items_are_grouped_by_how_many_training_events_they_have():
    counts = {"a": 0, "b": 1, "c": 3, "d": 4, "e": 11, "f": 101}
    items = [item for item, times in counts.items() for _ in range(times)]
    train = dataset(["u"] * len(items), items).with_items({"item": list(counts)})
    test = dataset("vvvvvvv", "abcdefz")  # z is in no table
    found = evaluate(lambda rows: np.ones((len(rows), 6), np.float32), train, test)
    wanted = ["0", "1 to 3", "1 to 3", "4 to 10", "11 to 100", "above 100", "0"]
    assert item_events(found, train).to_list() == wanted
    assert in_order(set(wanted)) == ["0", "1 to 3", "4 to 10", "11 to 100", "above 100"]


def test_views_have_names():
    found = judged("mrr@9")
    assert groups("popularity", found, TRAIN, TEST).equals(item_popularity(found, TRAIN))
    assert groups("activity", found, TRAIN, TEST).equals(user_activity(found, TRAIN))
    assert groups("warmth", found, TRAIN, TEST).equals(warmth(found, TRAIN))
    assert groups("events", found, TRAIN, TEST).equals(item_events(found, TRAIN))
    assert groups("context:time", found, TRAIN, TEST).equals(context(found, TEST, "time"))
    with pytest.raises(UnknownError, match="Did you mean 'popularity'"):
        groups("popularty", found, TRAIN, TEST)


def test_a_view_that_makes_no_sense_is_refused():
    test = dataset("aab", "zxz")
    found = evaluate(same_for_all, TRAIN, test, Protocol(unit="user"))
    with pytest.raises(OptionError, match="one relevant item per unit"):
        item_popularity(found, TRAIN)
    with pytest.raises(OptionError, match="unknown column"):
        context(found, test, "time")
    with pytest.raises(DataError, match="one value per unit"):
        view(found, warmth(judged("mrr@9"), TRAIN))


def test_few_values_stay_as_they_are():
    values = pl.Series("hour", [3, 1, 2] * 9)
    assert binned(values, values).equals(values)


def test_numbers_are_cut_into_ranges_of_as_many_events_each():
    price = pl.Series("price", np.arange(1, 101) / 2)
    made = binned(price, price)
    counts = made.value_counts()
    assert set(counts["count"]) == {20}
    assert in_order(made.unique()) == [
        "up to 10", "10 to 20", "20 to 30", "30 to 40", "above 40",
    ]  # fmt: skip
    assert made[0] == "up to 10" and made[19] == "up to 10" and made[20] == "10 to 20"


def test_ranges_go_by_all_events_and_gaps_stay_gaps():
    known = pl.Series("price", np.arange(1000.0))
    made = binned(pl.Series("price", [5.0, None, float("nan"), 998.5]), known)
    assert made.to_list() == ["up to 199", None, None, "above 799"]


def test_a_value_that_most_events_have_makes_no_empty_range():
    price = pl.Series("price", [0.0] * 900 + list(np.arange(1.0, 101)))
    made = binned(price, price)
    assert in_order(made.unique()) == ["up to 0", "above 0"]


def test_times_are_cut_by_days():
    days = [datetime(2024, 1, 1) + timedelta(days=n) for n in range(50)]
    made = binned(pl.Series("at", days), pl.Series("at", days))
    assert in_order(made.unique())[:2] == ["up to 2024-01-10", "2024-01-10 to 2024-01-20"]


def test_of_many_names_the_commonest_stay():
    city = pl.Series("city", [f"c{n:02}" for n in range(40) for _ in range(40 - n)] + [None])
    made = binned(city, city)
    assert made.drop_nulls().n_unique() == MAX_GROUPS and made.null_count() == 1
    assert in_order(made.drop_nulls().unique())[-1] == OTHERS
    assert "c00" in made and "c39" not in made


@pytest.mark.parametrize(
    ("groups", "ordered"),
    [
        (["10", "9", "(none)", "1"], ["1", "9", "10", "(none)"]),
        (["night", "day", "2nd"], ["2nd", "day", "night"]),
        (["above 9", "-1 to 2.5", "2.5 to 9", "up to -1"],
         ["up to -1", "-1 to 2.5", "2.5 to 9", "above 9"]),
    ],
)  # fmt: skip
def test_groups_stand_in_the_order_a_reader_expects(groups, ordered):
    assert in_order(groups) == ordered


def test_a_view_on_a_measured_number_has_five_groups():
    rng = np.random.default_rng(0)
    data = Dataset.from_frame({
        "user": rng.integers(0, 9, 400), "item": rng.integers(0, 20, 400),
        "temperature": rng.random(400),
    })  # fmt: skip
    found = evaluate(lambda rows: np.tile(np.arange(20, dtype=np.float32), (len(rows), 1)),
                     data, data, metrics=["recall@5"])  # fmt: skip
    assert len(view(found, groups("context:temperature", found, data, data))) == 5
    half = data.take(np.arange(200))
    assert groups("context:temperature", found, half, data, data).n_unique() == 5
