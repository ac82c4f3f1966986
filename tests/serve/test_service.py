"""Model cards."""

import shutil

from asking import ask

from fmpair.experiment.folder import digest, write_json
from fmpair.serve.application import Application
from fmpair.serve.live_models import LiveModels
from fmpair.serve.service import Service


def card(path):
    return ask(Application(Service(LiveModels(path))), "/v1/model").json["models"][0]


def test_the_card_of_a_run_model_has_its_data_and_metric(model_file, tmp_path):
    path = tmp_path / "model.fmpair"
    shutil.copy(model_file, path)
    record = {"data": "f" * 64, "metric": "ndcg@10", "value": 0.25, "sha256": digest(path)}
    write_json(tmp_path / "winner.json", record)
    found = card(path)
    assert found["metrics"] == {"ndcg@10": 0.25}
    assert found["data"]["fingerprint"] == "f" * 64 and found["data"]["events"] == 177


def test_the_card_of_another_file_beside_a_run_has_neither(model_file, tmp_path):
    path = tmp_path / "model.fmpair"
    shutil.copy(model_file, path)
    record = {"data": "f" * 64, "metric": "ndcg@10", "value": 0.25, "sha256": "0" * 64}
    write_json(tmp_path / "winner.json", record)
    found = card(path)
    assert found["metrics"] is None and "fingerprint" not in found["data"]
