from dataclasses import replace

import pytest
from tiny_run import FM, POPULARITY, STOPPING, TUNED, Broken, experiment, model

from fmpair.config.experiment import Candidate, Running, Step
from fmpair.errors import OptionError
from fmpair.experiment.estimate import estimate


def test_an_estimate_counts_cells_and_trials_and_looks_at_every_model(tmp_path):
    found = estimate(experiment(tmp_path / "run", POPULARITY, TUNED, STOPPING, seeds=(0, 1)))
    assert found.models.select("model", "cells", "trials").rows() == [
        ("popularity", 4, 0), ("tuned", 4, 4), ("stopping", 4, 0),
    ]  # fmt: skip
    for name in ("train_seconds", "judge_seconds", "seconds", "peak_mb"):
        assert (found.models[name] > 0).all()
    assert found.seconds == pytest.approx(sum(found.models["seconds"]))
    assert str(found).startswith("12 cells and 4 trials in about ")
    assert not (tmp_path / "run").exists()


def test_a_model_costs_what_its_cells_cost(tmp_path):
    (row,) = estimate(experiment(tmp_path, FM)).models.rows(named=True)
    assert row["seconds"] == pytest.approx(2 * (row["train_seconds"] + row["judge_seconds"]))


def test_workers_share_the_time_and_add_up_in_memory(tmp_path):
    found = estimate(experiment(tmp_path, POPULARITY, FM, run=Running(workers=3)))
    assert found.seconds == pytest.approx(sum(found.models["seconds"]) / 3)
    assert found.peak_mb == pytest.approx(3 * max(found.models["peak_mb"]))


def test_a_model_that_cannot_be_tried_says_why(tmp_path):
    found = estimate(experiment(tmp_path, model(Broken), POPULARITY)).models
    assert found["error"].to_list() == ["this one always fails", None]
    assert found["seconds"].is_null().to_list() == [True, False]


def test_what_would_stop_the_run_stops_the_estimate(tmp_path):
    with pytest.raises(OptionError, match="validation"):
        estimate(replace(experiment(tmp_path, TUNED), split=Step("holdout")))


def test_what_the_run_would_install_first_is_not_installed_for_an_estimate(tmp_path, monkeypatch):
    monkeypatch.setattr("fmpair.bridges.recbole.caches", lambda: tmp_path / "caches")
    found = estimate(experiment(tmp_path, Candidate("recbole", "recbole"), POPULARITY)).models
    assert found["error"].to_list() == [
        "recbole is not installed yet: the run installs it first", None,
    ]  # fmt: skip
    assert not (tmp_path / "caches").exists()
