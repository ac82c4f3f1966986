"""Where models learn is a part of their options, settled when a run begins."""

import pytest
from tiny_run import experiment

from fmpair import device
from fmpair.config.experiment import Candidate, Running
from fmpair.experiment.prepared import settle

MODELS = (
    Candidate("popularity", "popularity", {}),
    Candidate("usual", "fm-pair", {"factors": 2}),
    Candidate("own", "fm-pair", {"factors": 2, "device": "torch"}),
    Candidate("any", "fm-pair", {"device": "auto"}),
)


def devices(tmp_path, where):
    asked = experiment(tmp_path, models=MODELS, run=Running(device=where))
    return [model.options.get("device") for model in settle(asked, None).models]


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(device, "obstacle", lambda: None)


def test_a_device_of_the_run_is_that_of_models_that_do_not_say_themselves(tmp_path, gpu):
    assert devices(tmp_path, "cuda") == [None, "cuda", "torch", "cuda"]


def test_the_cpu_is_not_said(tmp_path, gpu):
    assert devices(tmp_path, "cpu") == [None, None, "torch", "cuda"]


def test_auto_is_settled(tmp_path, gpu, monkeypatch):
    assert devices(tmp_path, "auto") == [None, "cuda", "torch", "cuda"]
    monkeypatch.setattr(device, "obstacle", lambda: "no GPU is found")
    assert devices(tmp_path, "auto") == [None, None, "torch", None]
