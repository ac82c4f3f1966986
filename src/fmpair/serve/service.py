"""What the service does with each request, whatever it came by."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from fmpair import __version__
from fmpair.data.frame import to_polars
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import FmpairError, OptionError
from fmpair.events.event import Event, Impression, event_time, now
from fmpair.events.store import EventStore
from fmpair.fitted import recipe
from fmpair.fitted.answer import Answer, Question
from fmpair.fitted.question import knows_time
from fmpair.fitted.recipe import name_of
from fmpair.serve import requests as wire
from fmpair.serve.live_models import Refusal, Serving, Stamp, stamp
from fmpair.serve.metrics import Metrics
from fmpair.serve.requests import MOST_VALUES, ContextColumn, ModelCard, ProblemError, Refused

# Questions that wait for a large catalogue are answered together.
#
# One question about a million items takes as long as it takes to read their vectors; eight at once
# take little longer. So what comes in while others are being answered goes into the next round.


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


# What is said of a model in service.


def card_of(own: Serving, refused: Refusal | None = None) -> ModelCard:
    """The card of a model in service; refused: the file that was to take its place, if any."""
    model: Any = own.model
    space = model.space
    parameters = getattr(model, "parameters", None)
    run = of_run(own.path, own.stamp)
    return ModelCard(
        model=own.id,
        arm=own.arm,
        recipe=name_of(type(model.recipe)),
        options=_plain(recipe.plain(model.recipe)),
        users=len(space.users),
        items=len(space.items),
        factors=None if parameters is None else int(parameters.users.shape[1]),
        context=[_column(space, column) for column in space.context],
        knows_time=knows_time(space),
        goes_by_history=space.history is not None,
        checksum=own.checksum,
        data={"events": int(model.seen.value.sum())} | run["data"],
        metrics=run["metrics"],
        saved=_time(own.stamp[0] / 1e9),
        loaded=_time(own.loaded),
        id_columns=list(space.id_columns),
        explains=parameters is not None,
        refused=None if refused is None else Refused(refused.why, _time(refused.when)),
    )


@lru_cache(8)
def of_run(path: Path, loaded: Stamp) -> dict[str, Any]:
    """What a run says of its model: the fingerprint of the data, and the metric it was chosen by.

    Nothing where the file is not the model of a run, or is no longer the one that was loaded.
    """
    from fmpair.experiment.folder import WINNER, digest, read_json  # which few services need

    record = read_json(path.parent / WINNER) or {}
    if "sha256" not in record or stamp(path) != loaded or digest(path) != record["sha256"]:
        return {"data": {}, "metrics": None}
    data = {"fingerprint": record["data"]}
    return {"data": data, "metrics": {record["metric"]: float(record["value"])}}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _column(space: Any, name: str) -> ContextColumn:
    """A column of the context with the values it is known by."""
    encoders = [e for e in space.query.encoders if e.role == "context" and e.source == name]
    first = encoders[0]
    if first.part:
        return ContextColumn(name, "time", [], 0)
    if first.vocabulary is None:
        return ContextColumn(name, first.field.kind, [], 0)
    ids = first.vocabulary.ids
    return ContextColumn(name, first.field.kind, ids.head(MOST_VALUES).to_list(), len(ids))


def _plain(value: Any) -> Any:
    """What JSON can say, anything else as text."""
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Models(Protocol):
    """The models in service: see `models.Models`."""

    @property
    def refused(self) -> Mapping[str, Refusal]: ...
    @property
    def swaps(self) -> int: ...
    @property
    def refusals(self) -> int: ...
    @property
    def trouble(self) -> str | None: ...

    def of(self, user: Any) -> tuple[str, Any, str]: ...
    def serving(self) -> list[Serving]: ...
    def history_of(self, user: Any, model: Any) -> list[Any] | None: ...
    def behind(self) -> bool: ...
    def follow(self) -> None: ...


@dataclass(frozen=True)
class Service:
    """The models, and where events are kept (None: nowhere).

    recording: whether lists that are given to users are kept too, for a comparison of arms.
    """

    models: Models
    store: EventStore | None = None
    recording: bool = False
    metrics: Metrics | None = None
    gather: Gather = field(default_factory=Gather)

    async def recommend(self, asked: wire.Recommend) -> wire.Recommended:
        arm, model, name = await self._model_for(asked.user)
        found = await self.gather.answer(model, self._question(asked, model))
        self._record(asked.user, found, arm, name)
        return _recommended(found, name, arm)

    async def batch(self, asked: wire.Batch) -> wire.RecommendedBatch:
        explained = sum(question.n for question in asked.questions if question.explain)
        if explained > wire.MOST_N:
            raise OptionError(f"{explained:,} items are to be explained: at most {wire.MOST_N:,}")
        own = [await self._model_for(question.user) for question in asked.questions]
        found: dict[int, wire.Recommended] = {}
        for arm, model, name in {
            id(model): (arm, model, name) for arm, model, name in own
        }.values():
            places = [place for place, one in enumerate(own) if one[1] is model]
            questions = [self._question(asked.questions[place], model) for place in places]
            answers = await asyncio.to_thread(model.answers, questions)
            for place, answer in zip(places, answers):
                self._record(asked.questions[place].user, answer, arm, name)
            found |= {p: _recommended(one, name, arm) for p, one in zip(places, answers)}
        return wire.RecommendedBatch([found[place] for place in range(len(own))])

    async def score(self, asked: wire.Score) -> wire.Scores:
        arm, model, name = await self._model_for(asked.user)
        question = self._question(
            asked, model, candidates=asked.items, n=len(asked.items), exclude_seen=False
        )
        answer = await self.gather.answer(model, question)
        number = model.known.items.number
        scores = {number(one): (one, score) for one, score in zip(answer.items, answer.scores)}
        found = [scores[place] for place in map(number, asked.items) if place in scores]
        return wire.Scores([wire.Scored(*one) for one in found], name, arm)

    async def explain(self, asked: wire.Explain) -> wire.Explained:
        arm, model, name = await self._model_for(asked.user)
        only = {"candidates": [asked.item], "n": 1, "exclude_seen": False, "explain": True}
        answer = await self.gather.answer(model, self._question(asked, model, **only))
        if not answer.items:
            raise ProblemError(404, f"unknown item {asked.item!r}")
        return wire.Explained(
            answer.items[0], answer.scores[0], _terms((answer.terms or [[]])[0]), name, arm
        )

    async def similar(self, asked: wire.Similar) -> wire.Neighbours:
        if (asked.item is None) == (asked.user is None):
            raise OptionError("name either an item or a user")
        _, model, name = self.models.of(asked.user)
        ask = model.similar_users if asked.item is None else model.similar_items
        given = asked.user if asked.item is None else asked.item
        frame = to_polars(await asyncio.to_thread(ask, given, asked.n))
        return wire.Neighbours([wire.Neighbour(*row) for row in frame.rows()], name)

    async def take(self, asked: wire.NewEvents) -> wire.Taken:
        store = self._store()
        events = []
        for one in asked.events:
            arm, _, name = self.models.of(one.user)
            time = event_time(one.time)
            events.append(Event(one.user, one.item, time, one.context or None, arm, name))
        position = await asyncio.wrap_future(store.submit(events))
        await asyncio.to_thread(self.models.follow)
        if self.metrics is not None:
            self.metrics.count("events", len(events))
        return wire.Taken(len(events), position)

    async def events(self, after: int | None, n: int) -> wire.KeptEvents:
        store = self._store()
        if after is None:
            after = max(await asyncio.to_thread(store.position) - n, 0)
        found = await asyncio.to_thread(store.after, after, n)
        last = found[-1].position if found else after
        return wire.KeptEvents([_kept(event) for event in found], last)

    async def cards(self) -> wire.Cards:
        refused = self.models.refused
        cards = [card_of(one, refused.get(one.arm)) for one in self.models.serving()]
        return wire.Cards(cards, __version__, self.store is not None)

    async def users(self, prefix: str, n: int) -> wire.Found:
        return await asyncio.to_thread(_beginning, self.models.of(None)[1].space.users, prefix, n)

    async def items(self, prefix: str, n: int) -> wire.Found:
        return await asyncio.to_thread(_beginning, self.models.of(None)[1].space.items, prefix, n)

    async def _model_for(self, user: Any) -> tuple[str, Any, str]:
        """(arm, model, id of the model) for a user, with all that is kept by now known to it."""
        if self.models.behind():  # in a thread: a database may keep one waiting, and only one
            await asyncio.to_thread(self.models.follow)
        return self.models.of(user)

    def _question(self, asked: wire.Asked, model: Any, **given: Any) -> Question:
        """The question of a request; given: what it does not say itself."""
        if isinstance(asked, wire.Recommend):
            given = {
                "n": asked.n,
                "candidates": asked.candidates,
                "exclude": asked.exclude,
                "explain": asked.explain,
                "exclude_seen": asked.exclude_seen,
            }
        history = asked.history
        if history is None and asked.user is not None:
            history = self.models.history_of(asked.user, model)
        return Question(
            user=asked.user,
            context=asked.context,
            history=history,
            time=asked.time,
            unknown=asked.unknown,
            **given,
        )

    def _record(self, user: Any, answer: Answer, arm: str, model: str) -> None:
        """Keep a list that a user is shown; what cannot be kept costs nobody their answer."""
        if self.metrics is not None and (answer.passed_over or answer.stranger):
            self.metrics.count("unknown_items", answer.passed_over)
            self.metrics.count("unknown_users", answer.stranger)
        if self.recording and self.store is not None and user is not None:
            with suppress(FmpairError):
                self.store.record([Impression(user, tuple(answer.items), now(), arm, model)])

    def _store(self) -> EventStore:
        if self.store is None:
            raise ProblemError(501, "this service keeps no events: start it with --events")
        return self.store


def _recommended(answer: Answer, model: str, arm: str) -> wire.Recommended:
    if answer.terms is None:
        items = [
            wire.Ranked(item, score, rank)
            for rank, (item, score) in enumerate(zip(answer.items, answer.scores), 1)
        ]
    else:
        rows = zip(answer.items, answer.scores, answer.terms)
        items = [
            wire.Ranked(item, score, rank, _terms(terms))
            for rank, (item, score, terms) in enumerate(rows, 1)
        ]
    return wire.Recommended(items, model, arm)


def _terms(terms: Sequence[tuple[str, str, float]]) -> list[wire.Term]:
    return [wire.Term(*term) for term in terms]


def _kept(event: Event) -> wire.KeptEvent:
    time = (EPOCH + timedelta(microseconds=event.time)).isoformat()
    context = None if event.context is None else dict(event.context)
    return wire.KeptEvent(
        event.position, event.user, event.item, time, context, event.arm, event.model
    )


def _beginning(known: Vocabulary, prefix: str, n: int) -> wire.Found:
    """Ids whose text begins with the prefix, in the order of the model."""
    ids = known.ids
    if prefix:
        ids = ids.filter(ids.cast(pl.String).str.to_lowercase().str.starts_with(prefix.lower()))
    return wire.Found(ids.head(n).to_list(), len(ids))
