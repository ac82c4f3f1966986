"""What the service does for each request, and the question that it asks a model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from fmpair import __version__
from fmpair.data.frame import to_polars
from fmpair.errors import DataError, FmpairError, OptionError
from fmpair.events.event import (
    ITEM,
    Event,
    Impression,
    ItemChange,
    check_changes,
    check_events,
    check_id,
    event_time,
    now,
)
from fmpair.events.frame import is_refund
from fmpair.events.store import EventStore
from fmpair.features.field import duration
from fmpair.fitted.question import Answer, Question
from fmpair.fitted.rules import NONE_LEFT, Rules
from fmpair.serve import requests as wire
from fmpair.serve.live_catalogue import (
    absent,
    accepted,
    catalogue_values,
    ids_with_prefix,
    items_with_prefix,
    new_columns,
    ranks_new_items,
    similar_items,
)
from fmpair.serve.live_models import MAX_WAIT, LiveModels
from fmpair.serve.metrics import Metrics
from fmpair.serve.model_card import model_card
from fmpair.serve.problems import ProblemError
from fmpair.serve.request_batcher import RequestBatcher
from fmpair.serve.request_options import (
    EVENT,
    IN_MAPPINGS,
    answerable,
    event_error,
    placed,
    request_rules,
    unknown_columns,
    unknown_in_event,
    unknown_parts,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Service:
    """The models, and the event store (None: events are not stored).

    recording: whether to store impressions, for a comparison of two models. rules: by name. strict:
    refuse unknown ids and values. images: the column with addresses of images, for the web page.
    """

    models: LiveModels
    store: EventStore | None = None
    recording: bool = False
    metrics: Metrics | None = None
    rules: Mapping[str, Rules] = field(default_factory=dict)
    strict: bool = False
    images: str | None = None
    batcher: RequestBatcher = field(default_factory=RequestBatcher)
    # Separate threads: a database that does not answer must not block the threads of models.
    readers: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(2, "fmpair-read")
    )

    async def recommend(self, request: wire.Recommend) -> wire.Recommended:
        arm, model, name = await self._model_for(request.user, request.arm)
        rules = request_rules(self.rules, request)
        shown = await self._shown(request, rules, model)
        question = self._question(request, model, rules, shown)
        answer = await self.batcher.answer(model, question)
        if shown and not answer.items:
            answer = await asyncio.to_thread(_why_empty, model, question, request, rules, answer)
        self._record(request, answer, arm, name)
        recommended = _recommended(answer, name, arm, self._unknown(request, model, answer))
        return _with_columns(recommended, model, request.show)

    async def batch(self, request: wire.RecommendBatch) -> wire.RecommendedBatch:
        requests = request.questions
        explained = sum(r.n for r in requests if r.explain)
        if explained > wire.MAX_N:
            raise OptionError(f"at most {wire.MAX_N:,} items can be explained, not {explained:,}")
        rules = []
        for number, one in enumerate(requests):
            with placed(f"questions[{number}]"):
                rules.append(request_rules(self.rules, one))
        chosen = [await self._model_for(r.user, r.arm) for r in requests]
        answered: dict[int, wire.Recommended] = {}
        for arm, model, name in {
            id(model): (arm, model, name) for arm, model, name in chosen
        }.values():
            rows = [row for row, served in enumerate(chosen) if served[1] is model]
            shown = await asyncio.gather(
                *(self._shown(requests[row], rules[row], model) for row in rows)
            )
            questions = [
                self._question(requests[row], model, rules[row], items)
                for row, items in zip(rows, shown)
            ]
            answers = await asyncio.to_thread(_answers, model, questions, rows)
            for row, items, question, answer in zip(rows, shown, questions, answers):
                if items and not answer.items:
                    answer = _why_empty(model, question, requests[row], rules[row], answer)
                self._record(requests[row], answer, arm, name)
                unknown = self._unknown(requests[row], model, answer)
                recommended = _recommended(answer, name, arm, unknown)
                answered[row] = _with_columns(recommended, model, requests[row].show)
        return wire.RecommendedBatch([answered[row] for row in range(len(requests))])

    async def score(self, request: wire.Score) -> wire.Scores:
        arm, model, name = await self._model_for(request.user)
        options: dict[str, Any] = {
            "candidates": request.items,
            "n": len(request.items),
            "exclude_seen": False,
        }
        answer = await self.batcher.answer(model, self._question(request, model, **options))
        number = model.id_lookup.items.number
        scores = {number(item): (item, score) for item, score in zip(answer.items, answer.scores)}
        known = [scores[index] for index in map(number, request.items) if index in scores]
        unknown = self._unknown(request, model, answer)
        if len(known) < len(request.items) and "items" not in unknown:
            unknown.append("items")  # removed ones
        return wire.Scores([wire.ScoredItem(*pair) for pair in known], name, arm, unknown)

    async def explain(self, request: wire.Explain) -> wire.Explanation:
        arm, model, name = await self._model_for(request.user)
        options: dict[str, Any] = {"candidates": [request.item], "n": 1, "exclude_seen": False}
        options["explain"] = True
        answer = await self.batcher.answer(model, self._question(request, model, **options))
        if not answer.items:
            raise absent(model, request.item)
        terms = _terms((answer.terms or [[]])[0])
        unknown = self._unknown(request, model, answer)
        return wire.Explanation(answer.items[0], answer.scores[0], terms, name, arm, unknown)

    async def similar(self, request: wire.Similar) -> wire.Neighbours:
        if (request.item is None) == (request.user is None):
            raise OptionError("give either an item or a user")
        _, model, name = self.models.of(request.user)
        if request.item is None:
            frame = await asyncio.to_thread(model.similar_users, request.user, request.n)
        else:
            frame = await asyncio.to_thread(similar_items, model, request.item, request.n)
        rows = to_polars(frame).rows()
        columns: list[dict[str, Any] | None] = [None] * len(rows)
        if request.item is not None:
            columns = catalogue_values(model, [row[0] for row in rows], request.show)
        similar = [
            wire.Neighbour(row[0], row[1], row[2], known) for row, known in zip(rows, columns)
        ]
        unknown = [] if request.item is None else unknown_columns(request.show, model)
        return wire.Neighbours(similar, name, unknown)

    async def take(self, request: wire.NewEvents) -> wire.Taken:
        store = self._store()
        events, unknown, refunds = [], [], 0
        await self.models.catch_up()  # a pushed item is known
        for number, new in enumerate(request.events):
            arm, model, name = self.models.of(new.user)
            unknown += self._unknown_in(new, number, model)
            refunds += is_refund(new, model.space)
            with placed(f"events[{number}].time"):
                time = event_time(new.time)
            events.append(
                Event(
                    new.user,
                    new.item,
                    time,
                    new.context or None,
                    arm,
                    name,
                    id=new.id,
                    event=new.event,
                    value=new.value,
                )
            )
        position = await asyncio.wrap_future(_submitted(store, events))
        await self.models.catch_up()
        if self.metrics is not None:
            self.metrics.count("events", len(events))
            self.metrics.count("refunds", refunds)
        return wire.Taken(len(events), position, unknown, refunds)

    def _unknown_in(self, event: wire.NewEvent, number: int, model: Any) -> list[str]:
        """Return and count the parts of an event that the model does not know.

        number: of the event in its request. Raise UnknownError instead if the service is strict.
        """
        parts, place = unknown_in_event(event, model), f"events[{number}]"
        if parts and self.strict:
            error = event_error(event, parts[0], model)
            with placed(f"{place}.{parts[0]}"):
                raise error
        if parts and self.metrics is not None:
            self.metrics.count("unknown_items", ITEM in parts)
            self.metrics.count("unknown_types", EVENT in parts)
            values = sum(part.startswith(IN_MAPPINGS) for part in parts)
            self.metrics.count("unknown_values", values)
        return [f"{place}.{part}" for part in parts]

    async def events(self, after: int | None, n: int) -> wire.KeptEvents:
        store = self._store()
        if after is None:
            after = max(store.position() - n, 0)
        loop = asyncio.get_running_loop()
        events = await loop.run_in_executor(self.readers, store.after, after, n)
        last = events[-1].position if events else after
        return wire.KeptEvents([_kept(event) for event in events], last)

    async def put_items(self, request: wire.ItemChanges) -> wire.ItemsTaken:
        store = self._store()
        checked = await asyncio.to_thread(self._checked_changes, request.items)
        changes, texts, new, columns = checked
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self.readers, store.put_items, changes, texts)
        await loop.run_in_executor(self.readers, self.models.follow)
        if self.metrics is not None:
            self.metrics.count("items", len(changes))
        ranked = ranks_new_items(self.models.serving()[0].model)
        return wire.ItemsTaken(len(changes), new, 0 if ranked else new, columns)

    def _checked_changes(
        self, items: Sequence[Any]
    ) -> tuple[list[ItemChange], list[str], int, list[str]]:
        """Return changes, the columns of each as JSON, and what the first model lacks.

        That is the number of items, and the columns, which may be misspelt. What does not fit all
        models is refused before it is stored.
        """
        for number, columns in enumerate(items):
            if ITEM not in columns:
                raise ProblemError(422, f"no item is named - at `$.items[{number}]`")
            try:
                check_id(ITEM, columns[ITEM])
            except DataError as error:
                raise ProblemError(422, f"{error} - at `$.items[{number}].item`") from None
        changes = [ItemChange(columns.pop(ITEM), columns) for columns in items]
        models = [served.model for served in self.models.serving()]
        changes = accepted(models, changes)
        texts, model = check_changes(changes), models[0]
        numbers = model.id_lookup.items.numbers([change.item for change in changes])
        return changes, texts, int((numbers < 0).sum()), new_columns(model, changes)

    async def cards(self) -> wire.Cards:
        rejected = self.models.rejected
        serving = self.models.serving()
        cards = [model_card(served, rejected.get(served.arm), self.images) for served in serving]
        return wire.Cards(cards, __version__, self.store is not None, list(self.rules))

    async def users(self, prefix: str, n: int) -> wire.IdList:
        return await asyncio.to_thread(
            ids_with_prefix, self.models.of(None)[1].space.users, prefix, n
        )

    async def items(self, prefix: str, n: int) -> wire.IdList:
        await self.models.catch_up()
        return await asyncio.to_thread(items_with_prefix, self.models.of(None)[1], prefix, n)

    async def _model_for(self, user: Any, arm: str | None = None) -> tuple[str, Any, str]:
        """Return (arm, model, id of the model) for a user, with new events taken in.

        arm: use this arm instead of the user's.
        """
        await self.models.catch_up()
        return self.models.of(user) if arm is None else self.models.of(user, arm)

    async def _shown(
        self, request: wire.Recommend, rules: Rules | None, model: Any
    ) -> Sequence[Any]:
        """Return the known items that the user was shown lately, if the rules exclude them.

        A store that does not answer for a moment is not waited for.
        """
        if rules is None or not rules.shown_within:
            return ()
        store, since = self._store(), max(now() - duration(rules.shown_within), 0)
        if request.user is None:
            return ()
        read = asyncio.get_running_loop().run_in_executor(
            self.readers, store.shown_since, request.user, since
        )
        try:
            items = list(await asyncio.wait_for(read, MAX_WAIT))
        except (FmpairError, TimeoutError):
            return ()
        known = model.id_lookup.items.numbers(items) >= 0
        return [item for item, is_known in zip(items, known) if is_known]

    def _question(
        self,
        request: wire.BaseRequest,
        model: Any,
        rules: Rules | None = None,
        shown: Sequence[Any] = (),
        **options: Any,
    ) -> Question:
        """Return the question of a request.

        shown: items to exclude because they were shown; options: those that its type does not have.
        """
        if rules is not None and rules.shown_within:
            rules = replace(rules, shown_within="")
        if isinstance(request, wire.Recommend):
            options = {
                "n": request.n,
                "candidates": request.candidates,
                "exclude": [*request.exclude, *shown],
                "explain": request.explain,
                "exclude_seen": request.exclude_seen,
                "rules": rules,
            }
        history = request.history
        if history is None and request.user is not None:
            history = self.models.history_of(request.user, model)
        options |= answerable(request, model, self.strict)
        return Question(user=request.user, history=history, **options)

    def _unknown(self, request: wire.BaseRequest, model: Any, answer: Answer) -> list[str]:
        """Return and count the parts of a request that the model does not know."""
        parts = unknown_parts(request, model, answer)
        if parts and self.metrics is not None:
            self.metrics.count("unknown_items", answer.passed_over)
            self.metrics.count("unknown_users", answer.stranger)
            values = sum(part.startswith(IN_MAPPINGS) for part in parts)
            self.metrics.count("unknown_values", values)
        return parts

    def _record(self, request: wire.Recommend, answer: Answer, arm: str, model: str) -> None:
        """Store the impression; a failing store does not fail the answer."""
        user, wanted = request.user, request.log
        if wanted:
            self._store()
        if request.arm is not None:  # not what this user would have been shown
            return
        if (wanted or self.recording) and self.store is not None and user is not None:
            with suppress(FmpairError):
                shown = Impression(user, tuple(answer.items), now(), arm, model)
                self.store.record([shown], at_once=wanted)

    def _store(self) -> EventStore:
        if self.store is None:
            raise ProblemError(501, "this service stores no events: start it with --events")
        return self.store


def _answers(model: Any, questions: Sequence[Question], rows: Sequence[int]) -> list[Answer]:
    """Return the answers of a model; an error names the row of its question."""
    try:
        return model.answers(questions)
    except FmpairError:
        for row, question in zip(rows, questions):
            with placed(f"questions[{row}]"):
                model.answers([question])
        raise


def _submitted(store: EventStore, events: Sequence[Event]) -> Future[int]:
    """Submit events to a store; an error names the row of the event."""
    try:
        return store.submit(events)
    except DataError:
        for row, event in enumerate(events):
            with placed(f"events[{row}]"):
                check_events([event])
        raise


def _why_empty(
    model: Any, question: Question, request: wire.Recommend, rules: Rules | None, answer: Answer
) -> Answer:
    """Return an answer without items, which says whether the items shown lately were the last."""
    without = replace(question, exclude=request.exclude, n=1, explain=False)
    if rules is None or not model.answers([without])[0].items:
        return answer
    return answer._replace(empty=f"{NONE_LEFT} exclude_shown {rules.shown_within!r}")


def _recommended(answer: Answer, model: str, arm: str, unknown: list[str]) -> wire.Recommended:
    terms = [None] * len(answer.items) if answer.terms is None else map(_terms, answer.terms)
    rows = zip(answer.items, answer.scores, terms)
    items = [wire.Ranked(item, score, rank, why) for rank, (item, score, why) in enumerate(rows, 1)]
    return wire.Recommended(items, model, arm, answer.empty, unknown)


def _with_columns(
    recommended: wire.Recommended, model: Any, names: Sequence[str]
) -> wire.Recommended:
    """Return an answer with columns of the catalogue for each item."""
    if names:
        columns_of = catalogue_values(model, [listed.item for listed in recommended.items], names)
        for listed, columns in zip(recommended.items, columns_of):
            listed.columns = columns
    return recommended


def _terms(terms: Sequence[tuple[str, str, float]]) -> list[wire.Term]:
    return [wire.Term(*term) for term in terms]


def _kept(event: Event) -> wire.KeptEvent:
    time = (EPOCH + timedelta(microseconds=event.time)).isoformat()
    context = None if event.context is None else dict(event.context)
    return wire.KeptEvent(
        event.position,
        event.user,
        event.item,
        time,
        context,
        event.arm,
        event.model,
        event.event,
        event.value,
    )
