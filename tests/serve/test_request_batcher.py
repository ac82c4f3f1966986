"""Requests that wait together: in the event loop, and in a thread for large catalogues."""

import asyncio

import numpy as np
import pytest

from fmpair.errors import UnknownError
from fmpair.fitted.question import Question
from fmpair.serve import request_batcher
from fmpair.serve.request_batcher import RequestBatcher, is_quick

USERS = [f"ann/{number} <é🎈>" for number in range(12)]


class Watched:
    """A model that notes how many questions it is asked at once."""

    def __init__(self, model):
        self.model, self.parameters, self.space = model, model.parameters, model.space
        self.batches = []

    def answers(self, questions, apart=False):
        self.batches.append(len(questions))
        return self.model.answers(questions, apart)


@pytest.fixture
def model(served_model, monkeypatch):
    monkeypatch.setattr(request_batcher, "QUICK", 10)
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
    monkeypatch.setattr(request_batcher, "QUICK", 10)
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


def test_quick_questions_that_wait_together_have_the_scores_of_each_alone(served_model):
    model, users = Watched(served_model), USERS * 2  # more than one batch
    most = request_batcher.MAX_BATCH
    assert len(users) > most
    found = all_at_once(model, [Question(user, 3 + row % 3) for row, user in enumerate(users)])
    assert model.batches == [most, len(users) - most]
    # equal to the last bit
    assert found == [served_model.answer(user, 3 + row % 3) for row, user in enumerate(users)]


def test_quick_questions_wait_for_as_many_as_came_before_but_not_for_long(served_model):
    batcher, model = RequestBatcher(), Watched(served_model)

    async def later(turns, user):
        for _ in range(turns):
            await asyncio.sleep(0)
        return await batcher.answer(model, Question(user, 3))

    async def run():
        await asyncio.gather(later(0, USERS[0]), later(2, USERS[1]))  # nobody is waited for
        await asyncio.gather(later(0, USERS[0]), later(0, USERS[1]))
        found = await asyncio.gather(later(0, USERS[0]), later(2, USERS[1]))
        return [*found, await later(0, USERS[2])]

    found = asyncio.run(run())
    assert model.batches == [1, 1, 2, 2, 1]
    assert found == [served_model.answer(user, 3) for user in USERS[:3]]


def test_an_invalid_quick_question_does_not_affect_the_others(served_model):
    asked = [Question(USERS[0]), Question("who"), Question(USERS[1])]
    first, wrong, last = all_at_once(Watched(served_model), asked)
    assert isinstance(wrong, UnknownError)
    assert first == served_model.answer(USERS[0]) and last == served_model.answer(USERS[1])


def test_a_quick_question_that_is_cancelled_does_not_affect_the_others(served_model):
    batcher, model = RequestBatcher(), Watched(served_model)

    async def run():
        gone, other = (
            asyncio.create_task(batcher.answer(model, Question(user))) for user in USERS[:2]
        )
        await asyncio.sleep(0)
        gone.cancel()
        return await other, await batcher.answer(model, Question(USERS[2]))

    wanted = tuple(served_model.answer(user) for user in USERS[1:3])
    assert asyncio.run(run()) == wanted


def test_requests_that_arrive_during_a_batch_are_read_before_the_next(served_model, monkeypatch):
    monkeypatch.setattr(request_batcher, "MAX_BATCH", 2)
    batcher, order = RequestBatcher(), []

    async def answer(name):
        await batcher.answer(served_model, Question(USERS[0]))
        order.append(name)

    async def run():
        first = [asyncio.create_task(answer(number)) for number in range(4)]
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(order.append, "read")
        await asyncio.gather(*first)

    asyncio.run(run())
    assert order.index("read") < order.index(2)
    assert [name for name in order if name != "read"] == [0, 1, 2, 3]
