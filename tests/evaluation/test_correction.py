import numpy as np
import pytest

from fmpair import Dataset
from fmpair.evaluation import Protocol, evaluate
from fmpair.evaluation.correction import estimator
from fmpair.metrics import Metric


@pytest.mark.parametrize("name", ["recall@10", "ndcg@10", "mrr@10"])
def test_the_estimate_is_far_nearer_the_truth_than_the_sampled_metric(name):
    rng = np.random.default_rng(0)
    others, n, metric = 2000, 200, Metric.parse(name)
    true = 1 + (others * rng.random(40_000) ** 2).astype(int)
    sampled = 1 + rng.hypergeometric(true - 1, others - (true - 1), n)
    truth, naive = metric.values(true).mean(), metric.values(sampled).mean()
    estimate = estimator(metric, others, n)[sampled - 1].mean()
    assert abs(estimate - truth) < 0.15 * abs(naive - truth)


def test_a_large_catalogue_needs_no_large_memory():
    worth = estimator(Metric.parse("recall@10"), 200_000, 100)
    assert worth.shape == (101,)
    assert worth[0] > worth[1:].max()


def test_a_sample_of_everything_needs_no_correction():
    metric = Metric.parse("ndcg@3")
    np.testing.assert_allclose(estimator(metric, 9, 9), metric.values(np.arange(1, 11)))


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
    assert "least squares" in found.estimator
    whole = judged(candidates="train", seen="train+test").means
    for name, value in found.corrected.items():
        sampled = found.means[f"{name}[uni60]"]
        assert abs(value - whole[name]) < 0.3 * abs(sampled - whole[name])
    assert judged(candidates="popularity", n=60).corrected == {}
    assert judged(candidates="uniform", n=60, unit="user").corrected == {}
    assert judged().estimator == ""
