import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from tiny_run import FM, POPULARITY, TUNED, Broken, Faulty, experiment, model, same

from fmpair.config.experiment import Candidate, Running, Tuning
from fmpair.errors import MachineError
from fmpair.experiment.run import run
from fmpair.experiment.tuning import Study
from fmpair.report.run_tables import tuning_table
from fmpair.training.search import Budget, Job, Range, Search, Space


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
    first = results.trials.filter(model="tuned", trial=1)["options"]
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
    assert ", fold 0, trial 1 of 2: ndcg@10" in said[0] and "trial 2 of 2, best 0." in said[3]


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


def faulty(trials=3, workers=1, **options):
    """A model tuned over three settings, the third of which has a fault."""
    kept = replace(model(Faulty), options=options, search={"x": Range((0, 1, 2))})
    return {"models": (kept,), "tune": Tuning(trials), "run": Running(workers=workers)}


def tried(results):
    """The settings of each fold, in their order."""
    by_fold = results.trials.group_by("fold", maintain_order=True)
    return [[options(text)["x"] for text in part["options"]] for _, part in by_fold]


@pytest.mark.faults
def test_a_process_that_is_killed_in_a_trial_changes_no_result(tmp_path):
    said = []
    asked = experiment(tmp_path / "a", **faulty(workers=2, flag=str(tmp_path / "flag")))
    results = run(asked, progress=said.append)
    assert (tmp_path / "flag").exists()
    assert len([line for line in said if "retrying it alone" in line]) == 1
    whole = replace(asked, run=Running(), output=replace(asked.output, folder=str(tmp_path)))
    assert same(results, run(whole))
    assert results.trials["error"].null_count() == 6 and results.cells["error"].null_count() == 2


@pytest.mark.parametrize("fault, workers, why", [
    pytest.param(
        "kill", 2, "its process ended before it was done: killed, or out of memory, twice",
        marks=pytest.mark.faults,
    ),
    ("memory", 2, "MemoryError: x is 2"), ("disk", 1, "No space left on device"),
])  # fmt: skip
def test_a_trial_that_a_fault_ends_is_named_and_chooses_nothing(tmp_path, fault, workers, why):
    asked = experiment(tmp_path, **faulty(fault=fault, workers=workers))
    with pytest.raises(
        MachineError, match=r"other, fold 0: trial . \(x 2\) was not finished"
    ) as raised:
        run(asked)
    assert why in str(raised.value) and "\n" not in str(raised.value)
    assert not list(tmp_path.glob("cells/*.json")), "nothing is judged on the test part"


def test_a_run_that_a_fault_ended_goes_on_and_comes_to_the_same(tmp_path):
    flag = tmp_path / "flag"
    asked = experiment(tmp_path / "a", **faulty(fault="memory", flag=str(flag)))
    with pytest.raises(MachineError):
        run(asked)
    healed = run(asked)
    whole = replace(asked, output=replace(asked.output, folder=str(tmp_path / "b")))
    assert same(healed, run(whole))


def test_what_a_model_says_of_its_own_options_is_a_failed_trial_and_no_more(tmp_path):
    results = run(experiment(tmp_path, **faulty(fault="diverged")))
    failed = results.trials.filter(results.trials["error"].is_not_null())
    assert failed["error"].to_list() == ["x is 2", "x is 2"]
    assert all(options(text)["x"] != 2 for text in results.cells["options"])


@pytest.mark.parametrize("seed", range(4))
def test_no_setting_is_tried_twice_and_the_search_ends_when_all_are_tried(tmp_path, seed):
    said = []
    workers = 2 if seed == 0 else 1
    asked = experiment(tmp_path, **{**faulty(at=9, workers=workers), "tune": Tuning(8, seed=seed)})
    results = run(asked, progress=said.append)
    assert [sorted(settings) for settings in tried(results)] == [[0, 1, 2], [0, 1, 2]]
    assert results.trials["trial"].to_list() == [1, 2, 3] * 2
    told = [line for line in said if "settings are tried" in line]
    assert told == [
        f"other, fold {fold}: all 3 settings are tried; 5 of 8 trials are not needed"
        for fold in (0, 1)
    ]
    assert f" of {2 * 3 + 2}: " in said[0], "the count knows that there are fewer trials"


def test_a_search_that_is_resumed_tries_the_same_settings(tmp_path):
    usual = faulty(at=9, trials=3)
    kept = replace(
        usual["models"][0], search={"x": Range((0, 1, 2, 3, 4)), "at": Range(low=7, high=9)}
    )
    asked = experiment(tmp_path, **{**usual, "models": (kept,), "tune": Tuning(12)})
    first = run(asked)
    for record in list(tmp_path.glob("trials/*.json"))[::2]:
        record.unlink()
    again = run(asked)
    assert same(first, again)
    assert first.trials.select("fold", "options").is_duplicated().sum() == 0
    assert len(first.trials) == 24


def test_a_value_that_is_listed_twice_is_one_setting(tmp_path):
    usual = faulty(at=9)
    kept = replace(usual["models"][0], search={"x": Range((1, 0, 1))})
    results = run(experiment(tmp_path, **{**usual, "models": (kept,), "tune": Tuning(5)}))
    assert [sorted(settings) for settings in tried(results)] == [[0, 1], [0, 1]]


# Models with their own budget: tune: 5m, or {trials: 40}.

NEIGHBOURS = Candidate("neighbours", "item-knn", tune=Budget(trials=6))
MACHINE = Candidate(
    "machine", "fm-pair", {"factors": 2, "epochs": 8, "loss": "bpr"}, tune=Budget(trials=6)
)


@pytest.fixture(scope="module")
def budgeted(tmp_path_factory):
    return run(experiment(tmp_path_factory.mktemp("run"), NEIGHBOURS, MACHINE))


def test_models_with_equal_budgets_try_as_many_settings_of_their_own(budgeted):
    settings = budgeted.trials.group_by("model", "fold").agg(pl.col("trial").n_unique())
    assert settings["trial"].to_list() == [6, 6, 6, 6]
    tried = [options(text) for text in budgeted.trials.filter(model="neighbours")["options"]]
    assert all(set(found) == {"k", "shrinkage"} for found in tried)
    assert tried[0] == {"k": 100, "shrinkage": 10.0}


def test_the_first_setting_of_a_machine_is_its_own_and_lower_rungs_have_fewer_epochs(budgeted):
    trials = budgeted.trials.filter(model="machine", fold=0)
    found = [options(text) for text in trials.filter(trial=1)["options"]]
    assert [one["epochs"] for one in found] == [2, 4, 8]
    decided = {"history": 0, "order": 2, "pairs": None, "times": False, "fields": {}}
    decided["factors3"] = None
    assert found[-1] == {**MACHINE.options, **decided}
    lower = [options(text) for text in trials["options"] if options(text)["epochs"] == 2]
    assert len(lower) == 6 and len(trials) < 18


def test_the_best_setting_of_the_last_rung_is_that_of_the_cells(budgeted):
    for fold in (0, 1):
        [final] = budgeted.cells.filter(model="machine", fold=fold)["options"]
        assert options(final)["epochs"] == 8
        trials = budgeted.trials.filter(model="machine", fold=fold)
        whole = trials.filter(pl.col("options").str.contains('"epochs":8'))
        assert whole.filter(options=final)["value"].to_list() == [whole["value"].max()]


def test_the_report_shows_what_was_chosen_on_the_last_rung(budgeted):
    table = tuning_table(budgeted)
    assert "6 trials per model and fold" in table.notes[0]
    row = table.data.filter(model="machine", fold=0).row(0, named=True)
    [final] = budgeted.cells.filter(model="machine", fold=0)["options"]
    assert row["trials"] == 6 and options(row["options"]) == options(final)


def test_the_trials_of_the_chosen_setting_are_marked(budgeted):
    chosen = budgeted.trials.filter(model="machine", fold=0).filter("chosen")
    [final] = budgeted.cells.filter(model="machine", fold=0)["options"]
    assert chosen["trial"].n_unique() == 1 and chosen["options"][-1] == final


def test_the_report_shows_the_options_of_the_cells_if_no_trial_was_whole(tmp_path):
    results = run(experiment(tmp_path, replace(MACHINE, tune=Budget(seconds=1e-9))))
    table = tuning_table(results)
    for row, final in zip(table.data.to_dicts(), results.cells["options"]):
        assert options(row["options"]) == options(final) and options(final)["epochs"] == 8
    assert "the time ended before a trial of this setting had all epochs" in table.notes[1]


def test_a_trial_tells_the_share_of_the_time_and_the_best_so_far():
    space = Space({"factors": Range((4, 8))}, {"factors": 4})
    search = Search(space, Budget(seconds=10), (0.5, 1.0))
    study = Study(MACHINE, 0, SimpleNamespace(costs=search.costs), search)
    assert study.progress(search.ask(), 1) == "trial 1, 0% of 10 s (stage 1 of 2)"
    search.tell(Job(0), np.array([0.25]), seconds=1.0)
    assert study.progress(Job(1), 1) == "trial 2, 10% of 10 s (stage 1 of 2), best 0.2500"
    search.tell(Job(0, 1), np.array([-0.5]), seconds=1.5)
    assert study.progress(Job(1), -1) == "trial 2, 25% of 10 s (stage 1 of 2), best 0.5000"


def test_a_time_ends_the_search_of_every_model(tmp_path):
    short = Budget(seconds=0.2)
    models = [replace(model, tune=short) for model in (NEIGHBOURS, MACHINE)]
    asked, lines = experiment(tmp_path, *models), []
    results = run(asked, progress=lines.append)
    assert results.cells["error"].null_count() == 4
    counted = [line.partition(": ")[0] for line in lines if ", fold " in line]
    trials = len(counted) - 4
    every = [str(n + 1) for n in range(trials)]
    assert counted[:trials] == every, "nobody knows how many trials there will be"
    assert counted[trials:] == [f"{trials + n} of {trials + 4}" for n in range(1, 5)]
    assert not any(" left" in line for line in lines if ", trial " in line)
    tried = [line for line in lines if "machine, fold 0, trial " in line]
    assert re.search(r"trial 1, \d+% of 0.2 s \(stage 1 of 3\): ndcg@10", tried[0])
    assert same(results, run(asked)), "stored trials count as much as when they were made"


def test_a_model_that_cannot_be_tuned_is_a_failed_row(tmp_path):
    wrong = replace(MACHINE, options={"fields": {"nothing": {"kind": "binned"}}})
    results = run(experiment(tmp_path, wrong, POPULARITY))
    assert results.cells.filter(model="popularity")["error"].null_count() == 2
    assert results.cells.filter(model="machine")["error"].null_count() == 0
