"""Batches of requests: in the event loop, or in a thread for large catalogues."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fmpair.fitted.question import Answer, Question

QUICK = 1_500_000  # numbers of item vectors, multiplied in a third of a millisecond
QUICK_EXPLAINED = 20  # items that are explained quickly
QUICK_SEARCHED = 100  # items that an index finds quickly
MAX_BATCH = 16  # questions
TURNS = 3  # of the event loop, for which quick questions wait for others

Waiting = tuple[Any, Question, "asyncio.Future[Answer]"]


class RequestBatcher:
    """Answers quick questions in the event loop, and others in a thread, several at a time.

    Quick questions wait until the event loop has read all requests that have arrived. Reading
    several and then answering them takes less processor time than doing both for one after the
    other; none of their scores depends on the others. If several were answered together last time,
    the batcher waits for as many, for at most TURNS turns of the loop: some 20 µs.
    Scoring a million items is bound by reading their vectors, so a batch of eight questions takes
    little longer than one. Questions that arrive during a batch go into the next one.
    """

    def __init__(self) -> None:
        self._quick: deque[Waiting] = deque()
        self._expected = 1  # how many quick questions were answered together last time
        self._waiting: list[Waiting] = []
        self._busy = False
        self._thread = ThreadPoolExecutor(1, "fmpair-answers")

    async def answer(self, model: Any, question: Question) -> Answer:
        """Return the model's answer."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        if is_quick(model, question):
            if not self._quick:  # requests that are ready by now are read first
                loop.call_soon(self._gather, loop, TURNS)
            self._quick.append((model, question, future))
            return await future
        self._waiting.append((model, question, future))
        if not self._busy:
            self._busy = True
            self._task = loop.create_task(self._run())
        return await future

    def _gather(self, loop: asyncio.AbstractEventLoop, turns: int) -> None:
        if turns and len(self._quick) < self._expected:
            loop.call_soon(self._gather, loop, turns - 1)
            return
        self._expected = min(len(self._quick), MAX_BATCH)
        self._answer_quick(loop)

    def _answer_quick(self, loop: asyncio.AbstractEventLoop) -> None:
        batch = [self._quick.popleft() for _ in range(min(len(self._quick), MAX_BATCH))]
        for model in {id(model): model for model, _, _ in batch}.values():  # mostly one
            asked = [entry for entry in batch if entry[0] is model]
            answered = _each_answered(model, [question for _, question, _ in asked], apart=True)
            for (_, _, future), answer in zip(asked, answered):
                _resolve(future, answer)
        if self._quick:  # after the answers so far have been sent
            loop.call_soon(self._answer_quick, loop)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                model = self._waiting[0][0]
                batch = [entry for entry in self._waiting if entry[0] is model][:MAX_BATCH]
                taken = {future for _, _, future in batch}  # models cannot be compared
                self._waiting = [entry for entry in self._waiting if entry[2] not in taken]
                questions = [question for _, question, _ in batch]
                work = loop.run_in_executor(self._thread, _each_answered, model, questions)
                for (_, _, future), answer in zip(batch, await work):
                    _resolve(future, answer)
        finally:
            self._busy = False


def _resolve(future: asyncio.Future[Answer], answer: Answer | Exception) -> None:
    if future.done():  # the client has left
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)


def is_quick(model: Any, question: Question) -> bool:
    """Return whether an answer takes too little time to delay other requests."""
    parameters = getattr(model, "parameters", None)
    if parameters is None or (question.explain and question.n > QUICK_EXPLAINED):
        return False
    table, chosen = parameters.items, question.candidates
    if (table.size if chosen is None else len(chosen) * table.shape[1]) <= QUICK:
        return True
    side = getattr(model, "item_side", None)
    indexed = side is not None and side.index is not None
    return indexed and chosen is None and question.n <= QUICK_SEARCHED


def _each_answered(
    model: Any, questions: Sequence[Question], apart: bool = False
) -> list[Answer | Exception]:
    """Answer the questions; an error affects only its own question."""
    try:
        return list(model.answers(questions, apart))
    except Exception as error:
        if len(questions) == 1:
            return [error]
    return [answer for question in questions for answer in _each_answered(model, [question])]
