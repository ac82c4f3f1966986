import pytest

from fmpair import FMPair, Protocol, evaluate
from fmpair.data import synthetic
from fmpair.data.splits import folds
from fmpair.evaluation.summary import busiest_user, ceiling


@pytest.fixture(scope="module")
def world():
    return synthetic.make(users=300, items=200, events=15_000, seed=1)


@pytest.mark.slow
def test_no_model_beats_the_one_who_knows_how_the_data_were_made(world):
    [split, *_] = folds(world.data, 4, seed=1)
    protocol = Protocol(seen="none")
    best = ceiling(world, [split], protocol, ["recall@10", "ndcg@10"])
    train, _, test = split.parts(world.data)
    judged = evaluate(FMPair(seed=1).fit(train), train, test, protocol, ["recall@10", "ndcg@10"])
    assert all(0.5 * best[name] < judged.means[name] < best[name] for name in best)


def test_the_ceiling_is_a_mean_over_splits(world):
    splits = folds(world.data, 4, seed=1)[:2]
    alone = [ceiling(world, [one], Protocol(), ["ndcg@10"])["ndcg@10"] for one in splits]
    both = ceiling(world, splits, Protocol(), ["ndcg@10"])["ndcg@10"]
    assert both == pytest.approx(sum(alone) / 2)


def test_the_busiest_user_has_most_events(world):
    times = world.data.frame()["user"].value_counts(sort=True)
    most = times["count"][0]
    name = world.data.users.ids[busiest_user(world.data)]
    assert times.filter(user=name)["count"][0] == most
