import numpy as np
import pytest

from fmpair import Dataset
from fmpair.errors import DataError, OptionError, UnknownError
from fmpair.evaluation import Protocol, evaluate
from fmpair.evaluation.derived_metrics import gini
from fmpair.evaluation.views import context, groups, item_popularity, user_activity, view, warmth


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


def test_views_have_names():
    found = judged("mrr@9")
    assert groups("popularity", found, TRAIN, TEST).equals(item_popularity(found, TRAIN))
    assert groups("activity", found, TRAIN, TEST).equals(user_activity(found, TRAIN))
    assert groups("warmth", found, TRAIN, TEST).equals(warmth(found, TRAIN))
    assert groups("context:time", found, TRAIN, TEST).equals(context(found, TEST, "time"))
    with pytest.raises(UnknownError, match="Did you mean 'popularity'"):
        groups("popularty", found, TRAIN, TEST)


def test_a_view_that_makes_no_sense_is_refused():
    test = dataset("aab", "zxz")
    found = evaluate(same_for_all, TRAIN, test, Protocol(unit="user"))
    with pytest.raises(OptionError, match="several items"):
        item_popularity(found, TRAIN)
    with pytest.raises(OptionError, match="unknown column"):
        context(found, test, "time")
    with pytest.raises(DataError, match="one each"):
        view(found, warmth(judged("mrr@9"), TRAIN))
