"""Questions that wait for a large catalogue are answered together.

One question about a million items takes as long as it takes to read their vectors; eight at once
take little longer. So what comes in while others are being answered goes into the next round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fmpair.fitted.answer import Answer, Question
from fmpair.threads import blas_on

QUICK = 1_500_000  # numbers of all item vectors that are multiplied in a third of a millisecond
EXPLAINED_AT_ONCE = 20  # items whose terms are soon told
TOGETHER = 16  # questions of one round
PAUSE = 0.05  # of a round, before the next begins

Waiting = tuple[Any, Question, "asyncio.Future[Answer]"]


class Gather:
    """Answers questions: those soon answered at once, others in a thread, together.

    threads: what the BLAS has for these; for what is soon answered, one is the soonest.
    """

    def __init__(self, threads: int = 1) -> None:
        self._blas_threads = threads
        self._waiting: list[Waiting] = []
        self._busy = False
        self._thread = ThreadPoolExecutor(1, "fmpair-answers")

    async def answer(self, model: Any, question: Question) -> Answer:
        """What the model answers."""
        if is_quick(model, question):
            return model.answers([question])[0]
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((model, question, future))
        if not self._busy:
            self._busy = True
            self._task = loop.create_task(self._rounds())
        return await future

    async def _rounds(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                model = self._waiting[0][0]
                own = [one for one in self._waiting if one[0] is model][:TOGETHER]
                self._waiting = [one for one in self._waiting if one not in own]
                asked = [question for _, question, _ in own]
                begun = loop.time()
                found = await loop.run_in_executor(self._thread, self._answered, model, asked)
                for (_, _, future), answer in zip(own, found):
                    if future.done():  # nobody waits for it any more
                        continue
                    if isinstance(answer, Exception):
                        future.set_exception(answer)
                    else:
                        future.set_result(answer)
                # who has just been answered may ask again: they are sooner answered with the rest
                await asyncio.sleep((loop.time() - begun) * PAUSE)
        finally:
            self._busy = False

    def _answered(self, model: Any, questions: Sequence[Question]) -> list[Answer | Exception]:
        with blas_on(self._blas_threads):
            return each_answered(model, questions)


def is_quick(model: Any, question: Question) -> bool:
    """Whether an answer takes so little that nobody else need wait for it."""
    parameters = getattr(model, "parameters", None)
    if parameters is None or (question.explain and question.n > EXPLAINED_AT_ONCE):
        return False
    factors = parameters.items.shape[1]
    asked = len(model.space.items) if question.candidates is None else len(question.candidates)
    return asked * factors <= QUICK


def each_answered(model: Any, questions: Sequence[Question]) -> list[Answer | Exception]:
    """The answer to each question; where one cannot be, the error is its alone."""
    try:
        return list(model.answers(questions))
    except Exception as error:
        if len(questions) == 1:
            return [error]
    return [one for question in questions for one in each_answered(model, [question])]
