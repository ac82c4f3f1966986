from itertools import pairwise

import pytest

from fmpair.data import synthetic
from fmpair.evaluation.demonstration import METRICS, busiest_user, parts, trials


@pytest.fixture(scope="module")
def world():
    return synthetic.make(users=300, items=200, events=15_000, seed=1)


def test_each_way_to_rank_beats_the_one_before_and_none_the_oracle(world):
    results = list(trials(world, seed=1))
    assert [trial.name for trial in results] == [
        "popularity", "FM-Pair without context", "FM-Pair with context", "oracle",
    ]  # fmt: skip
    for metric in range(len(METRICS)):
        assert all(a.values[metric] < b.values[metric] for a, b in pairwise(results))


def test_the_parts_share_all_events_four_to_one(world):
    train, test = parts(world)
    assert (len(train), len(test)) == (12_000, 3_000)


def test_the_busiest_user_has_most_events(world):
    times = world.data.frame()["user"].value_counts(sort=True)
    most = times["count"][0]
    name = world.data.users.ids[busiest_user(world.data)]
    assert times.filter(user=name)["count"][0] == most
