"""A library that is missing is named with the command that installs it."""

import sys
from types import ModuleType

import pytest

from fmpair.bridges.adapter import Requirement
from fmpair.config.read import read
from fmpair.errors import FmpairError
from fmpair.models import catalog

MISSING = Requirement("no_such_library", "no-such-library", "nosuch")


def test_a_missing_library_says_the_command_that_installs_it():
    with pytest.raises(FmpairError) as caught:
        MISSING.check()
    message = "no-such-library is not installed: pip install 'fmpair[nosuch]'"
    assert str(caught.value) == message


def test_loading_a_missing_library_says_the_same():
    with pytest.raises(FmpairError, match="pip install 'fmpair"):
        MISSING.load("models")


def test_a_library_that_is_there_passes_and_gives_its_modules():
    there = Requirement("json", "json", "json")
    there.check()
    assert hasattr(there.load("decoder"), "JSONDecoder")


def test_a_library_that_is_broken_says_why(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(FmpairError, match="cannot be imported: No module named 'no_such_library'"):
        Requirement("half_installed", "half-installed", "half").load()


def test_provenance_is_the_name_and_version_of_what_is_installed():
    found = Requirement("numpy", "numpy", "numpy").provenance()
    import numpy

    assert found == {"library": "numpy", "version": numpy.__version__}


@pytest.mark.parametrize("name", ["implicit", "lightfm", "cornac", "lenskit", "myfm"])
def test_a_bridge_whose_library_is_missing_is_found_and_says_what_to_install(name, monkeypatch):
    recipe = catalog.find(name)
    monkeypatch.setattr("fmpair.bridges.adapter.find_spec", lambda module: None)
    monkeypatch.delitem(sys.modules, recipe.requirement.module, raising=False)
    assert f"pip install 'fmpair[{name}]'" in catalog.missing(name)
    with pytest.raises(FmpairError, match="is not installed"):
        recipe().fit({"user": [1, 1, 2], "item": [1, 2, 3]})


def test_an_experiment_with_a_missing_library_fails_when_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("fmpair.bridges.adapter.find_spec", lambda module: None)
    monkeypatch.delitem(sys.modules, "implicit", raising=False)
    file = tmp_path / "compare.yaml"
    file.write_text("data: {generate: {}}\nmodels: [popularity, {kind: implicit, model: bpr}]\n")
    with pytest.raises(FmpairError, match=r"pip install 'fmpair\[implicit\]'"):
        read(file)


def test_a_stand_in_counts_as_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "no_such_library", ModuleType("no_such_library"))
    MISSING.check()
    assert MISSING.provenance()["version"] == "unknown"
