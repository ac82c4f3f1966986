"""What validation asks of a metric: its value at a rank, and a clear word on a wrong name."""

import numpy as np
import pytest

from fmpair.errors import OptionError
from fmpair.metrics import Metric


@pytest.mark.parametrize("name", ["hit", "recall", "mrr", "ndcg"])
def test_a_metric_is_read_and_written_the_same(name):
    assert str(Metric.parse(f"{name}@10")) == f"{name}@10"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("hit@3", [1, 1, 0]),
        ("recall@3", [1, 1, 0]),
        ("mrr@3", [1, 1 / 3, 0]),
        ("ndcg@3", [1, 1 / 2, 0]),
    ],
)
def test_each_formula_has_its_stated_value_at_ranks_one_three_and_four(text, values):
    np.testing.assert_allclose(Metric.parse(text).values(np.array([1, 3, 4])), values)


def test_half_a_rank_beyond_the_cut_off_is_beyond_it():
    assert Metric.parse("hit@10").values(np.array([10.0, 10.5])).tolist() == [1, 0]


def test_a_misspelt_metric_names_the_nearest():
    with pytest.raises(OptionError, match=r"unknown metric 'ndgc'. Did you mean 'ndcg'\?"):
        Metric.parse("ndgc@10")


@pytest.mark.parametrize("text", ["ndcg", "ndcg@", "ndcg@0", "ndcg@-1", "ndcg@1.5", "ndcg@²"])
def test_a_metric_without_a_proper_cut_off_says_how_to_write_one(text):
    with pytest.raises(OptionError, match="needs a cut-off, such as ndcg@10"):
        Metric.parse(text)
