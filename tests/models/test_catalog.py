"""The catalogue of models, and `fmpair.models`."""

from pathlib import Path

import pytest

import fmpair.models
import fmpair.training
from fmpair.errors import UnknownError
from fmpair.fitted.recipe import name_of
from fmpair.models import EASE, FMPair, FMPairLevels, ItemKNN, Recipe, catalog, load
from fmpair.models.fm_pair.feedback_levels import FMPairLevels as Home


def test_every_model_has_a_line_and_its_options_are_described():
    frame = catalog.describe()
    assert frame["name"].to_list() == list(catalog.MODELS)
    assert frame["line"].str.len_chars().min() > 20
    for name in frame["name"]:
        options = catalog.options(name)
        silent = options.filter(options["description"] == "")["option"].to_list()
        assert silent == [], name


def test_a_model_is_found_by_name_or_by_where_it_stands():
    assert catalog.find("item-knn") is ItemKNN
    assert catalog.find("fmpair.models.classic.neighbours:ItemKNN") is ItemKNN


def test_a_name_that_is_almost_right_gets_the_right_one():
    with pytest.raises(UnknownError, match=r"unknown model 'itemknn'. Did you mean 'item-knn'\?"):
        catalog.find("itemknn")
    with pytest.raises(UnknownError, match="cannot import model"):
        catalog.find("no.such:Thing")


def test_options_have_type_and_default():
    rows = {row[0]: row[1:3] for row in catalog.options("item-knn").rows()}
    assert rows["k"] == ("int", "100") and rows["threads"] == ("int | None", "None")


def test_a_file_names_a_recipe_so_that_it_is_found_again():
    for kind in catalog.MODELS:
        if catalog.missing(kind) is None:
            recipe = catalog.find(kind)
            assert catalog.from_name(name_of(recipe)) is recipe
    assert catalog.from_name("Oracle") is None
    assert catalog.from_name("antigravity:Fly") is None, "nothing may be imported for a file"


def test_every_model_has_its_line_on_the_page_about_models():
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text("utf-8")
    assert [name for name in catalog.MODELS if f"`{name}`" not in page] == []


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


def test_training_exports_its_public_names():
    assert all(getattr(fmpair.training, name) is not None for name in fmpair.training.__all__)
    with pytest.raises(AttributeError, match=r"'fmpair.training' has no attribute 'Epoc'"):
        fmpair.training.Epoc
