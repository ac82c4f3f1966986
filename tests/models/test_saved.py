"""Files that fmpair 0.1 wrote, read by the names of today."""

import json

import numpy as np
import pytest

from fmpair import FMPair, load
from fmpair.errors import ModelFileError
from fmpair.fitted import file
from fmpair.models import EASE, FMPairLevels, ImplicitALS
from fmpair.option_names import OPTIONS
from fmpair.testing import two_tastes

NEW = {new: old for old, new in OPTIONS.items()}


def header_of(path):
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    return json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["fmpair"])


def saved_by_the_old(model, path, monkeypatch):
    """The file as fmpair 0.1 would have written it: format 1, and the names of then."""
    old = {NEW.get(name, name): value for name, value in model.recipe.options().items()}
    monkeypatch.setattr(file, "FORMAT", 1)
    monkeypatch.setattr(file.option, "plain", lambda recipe: old)
    model.save(path)
    monkeypatch.undo()
    return path


@pytest.mark.parametrize(
    "recipe",
    [
        FMPair(
            factors=3, epochs=2, n_negatives=5, negative_sampler="popularity",
            popularity_power=0.5, logq_correction=True, final_rate_share=0.3, init_std=0.02,
        ),
        FMPairLevels(factors=3, epochs=2, init_std=0.3),
        ImplicitALS(factors=3, epochs=2, init_std=0.3),
        EASE(regularization=20.0),
    ],
    ids=lambda recipe: type(recipe).__name__,
)  # fmt: skip
def test_a_file_of_the_first_format_is_read(recipe, tmp_path, monkeypatch):
    model = recipe.fit(two_tastes())
    path = saved_by_the_old(model, tmp_path / "m", monkeypatch)
    assert header_of(path)["format"] == 1
    assert not header_of(path)["options"].keys() & NEW.keys()
    again = load(path)
    assert again.recipe == recipe
    assert again.recommend("u1", 5).equals(model.recommend("u1", 5))


def test_it_goes_on_learning_and_is_saved_in_the_format_of_today(tmp_path, monkeypatch):
    model = FMPair(factors=3, epochs=2, n_negatives=5).fit(two_tastes())
    again = load(saved_by_the_old(model, tmp_path / "m", monkeypatch))
    more = two_tastes().frame().head(3)
    for part, wanted in zip(again.update(more).parameters, model.update(more).parameters):
        np.testing.assert_array_equal(part, wanted)
    again.save(tmp_path / "new")
    assert header_of(tmp_path / "new")["format"] == 2
    assert header_of(tmp_path / "new")["options"]["n_negatives"] == 5


def test_a_file_of_today_that_has_an_old_name_was_not_written_by_us(tmp_path, monkeypatch):
    model = FMPair(factors=3, epochs=2).fit(two_tastes())
    old = {"candidates": 3}
    monkeypatch.setattr(file.option, "plain", lambda recipe: old)
    model.save(tmp_path / "m")
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match="candidates is now n_negatives"):
        load(tmp_path / "m")
