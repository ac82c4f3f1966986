"""Other losses and samplers of FM-Pair: known answers, and what may be asked for."""

from dataclasses import fields

import numpy as np
import polars as pl
import pytest

from fmpair import FMPair, load
from fmpair.errors import OptionError
from fmpair.fitted import recipe as option
from fmpair.models import PRFM, ListwiseFM
from fmpair.testing import cold_items, day_and_night, two_tastes
from fmpair.testing.toys import left_out

SMALL = {"factors": 4, "epochs": 60, "seed": 1}
LOSSES = {
    "hinge": {"loss": "hinge"},
    "logistic": {"loss": "logistic"},
    "softmax": {"loss": "softmax", "n_negatives": 5},
    "cosines": {"loss": "softmax", "n_negatives": 5, "temperature": 0.5, "init_std": 0.1},
    "warp": {"loss": "warp", "n_negatives": 5},
}


def right_answers(model):
    """The share of users of `two_tastes` whose first item is the one they lack."""
    first = model.recommend(n=1)
    number = first["user"].str.slice(1).cast(int).to_numpy()
    return (first["item"].to_numpy() == left_out(number)).mean()


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_finds_the_one_item_a_user_lacks(loss):
    assert right_answers(FMPair(**SMALL, **LOSSES[loss]).fit(two_tastes())) >= 0.95


@pytest.mark.parametrize("recipe", [PRFM, ListwiseFM])
def test_the_named_recipes_find_it_too_and_are_saved_under_their_name(recipe, tmp_path):
    model = recipe(**SMALL).fit(two_tastes())
    assert right_answers(model) >= 0.95
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").recipe == model.recipe


@pytest.mark.parametrize("loss", ["softmax", "cosines"])
def test_context_decides_what_ranks_first(loss):
    model = FMPair(**SMALL | {"epochs": 100}, **LOSSES[loss]).fit(day_and_night())
    for time, rest in (("day", 0), ("night", 1)):
        first = model.recommend(n=1, context={"time": time})["item"].to_numpy()
        assert (first % 2 == rest).mean() >= 0.95


@pytest.mark.parametrize("loss", ["softmax", "cosines"])
def test_own_item_attributes_help_a_cold_item(loss):
    # 20 epochs: later on the known items' own vectors say it all, and little is left to attributes
    model = FMPair(**SMALL | {"epochs": 20}, **LOSSES[loss]).fit(cold_items())
    listed = model.recommend(n=3, candidates=list(range(14, 20)))
    odd_user = listed["user"].str.slice(1).cast(int) % 2
    assert (odd_user == listed["item"] % 2).mean() == 1.0


def test_items_of_a_cosine_model_have_length_one_and_no_constant():
    model = FMPair(**SMALL, **LOSSES["cosines"]).fit(cold_items())
    np.testing.assert_allclose(np.linalg.norm(model.item_vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(model.item_constants, 0, atol=1e-5)


@pytest.mark.parametrize("loss", ["softmax", "cosines", "warp"])
def test_what_is_fitted_can_go_on_learning(loss):
    model = FMPair(**SMALL, **LOSSES[loss]).fit(two_tastes())
    newcomer = pl.DataFrame({"user": ["new"] * 4, "item": [1, 3, 5, 7]})
    for grown in (model.fold_in(newcomer), model.update(newcomer, epochs=3)):
        assert (grown.recommend("new", 3)["item"] % 2 == 1).all()


def test_options_of_a_model_saved_before_these_were_there_are_the_defaults():
    new = (
        "loss", "n_negatives", "temperature", "popularity_power", "rank_share", "own_share",
        "sharing", "impression_share", "logq_correction",
    )  # fmt: skip
    old = {name: value for name, value in option.plain(FMPair()).items() if name not in new}
    assert option.recipe(FMPair, old) == FMPair()


@pytest.mark.parametrize("wrong", [
    {"loss": "softmx"}, {"negative_sampler": "popular"}, {"n_negatives": 0}, {"temperature": 0},
    {"popularity_power": -1}, {"rank_share": 0}, {"own_share": 1.5}, {"sharing": -1},
    {"own_share": 0.1, "loss": "warp"},
])  # fmt: skip
def test_options_that_make_no_sense_are_refused(wrong):
    with pytest.raises(OptionError, match=next(iter(wrong))):
        FMPair(**wrong)


@pytest.mark.parametrize("recipe", [PRFM, ListwiseFM])
def test_a_named_recipe_has_the_options_of_fm_pair(recipe):
    assert {f.name for f in fields(recipe)} == {f.name for f in fields(FMPair)}
