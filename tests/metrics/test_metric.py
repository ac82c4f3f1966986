import numpy as np
import pytest

from fmpair.errors import OptionError
from fmpair.metrics import Metric


def test_a_name_and_its_metric_are_the_same_thing():
    for text in ("ndcg@10", "map_all@5", "auc", "rmse", "gini@20"):
        assert str(Metric.parse(text)) == text


@pytest.mark.parametrize("text", ["ndcg", "ndcg@", "ndcg@0", "ndcg@-1", "ndcg@1.5", "ndcg@²"])
def test_a_missing_cutoff_is_asked_for(text):
    with pytest.raises(OptionError, match="needs a cut-off, such as ndcg@10"):
        Metric.parse(text)


def test_a_cutoff_too_many_is_refused():
    with pytest.raises(OptionError, match="takes no cut-off: write auc"):
        Metric.parse("auc@10")


def test_a_misspelt_name_brings_the_nearest():
    with pytest.raises(OptionError, match="Did you mean 'recall'"):
        Metric.parse("recal@10")


def test_a_metric_of_whole_lists_has_no_value_by_rank():
    with pytest.raises(OptionError, match="auc"):
        Metric.parse("auc").values(np.array([1]))


def test_ranks_have_their_worth():
    rank = np.array([1, 3, 10.5])  # half a rank beyond the cut-off is beyond it
    assert Metric.parse("hit@10").values(rank).tolist() == [1, 1, 0]
    assert Metric.parse("precision@10").values(rank).tolist() == [0.1, 0.1, 0]
    assert Metric.parse("mrr@10").values(rank).tolist() == [1, 1 / 3, 0]
    assert Metric.parse("ndcg@10").values(rank).tolist() == [1, 0.5, 0]


def test_a_cut_off_of_many_digits_is_refused():
    with pytest.raises(OptionError, match="at most 7 digits, as in ndcg@10"):
        Metric.parse("ndcg@" + "9" * 5000)
