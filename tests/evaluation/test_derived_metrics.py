import numpy as np
import pytest

from fmpair import Dataset
from fmpair.evaluation import Protocol, evaluate
from fmpair.evaluation.derived_metrics import corrected, possible_ranks, true_ranks
from fmpair.metrics import Metric, Placement


def placed(rank, level=1):
    """Lists with one relevant item each, at the given ranks, so many items level with it."""
    count = len(rank)
    return Placement(
        np.arange(count + 1), np.asarray(rank) - 1, np.full(count, level), np.ones(count),
        np.full(count, 10_000),
    )  # fmt: skip


def estimated(name, true, others, n, seed=0):
    rng = np.random.default_rng(seed)
    sampled = 1 + rng.hypergeometric(true - 1, others - (true - 1), n)
    eligible = np.full(len(true), others)
    metric = Metric.parse(name)
    estimate = corrected([metric], placed(sampled), eligible, n)[name]
    return estimate, metric.values(true).mean(), metric.values(sampled).mean()


@pytest.mark.parametrize("name", ["recall@10", "ndcg@10", "mrr@10"])
def test_the_estimate_is_far_nearer_the_truth_than_the_sampled_metric(name):
    rng = np.random.default_rng(0)
    true = 1 + (2000 * rng.random(40_000) ** 2).astype(int)
    estimate, truth, naive = estimated(name, true, 2000, 200)
    assert abs(estimate - truth) < 0.05 * abs(naive - truth)


@pytest.mark.parametrize("power", [2, 4, 8])
@pytest.mark.parametrize(("name", "most"), [("recall@10", 0.05), ("ndcg@10", 0.1)])
def test_a_sample_of_a_twentieth_is_within_a_tenth_for_weak_and_for_good_models(name, most, power):
    rng = np.random.default_rng(power)
    true = 1 + (2001 * rng.random(60_000) ** power).astype(int)
    estimate, truth, _ = estimated(name, true, 2000, 100)
    assert estimate == pytest.approx(truth, rel=most)


def test_estimates_are_shares_also_from_a_few_lists():
    rng = np.random.default_rng(1)
    for seed in range(20):
        true = rng.integers(1, 2002, 30)
        assert 0 <= estimated("ndcg@10", true, 2000, 50, seed)[0] <= 1


def test_a_large_catalogue_needs_no_large_memory():
    ranks, chance = true_ranks(np.bincount(np.full(500, 3), minlength=101), 200_000)
    assert len(ranks) <= 1000 and ranks[-1] == 200_001
    assert chance.sum() == pytest.approx(1)


def test_a_sample_of_everything_needs_no_correction():
    metric, rank = Metric.parse("ndcg@3"), np.array([1, 2, 2, 10])
    found = corrected([metric], placed(rank), np.full(4, 9), 9)
    assert found["ndcg@3"] == pytest.approx(metric.values(rank).mean())


def test_items_that_are_level_have_each_of_their_ranks_in_equal_parts():
    metric = Metric.parse("mrr@9")
    found = corrected([metric], placed(np.full(6, 2), level=3), np.full(6, 9), 9)
    assert found["mrr@9"] == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 3)


def test_a_unit_without_its_item_in_the_list_counts_nothing():
    place = placed(np.array([1, 1]))
    place.level[1] = 0
    assert corrected([Metric.parse("hit@3")], place, np.full(2, 9), 9) == {"hit@3": 0.5}


def test_what_is_seen_of_no_list_stays_what_was_thought_before():
    ranks, chance = true_ranks(np.zeros(11), 100, steps=0)
    assert np.array_equal(ranks, possible_ranks(101)[0])
    assert chance == pytest.approx(possible_ranks(101)[1])


def test_only_uniform_samples_for_one_item_are_corrected_and_it_is_said_how():
    rng = np.random.default_rng(1)
    data = Dataset.from_frame(
        {"user": rng.integers(0, 50, 2000), "item": rng.integers(0, 300, 2000)}
    )
    order = np.arange(2000)
    train, test = data.take(order[:1500]), data.take(order[1500:])

    def judged(**options):
        scores = np.random.default_rng(2).normal(size=300).astype(np.float32)
        return evaluate(
            lambda rows: np.tile(scores, (len(rows), 1)), train, test, Protocol(**options)
        )

    found = judged(candidates="uniform", n=60, seen="train+test")
    assert set(found.corrected) == {"recall@10", "ndcg@10"}
    assert "likelihood of true ranks" in found.estimator
    whole = judged(candidates="train", seen="train+test").means
    for name, value in found.corrected.items():
        sampled = found.means[f"{name}[uni60]"]
        assert abs(value - whole[name]) < 0.3 * abs(sampled - whole[name])
    assert judged(candidates="popularity", n=60).corrected == {}
    assert judged(candidates="uniform", n=60, unit="user").corrected == {}
    assert judged().estimator == ""
