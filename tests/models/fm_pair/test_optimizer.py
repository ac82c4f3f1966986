"""FM-Pair with AdaGrad: the same promises as with plain steps."""

import numpy as np
import polars as pl
import pytest

from fmpair import FMPair
from fmpair.errors import OptionError
from fmpair.models import FMPairLevels
from fmpair.testing import cold_items, day_and_night, two_tastes

ADAGRAD = {"factors": 4, "epochs": 40, "order": 2, "optimizer": "adagrad"}


def test_context_that_decides_is_learned():
    model = FMPair(**ADAGRAD, loss="bpr").fit(day_and_night())
    for parity, time in enumerate(("day", "night")):
        best = model.recommend(n=5, context={"time": time}, exclude_seen=False)
        assert (best["item"] % 2 == parity).all()


@pytest.mark.thorough  # a kernel more; test_contract_of_engines.py compares it with the reference
def test_attributes_that_decide_are_learned():
    model = FMPair(**ADAGRAD, loss="softmax").fit(cold_items())
    best = model.recommend(n=3, candidates=list(range(14, 20)))
    assert (best["item"] % 2 == best["user"].str.slice(1).cast(pl.Int64) % 2).all()


def test_a_new_user_is_folded_in_and_nothing_else_moves():
    model = FMPair(**ADAGRAD, regularization_power=0.5).fit(two_tastes())
    grown = model.fold_in(pl.DataFrame({"user": ["new"] * 3, "item": [4, 8, 12]}))
    assert (grown.recommend("new", n=5)["item"] % 2 == 0).all()
    np.testing.assert_array_equal(grown.parameters.items, model.parameters.items)


def test_an_update_goes_on_from_what_was_learned():
    model = FMPair(**ADAGRAD, regularization_power=0.5).fit(two_tastes())
    grown = model.update(pl.DataFrame({"user": ["new"] * 3, "item": [4, 8, 12]}), epochs=5)
    assert (grown.recommend("new", n=5)["item"] % 2 == 0).all()
    assert grown.recommend("u1", n=1)["item"].to_list() == [1]


def test_an_unknown_optimizer_is_refused():
    with pytest.raises(OptionError, match="optimizer must be one of sgd, adagrad, adam"):
        FMPair(optimizer="magic")


def test_adam_is_of_minibatches_and_refused_on_the_cpu():
    with pytest.raises(OptionError, match="optimizer must be sgd or adagrad with device='cpu'"):
        FMPair(optimizer="adam").fit(two_tastes())


@pytest.mark.parametrize("option", [{"optimizer": "adagrad"}, {"regularization_power": 0.5}])
def test_levels_support_plain_sgd_only(option):
    with pytest.raises(OptionError, match="levels does not support optimizer"):
        FMPairLevels(**option)
