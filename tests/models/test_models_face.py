"""`fmpair.models`: every recipe by name, and a word about where it stood before."""

import importlib

import pytest

import fmpair.models
from fmpair.models import EASE, FMPair, FMPairLevels, Recipe, catalog, load
from fmpair.models.fm_pair.feedback_levels import FMPairLevels as Home


def test_every_recipe_of_our_own_is_there():
    ours = {home.rpartition(":")[2] for home in catalog.MODELS.values() if ".models." in home}
    assert ours <= set(fmpair.models.__all__)
    for name in fmpair.models.__all__:
        assert getattr(fmpair.models, name) is not None
    assert FMPairLevels is Home and fmpair.load is load and fmpair.FMPair is FMPair
    assert isinstance(EASE(), Recipe)


def test_dir_shows_what_can_be_imported_and_no_more():
    assert dir(fmpair.models) == sorted(fmpair.models.__all__)
    with pytest.raises(AttributeError, match=r"'fmpair.models' has no attribute 'EAS'"):
        fmpair.models.EAS


@pytest.mark.parametrize(
    ("module", "now"),
    [
        ("levels", "from fmpair.models import FMPairLevels"),
        ("neighbours", "from fmpair.models import ItemKNN, UserKNN"),
        ("cross_domain", "from fmpair.models import FMPairCD, FMPairAll, FMPairTarget"),
        ("artifact", "from fmpair import load"),
        ("ranker", "from fmpair import Ranker"),
    ],
)
def test_a_module_of_old_says_where_its_models_are(module, now):
    with pytest.raises(ModuleNotFoundError, match=f"fmpair.models.{module} any more: {now}$"):
        importlib.import_module(f"fmpair.models.{module}")


@pytest.mark.parametrize(("package", "name"), [("fm", "FM"), ("fm_pair", "FMPair")])
def test_a_package_where_a_module_stood_says_so_too(package, name):
    with pytest.raises(ImportError, match=f"any more: from fmpair.models import {name}$"):
        exec(f"from fmpair.models.{package} import {name}")


def test_a_module_that_never_was_is_not_found_as_ever():
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'fmpair.models.oracle'$"):
        importlib.import_module("fmpair.models.oracle")
    with pytest.raises(ImportError, match="cannot import name 'Oracle'"):
        exec("from fmpair.models.fm import Oracle")
