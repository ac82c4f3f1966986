"""What every recipe can be asked for, and what is said where it cannot."""

import pickle
from dataclasses import dataclass, replace
from inspect import signature

import polars as pl
import pytest

from fmpair import FMPair, Popularity
from fmpair.data import as_dataset
from fmpair.errors import OptionError
from fmpair.fitted.recipe import Recipe, Requiring, Sourced, name_of
from fmpair.models import BPRMF, EASE, FMPairLevels, ImplicitALS, SVDPlusPlus
from fmpair.testing import two_tastes
from fmpair.training.trainable import Trainable, can_stop_early

NEWS = pl.DataFrame({"user": ["new"], "item": [3]})


@dataclass(frozen=True)
class Bare:
    """A model of somebody who has heard of nothing but fit."""

    def fit(self, data):
        return replace(Popularity().fit(data), recipe=self)


@dataclass(frozen=True)
class Plain(Recipe):
    """A model that names its base and says how it is fitted."""

    size: int = 1

    def fit(self, data):
        return replace(Popularity().fit(as_dataset(data)), recipe=self)


@pytest.mark.parametrize("kind", [Bare, Plain, Popularity, EASE, ImplicitALS])
@pytest.mark.parametrize("verb", ["update", "fold_in"])
def test_a_model_that_cannot_go_on_says_so_in_one_line(kind, verb):
    model = kind().fit(two_tastes())
    message = f"^{kind.__name__} must be fitted again on all events: it cannot continue a training$"
    with pytest.raises(OptionError, match=message):
        getattr(model, verb)(NEWS)


def test_a_variant_of_fm_pair_is_no_fm_pair_but_a_recipe():
    for recipe in (FMPairLevels(), SVDPlusPlus(), BPRMF()):
        assert isinstance(recipe, Recipe) and not isinstance(recipe, FMPair)


def test_what_a_recipe_can_do_is_asked_of_its_type():
    assert isinstance(FMPair(), Trainable) and isinstance(FMPair, Trainable)
    assert not isinstance(Popularity(), Trainable)
    assert can_stop_early(FMPair) and can_stop_early(ImplicitALS()) and not can_stop_early(EASE)
    assert not isinstance(FMPair(), Requiring) and not isinstance(FMPair(), Sourced)
    assert not isinstance(Bare(), Recipe)


def test_an_option_nobody_knows_gets_the_nearest():
    with pytest.raises(OptionError, match=r"unknown option 'n_factors'. Did you mean 'factors'\?"):
        FMPair(n_factors=8)
    with pytest.raises(OptionError, match="unknown option 'sizes'"):
        Plain(sizes=2)


def test_options_by_place_are_counted():
    assert FMPair(16, 3) == FMPair(factors=16, epochs=3)
    with pytest.raises(OptionError, match="Popularity has 2 options, got 3: give them by name"):
        Popularity("a", 1.0, 2)
    with pytest.raises(OptionError, match="factors is given twice"):
        FMPair(16, factors=3)


def test_the_signature_names_every_option():
    assert list(signature(Plain).parameters) == ["size"]
    assert "n_negatives" in signature(FMPair).parameters


def test_a_recipe_is_copied_as_any_dataclass():
    recipe = FMPairLevels(factors=3)
    assert pickle.loads(pickle.dumps(recipe)) == recipe
    assert replace(recipe, factors=4).factors == 4


def test_options_are_plain_values_of_any_recipe_and_make_it_again():
    for recipe in (EASE(regularization=3.0), BPRMF(factors=2), FMPair(fields={"age": "binned"})):
        assert type(recipe).from_options(recipe.options()) == recipe
    with pytest.raises(OptionError, match="unknown option 'lambda'"):
        EASE.from_options({"lambda": 3.0})


def test_a_file_names_ours_by_name_and_others_by_their_place_too():
    assert name_of(EASE) == "EASE"
    assert name_of(Plain) == f"{__name__}:Plain"
