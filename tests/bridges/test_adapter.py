"""What all bridges share."""

import sys
import warnings
from types import ModuleType

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from fmpair.bridges import adapter
from fmpair.bridges.adapter import Requirement, construct, foreign_code, without_constants
from fmpair.config.read import read
from fmpair.errors import DataError, FmpairError, OptionError, TrainingError
from fmpair.models import catalog
from fmpair.testing import two_tastes

# A library that is missing is named with the command that installs it.


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


# Foreign code is quiet, does not take all threads, and fails in one line.


def test_options_go_over_the_usual_ones_and_are_not_touched():
    given = {"factors": 3, "odd name": [1, {"deep": None}]}
    assert construct("it", dict, given, factors=9, seed=1) == {**given, "seed": 1}


def test_an_option_the_library_does_not_know_is_one_line():
    def make(factors):
        return factors

    with pytest.raises(OptionError) as caught:
        construct("theirs", make, {"factor": 3})
    assert str(caught.value).startswith("theirs rejects its settings: TypeError: ")
    assert "'factor'" in str(caught.value)


def test_what_goes_wrong_inside_is_one_line():
    with pytest.raises(TrainingError) as caught, foreign_code("theirs"):
        raise RuntimeError("first\n   second")
    assert str(caught.value) == "theirs failed: RuntimeError: first second"


def test_our_own_errors_pass_as_they_are():
    with pytest.raises(DataError, match=r"^ours$"), foreign_code("theirs"):
        raise DataError("ours")


def test_linear_algebra_gets_the_threads_it_is_given_and_no_more():
    np.ones((2, 2)) @ np.ones((2, 2))
    with foreign_code("theirs", 1):
        assert {pool["num_threads"] for pool in threadpool_info()} == {1}


def test_what_foreign_code_prints_and_warns_is_not_shown(capsys):
    with foreign_code("theirs"):
        print("welcome")
        warnings.warn("be warned", stacklevel=1)
    assert capsys.readouterr() == ("", "")


# Biases that stand among the factors are found; scores stay the same up to a user's constant.


def test_the_column_that_meets_a_one_of_every_user_is_the_items_bias():
    data, rng = two_tastes(), np.random.default_rng(0)
    users, items = rng.normal(size=(40, 3)), rng.normal(size=(20, 3))
    users[:, 1] = 1
    vectors, others, bias = without_constants(data, users, items)
    assert vectors.shape == (40, 2) and others.shape == (20, 2)
    np.testing.assert_allclose(bias, items[:, 1], rtol=1e-6)
    np.testing.assert_allclose(vectors @ others.T + bias, users @ items.T, atol=1e-5)


def test_the_users_own_bias_is_dropped_since_it_changes_no_ranking():
    data, rng = two_tastes(), np.random.default_rng(0)
    users, items = rng.normal(size=(40, 3)), rng.normal(size=(20, 3))
    items[:, 2] = 1
    vectors, others, bias = without_constants(data, users, items)
    apart = users @ items.T - (vectors @ others.T + bias)
    np.testing.assert_allclose(apart, np.repeat(users[:, 2:], 20, axis=1), atol=1e-5)


def test_factors_without_constants_stay_as_they_are():
    rng = np.random.default_rng(0)
    users, items = rng.normal(size=(40, 3)), rng.normal(size=(20, 3))
    vectors, others, bias = without_constants(two_tastes(), users, items)
    assert np.allclose(vectors, users) and np.allclose(others, items) and not bias.any()


# Scores written out: what has none stands last, and what would not fit is refused.


def test_an_item_without_a_score_stands_below_all_others():
    nothing = [np.nan, np.nan, np.nan]
    scores = adapter.ScoreTable.of(np.array([[2, np.nan, -7], [-np.inf, 1, np.inf], nothing])).table
    assert scores.dtype == np.float32 and np.isfinite(scores).all()
    assert scores[0].tolist() == [2, -8, -7]
    assert scores[1].tolist() == [0, 1, 0]


def test_a_table_that_does_not_fit_is_refused_before_anything_is_learned(monkeypatch):
    monkeypatch.setattr(adapter, "memory", lambda: 1000)
    with pytest.raises(OptionError, match=r"cornac's EASE needs .* GB for 40 users and 20 items"):
        adapter.empty_table("cornac's EASE", two_tastes())


def test_a_table_that_fits_is_empty_at_first():
    empty = adapter.empty_table("it", two_tastes())
    assert empty.shape == (40, 20) and np.isnan(empty).all()
    assert adapter.memory() > 2**28
