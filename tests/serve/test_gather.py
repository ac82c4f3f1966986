"""Questions about a large catalogue are answered together, and each as if it were alone."""

import asyncio

import pytest

from fmpair.errors import UnknownError
from fmpair.fitted.question import Question
from fmpair.serve import service as gathering
from fmpair.serve.service import Gather, is_quick

USERS = [f"ann/{number} <é🎈>" for number in range(12)]


class Watched:
    """A model that notes how many questions it is asked at once."""

    def __init__(self, model):
        self.model, self.parameters, self.space = model, model.parameters, model.space
        self.rounds = []

    def answers(self, questions):
        self.rounds.append(len(questions))
        return self.model.answers(questions)


@pytest.fixture
def model(served_model, monkeypatch):
    monkeypatch.setattr(gathering, "QUICK", 10)
    return Watched(served_model)


def all_at_once(model, questions):
    gather = Gather()

    async def run():
        asked = [gather.answer(model, question) for question in questions]
        return await asyncio.gather(*asked, return_exceptions=True)

    return asyncio.run(run())


def test_those_that_wait_are_answered_in_one_round(model):
    found = all_at_once(model, [Question(user, 3) for user in USERS])
    assert model.rounds == [12]
    assert [one.items for one in found] == [model.model.answer(user, 3).items for user in USERS]


def test_a_question_that_is_wrong_costs_the_others_nothing(model):
    asked = [Question(USERS[0]), Question("who"), Question(USERS[1])]
    first, wrong, last = all_at_once(model, asked)
    assert isinstance(wrong, UnknownError)
    assert first.items == model.model.answer(USERS[0]).items
    assert last.items == model.model.answer(USERS[1]).items


def test_one_that_is_no_longer_waited_for_costs_the_others_nothing(model):
    gather = Gather()

    async def run():
        gone = asyncio.create_task(gather.answer(model, Question(USERS[0])))
        other = asyncio.create_task(gather.answer(model, Question(USERS[1])))
        await asyncio.sleep(0)
        gone.cancel()
        return await other

    assert asyncio.run(run()).items == model.model.answer(USERS[1]).items


def test_what_is_soon_answered_waits_for_nobody(served_model):
    assert is_quick(served_model, Question())
    assert not is_quick(served_model, Question(n=500, explain=True))
