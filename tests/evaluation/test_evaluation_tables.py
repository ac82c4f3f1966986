import numpy as np
import pytest

from fmpair import Dataset, FMPair
from fmpair.data import synthetic
from fmpair.data.splits import folds, holdout
from fmpair.errors import OptionError
from fmpair.evaluation import Protocol, evaluate
from fmpair.evaluation.evaluation import busiest_user, ceiling, compare, summary
from fmpair.evaluation.statistics import bootstrap
from fmpair.testing import two_tastes

DATA = two_tastes()
TRAIN, _, TEST = holdout(DATA, test=0.2).parts(DATA)


def judged(protocol=None, seed=0, test=TEST, metrics=("recall@3", "ndcg@3")):
    scores = np.random.default_rng(seed).normal(size=len(TRAIN.items)).astype(np.float32)
    return evaluate(lambda rows: np.tile(scores, (len(rows), 1)), TRAIN, test, protocol, metrics)


def test_a_summary_has_the_mean_and_an_interval_around_it():
    found = judged(metrics=("recall@3", "coverage@3"))
    frame = summary(found)
    assert frame["metric"].to_list() == ["recall@3", "coverage@3"]
    assert frame["value"].to_list() == list(found.means.values())
    units = found.units
    low, high = bootstrap(units["recall@3"].to_numpy(), repeats=1000, users=units["user"])
    assert frame.row(0)[2:] == (low, high, None)
    assert frame.row(1)[2:] == (None, None, None)


def test_a_sample_comes_with_its_corrected_estimate():
    found = judged(Protocol(candidates="uniform", n=5))
    frame = summary(found)
    assert frame["metric"].to_list() == ["recall@3[uni5]", "ndcg@3[uni5]"]
    assert frame["corrected"].to_list() == list(found.corrected.values())


def test_the_interval_of_rmse_is_around_its_root():
    test = Dataset.from_frame(TEST.frame().with_columns(rating=np.arange(len(TEST)) % 5 + 1.0))
    _, value, low, high, _ = summary(judged(test=test, metrics=("rmse",))).row(0)
    assert low < value < high


def test_results_under_one_protocol_share_a_table():
    table = compare({"one": judged(), "two": judged(seed=1)})
    assert table.columns == ["model", "recall@3", "ndcg@3", "coverage"]
    assert table["model"].to_list() == ["one", "two"]


def test_results_under_two_protocols_or_on_other_events_do_not():
    with pytest.raises(OptionError, match="cannot compare different protocols"):
        compare({"one": judged(), "two": judged(Protocol(candidates="uniform", n=5))})
    with pytest.raises(OptionError, match="different test events"):
        compare({"one": judged(), "two": judged(test=TEST.take(np.arange(20)))})


@pytest.fixture(scope="module")
def world():
    return synthetic.make(users=300, items=200, events=15_000, seed=1)


@pytest.mark.thorough
def test_no_model_beats_the_one_who_knows_how_the_data_were_made(world):
    [split, *_] = folds(world.data, 4, seed=1)
    protocol = Protocol(seen="none")
    best = ceiling(world, [split], protocol, ["recall@10", "ndcg@10"])
    train, _, test = split.parts(world.data)
    model = FMPair(factors=8, history=0, times=False, order=2, seed=1).fit(train)
    judged = evaluate(model, train, test, protocol, ["recall@10", "ndcg@10"])
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
