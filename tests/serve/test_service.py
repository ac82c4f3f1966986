"""Request batching for large catalogs, and model cards."""

import asyncio
import shutil

import numpy as np
import pytest
from asking import ask

from fmpair.errors import UnknownError
from fmpair.experiment.folder import digest, write_json
from fmpair.fitted.question import Question
from fmpair.serve import service
from fmpair.serve.application import Application
from fmpair.serve.live_models import LiveModels
from fmpair.serve.service import RequestBatcher, Service, is_quick

USERS = [f"ann/{number} <é🎈>" for number in range(12)]


class Watched:
    """A model that notes how many questions it is asked at once."""

    def __init__(self, model):
        self.model, self.parameters, self.space = model, model.parameters, model.space
        self.batches = []

    def answers(self, questions):
        self.batches.append(len(questions))
        return self.model.answers(questions)


@pytest.fixture
def model(served_model, monkeypatch):
    monkeypatch.setattr(service, "QUICK", 10)
    return Watched(served_model)


def all_at_once(model, questions):
    batcher = RequestBatcher()

    async def run():
        asked = [batcher.answer(model, question) for question in questions]
        return await asyncio.gather(*asked, return_exceptions=True)

    return asyncio.run(run())


def test_waiting_questions_are_answered_in_one_batch(model):
    found = all_at_once(model, [Question(user, 3) for user in USERS])
    assert model.batches == [12]
    assert [one.items for one in found] == [model.model.answer(user, 3).items for user in USERS]


def test_an_invalid_question_does_not_affect_the_others(model):
    asked = [Question(USERS[0]), Question("who"), Question(USERS[1])]
    first, wrong, last = all_at_once(model, asked)
    assert isinstance(wrong, UnknownError)
    assert first.items == model.model.answer(USERS[0]).items
    assert last.items == model.model.answer(USERS[1]).items


def test_a_cancelled_question_does_not_affect_the_others(model):
    batcher = RequestBatcher()

    async def run():
        gone = asyncio.create_task(batcher.answer(model, Question(USERS[0])))
        other = asyncio.create_task(batcher.answer(model, Question(USERS[1])))
        await asyncio.sleep(0)
        gone.cancel()
        return await other

    assert asyncio.run(run()).items == model.model.answer(USERS[1]).items


def test_questions_to_a_model_and_to_its_replacement_wait_side_by_side(served_model, monkeypatch):
    monkeypatch.setattr(service, "QUICK", 10)
    rows = served_model.item_rows
    before, after = served_model, served_model.replaced(item_rows=rows.take(np.arange(rows.size)))
    batcher = RequestBatcher()

    async def run():
        asked = [batcher.answer(model, Question(USERS[0], 3)) for model in (before, after) * 2]
        found = await asyncio.wait_for(asyncio.gather(*asked), 60)
        return [*found, await asyncio.wait_for(batcher.answer(after, Question(USERS[0], 3)), 60)]

    wanted = served_model.answer(USERS[0], 3).items
    assert [one.items for one in asyncio.run(run())] == [wanted] * 5


def test_only_small_questions_are_quick(served_model):
    assert is_quick(served_model, Question())
    assert not is_quick(served_model, Question(n=500, explain=True))


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
