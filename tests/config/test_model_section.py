"""Code from outside fmpair runs only where somebody who may has said so."""

import pytest

from fmpair.config import model_section
from fmpair.config.experiment import Candidate, Experiment, Source, Step
from fmpair.errors import OptionError


def experiment(kind, **more):
    return Experiment("a", Source(), (Candidate("a", kind),), Step("holdout"), **more)


def test_a_model_of_the_catalogue_is_not_foreign_by_name_or_by_class():
    assert not model_section.is_foreign("fm-pair")
    assert not model_section.is_foreign("fmpair.models.fm_pair.fm_pair:FMPair")
    assert model_section.is_foreign("fmpair.models.fm_pair:dataclass")
    assert model_section.is_foreign("os:system")


def test_code_runs_when_the_caller_allows_it_and_not_otherwise():
    model_section.check_code(experiment("popularity"))
    model_section.check_code(experiment("mine:Model", allow_code=True))
    with pytest.raises(OptionError, match=r"--allow-code .* allow_code=True .*ALLOW_CODE=mine"):
        model_section.check_code(experiment("mine:Model"))


def test_the_environment_trusts_modules_and_what_is_in_them(monkeypatch):
    monkeypatch.setenv(model_section.VARIABLE, "mine, firm.models")
    for kind in ("mine:Model", "mine.deep:Model", "firm.models:Model", "firm.models.new:Model"):
        assert model_section.is_trusted(kind)
    for kind in ("minefield:Model", "firm:Model", "firm.other:Model", ":Model", "os:system"):
        assert not model_section.is_trusted(kind)
    model_section.check_code(experiment("mine:Model"))


@pytest.mark.parametrize("value", ["", ",", " , ."])
def test_an_empty_variable_trusts_nothing(monkeypatch, value):
    monkeypatch.setenv(model_section.VARIABLE, value)
    assert not model_section.is_trusted("mine:Model") and not model_section.is_trusted(":Model")
