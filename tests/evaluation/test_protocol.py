import numpy as np
import polars as pl
import pytest

from fmpair.errors import OptionError
from fmpair.evaluation import Protocol


def test_ids_say_what_results_depend_on():
    paper = Protocol(candidates="uniform", seen="train+test")
    assert paper.id == "interaction/uni1000/seen=train+test/seed0"
    assert Protocol(unit="user").id == "user/all/seen=train"
    assert Protocol(candidates="first", n=50, relevant="new", gain="rating").id == (
        "interaction/first50/seen=train/relevant=new/gain=rating"
    )


def test_protocols_are_equal_when_their_ids_are():
    assert Protocol(n=5) == Protocol(n=6)  # n plays no part with all candidates
    one, two = (Protocol(candidates="file", items=ids) for ids in ([1, 2], [1, 3]))
    assert one != two
    assert one == Protocol(candidates="file", items=np.array([1, 2]))
    assert len({one, two, Protocol(candidates="file", items=pl.Series([1, 2]))}) == 2


def test_sampled_metrics_carry_the_sample_in_their_name():
    assert Protocol(candidates="uniform", n=100).name("recall@10") == "recall@10[uni100]"
    assert Protocol(candidates="train").name("recall@10") == "recall@10"


@pytest.mark.parametrize(
    "wrong",
    [{"unit": "session"}, {"candidates": "some"}, {"seen": "test"}, {"relevant": "?"}, {"n": 0},
     {"seed": -1}, {"candidates": "file"}, {"items": [1]}],
)  # fmt: skip
def test_options_outside_what_is_allowed_are_refused(wrong):
    with pytest.raises(OptionError, match=next(iter(wrong)) if len(wrong) == 1 else ""):
        Protocol(**wrong)


@pytest.mark.parametrize("items", ["abc", 5, pl.DataFrame({"id": [1]})])
def test_items_that_are_none_are_refused(items):
    with pytest.raises(OptionError, match="items"):
        Protocol(candidates="file", items=items).id
