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

QUICK = 1_500_000  # numbers of all item vectors that are multiplied in a third of a millisecond
EXPLAINED_AT_ONCE = 20  # items whose terms are soon told
TOGETHER = 16  # questions of one round

Waiting = tuple[Any, Question, "asyncio.Future[Answer]"]


class Gather:
    """Answers questions: those soon answered at once, others in a thread, together."""

    def __init__(self) -> None:
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
                found = await loop.run_in_executor(self._thread, each_answered, model, asked)
                for (_, _, future), answer in zip(own, found):
                    if future.done():  # nobody waits for it any more
                        continue
                    if isinstance(answer, Exception):
                        future.set_exception(answer)
                    else:
                        future.set_result(answer)
        finally:
            self._busy = False


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
