import json
import sys
from dataclasses import replace

import pytest
from tiny_run import FM, POPULARITY, TUNED, Broken, experiment, model

from fmpair.config.experiment import Range, Tuning
from fmpair.errors import OptionError
from fmpair.experiment.run import run


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two tuned models beside one that is not, on two folds."""
    other = replace(
        FM, name="other",
        search={"positives": Range(("user", "bootstrap")), "factors": Range(low=1, high=8)},
    )  # fmt: skip
    models = (TUNED, replace(other, options={"epochs": 2}), POPULARITY)
    asked = experiment(tmp_path_factory.mktemp("run"), *models, tune=Tuning(trials=4))
    return run(asked)


def options(text):
    return json.loads(text)


def test_all_tuned_models_have_the_same_budget(results):
    counts = results.trials.group_by("model", "fold").len().sort("model", "fold").rows()
    assert counts == [("other", 0, 4), ("other", 1, 4), ("tuned", 0, 4), ("tuned", 1, 4)]


def test_the_options_that_did_best_on_validation_are_those_of_the_cells(results):
    for name in ("tuned", "other"):
        for fold in (0, 1):
            trials = results.trials.filter(model=name, fold=fold)
            best = trials["options"][trials["value"].arg_max()]
            assert results.cells.filter(model=name, fold=fold)["options"].to_list() == [best]


def test_the_first_trial_is_the_recipes_own_setting(results):
    first = results.trials.filter(model="tuned", trial=0)["options"]
    assert [options(text)["learning_rate"] for text in first] == [0.1, 0.1]


def test_every_trial_lies_in_its_range_and_has_its_type(results):
    for text in results.trials.filter(model="other")["options"]:
        found = options(text)
        assert isinstance(found["factors"], int) and 1 <= found["factors"] <= 8
        assert found["positives"] in ("user", "bootstrap")
    tried = [
        options(text)["learning_rate"] for text in results.trials.filter(model="tuned")["options"]
    ]
    assert all(0.01 <= rate <= 0.3 for rate in tried) and len(set(tried)) > 2


def test_the_test_part_is_not_judged_before_tuning_is_over(tmp_path):
    said = []
    run(experiment(tmp_path), progress=said.append)
    trial = ["trial" in line for line in said]
    assert trial == sorted(trial, reverse=True) and sum(trial) == 4


def test_trials_learn_nothing_from_the_validation_or_the_test_part(tmp_path):
    asked = experiment(tmp_path, TUNED)
    run(asked)
    spec = json.loads(next(tmp_path.glob("trials/*.json")).read_text())
    assert spec["cell"]["part"] == "validation" and spec["files"] == {}


def test_another_seed_of_tuning_tries_other_settings(tmp_path):
    one = run(experiment(tmp_path / "a", TUNED, tune=Tuning(3, seed=1)))
    other = run(experiment(tmp_path / "b", TUNED, tune=Tuning(3, seed=2)))
    assert one.trials["options"].to_list() != other.trials["options"].to_list()


def test_a_model_whose_trials_all_fail_is_a_failed_row(tmp_path):
    bad = replace(model(Broken), search={"x": Range((1, 2))})
    results = run(experiment(tmp_path, bad, POPULARITY))
    assert results.trials["value"].null_count() == 4
    assert results.cells["error"].is_null().to_list() == [False, False, True, True]


def test_a_setting_that_diverges_is_the_worst_one(tmp_path):
    wild = replace(TUNED, search={"learning_rate": Range((1e9, 0.1))})
    results = run(experiment(tmp_path, wild, tune=Tuning(trials=4)))
    failed = results.trials.filter(results.trials["error"].is_not_null())
    assert len(failed) and all("diverged" in error for error in failed["error"])
    assert [options(text)["learning_rate"] for text in results.cells["options"]] == [0.1, 0.1]


def test_without_optuna_the_remedy_is_said_before_any_training(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(OptionError, match=r"pip install 'fmpair\[tune\]'"):
        run(experiment(tmp_path / "run"))
    assert not (tmp_path / "run").exists()
    assert len(run(experiment(tmp_path / "run", POPULARITY)).cells) == 2
