"""Users who choose an item again."""

import numpy as np
import pytest

from fmpair import Dataset, Popularity, Protocol, evaluate
from fmpair.config.starter import starter
from fmpair.evaluation.protocol import (
    meaning,
    misleading,
    repeat_share,
    repeated,
    usual_protocol,
    why_usual,
)


def events(user, item):
    return Dataset.from_frame({"user": user, "item": item})


ONCE = events([1, 1, 2, 2, 3, 3], ["a", "b", "a", "c", "b", "c"])
AGAIN = events([1, 1, 1, 2, 2, 2], ["a", "a", "a", "b", "b", "c"])


def test_the_share_of_repeats_counts_all_parts_together():
    assert repeat_share(ONCE) == 0
    assert repeat_share(AGAIN) == pytest.approx(3 / 6)
    assert repeat_share(ONCE, events([1, 9], ["a", "a"])) == pytest.approx(1 / 8)
    rows = np.arange(6)
    assert repeat_share(AGAIN.take(rows[:4]), AGAIN.take(rows[4:])) == pytest.approx(3 / 6)


def test_the_protocol_follows_the_data():
    assert usual_protocol(ONCE).seen == "train"
    assert usual_protocol(AGAIN).seen == "none"
    assert why_usual(ONCE).startswith("0% of the events repeat an item of their user, so seen")
    assert "50% of the events" in why_usual(AGAIN)


def test_evaluate_takes_it_by_default():
    for data, seen in ((ONCE, "train"), (AGAIN, "none")):
        train, test = data.take(np.array([0, 1, 3, 4])), data.take(np.array([2, 5]))
        found = evaluate(Popularity().fit(train), train, test)
        assert found.protocol == f"interaction/all/seen={seen}"


def test_init_chooses_the_same(tmp_path):
    for name, data in (("once", ONCE), ("again", AGAIN)):
        data.frame().write_csv(tmp_path / f"{name}.csv")
        assert f"seen: {usual_protocol(data).seen}}}" in starter(tmp_path / f"{name}.csv")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seen": "none"}, "how well the next event is foretold, repeats included"),
        ({"seen": "train"}, "the number is higher than what a user meets"),
        ({"seen": "none", "relevant": "new"}, "how well items new to a user are found"),
    ],
)
def test_what_a_number_means_is_said_where_users_repeat(options, words):
    test = events([1, 2, 9], ["a", "a", "a"])
    told = meaning(repeated(AGAIN, test), len(test), Protocol(**options))
    assert "1 of 3 test events (33%) repeat an item that their user had in training" in told
    assert words in told
    assert repeated(ONCE, events([1], ["c"])) == 0
    assert meaning(0, 1, Protocol(**options)) == ""


@pytest.mark.parametrize("seen", ["train", "train+test"])
def test_a_number_misleads_where_many_repeat_and_other_seen_items_are_left_out(seen):
    assert misleading(11, 100, Protocol(seen=seen))
    assert not misleading(10, 100, Protocol(seen=seen))
    assert not misleading(90, 100, Protocol(seen=seen, relevant="new"))
    assert not misleading(90, 100, Protocol(seen="none"))
