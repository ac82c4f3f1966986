"""What the service does for each request, and the question that it asks a model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fmpair import __version__
from fmpair.data.frame import to_polars
from fmpair.errors import DataError, FmpairError, ModelFileError, OptionError
from fmpair.events.event import (
    ITEM,
    Event,
    Impression,
    ItemChange,
    check_changes,
    check_id,
    event_time,
    now,
)
from fmpair.events.store import EventStore
from fmpair.features.field import duration
from fmpair.fitted.question import Answer, Question, knows_time
from fmpair.fitted.rules import NONE_LEFT, Rules, rules_of
from fmpair.models.catalog import Model
from fmpair.serve import requests as wire
from fmpair.serve.live_catalogue import (
    accepted,
    catalogue_values,
    ids_with_prefix,
    items_with_prefix,
    new_columns,
    ranks_new_items,
    similar_items,
)
from fmpair.serve.live_models import ANYWAY, MAX_WAIT, LiveModels
from fmpair.serve.metrics import Metrics
from fmpair.serve.model_card import model_card
from fmpair.serve.request_batcher import RequestBatcher
from fmpair.serve.requests import ProblemError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NONE = (None,) * 5
LISTS = ("history", "candidates", "exclude", "items")  # options of requests that are lists of items


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
        shown = await self._shown(request, model)
        question = self._question(request, model, shown)
        answer = await self.batcher.answer(model, question)
        if shown and not answer.items:
            answer = await asyncio.to_thread(_why_empty, model, question, request, answer)
        self._record(request, answer, arm, name)
        recommended = _recommended(answer, name, arm, self._unknown(request, model, answer))
        return _with_columns(recommended, model, request.show)

    async def batch(self, request: wire.RecommendBatch) -> wire.RecommendedBatch:
        requests = request.questions
        explained = sum(r.n for r in requests if r.explain)
        if explained > wire.MAX_N:
            raise OptionError(f"at most {wire.MAX_N:,} items can be explained, not {explained:,}")
        chosen = [await self._model_for(r.user, r.arm) for r in requests]
        answered: dict[int, wire.Recommended] = {}
        for arm, model, name in {
            id(model): (arm, model, name) for arm, model, name in chosen
        }.values():
            rows = [row for row, served in enumerate(chosen) if served[1] is model]
            shown = await asyncio.gather(*(self._shown(requests[row], model) for row in rows))
            questions = [
                self._question(requests[row], model, items) for row, items in zip(rows, shown)
            ]
            answers = await asyncio.to_thread(model.answers, questions)
            for row, items, question, answer in zip(rows, shown, questions, answers):
                if items and not answer.items:
                    answer = _why_empty(model, question, requests[row], answer)
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
        return wire.Scores([wire.ScoredItem(*pair) for pair in known], name, arm, unknown)

    async def explain(self, request: wire.Explain) -> wire.Explanation:
        arm, model, name = await self._model_for(request.user)
        options: dict[str, Any] = {"candidates": [request.item], "n": 1, "exclude_seen": False}
        options["explain"] = True
        answer = await self.batcher.answer(model, self._question(request, model, **options))
        if not answer.items:
            raise ProblemError(404, f"unknown item {request.item!r}")
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
        return wire.Neighbours(similar, name)

    async def take(self, request: wire.NewEvents) -> wire.Taken:
        store = self._store()
        events = []
        for new in request.events:
            arm, _, name = self.models.of(new.user)
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
        position = await asyncio.wrap_future(store.submit(events))
        await self.models.catch_up()
        if self.metrics is not None:
            self.metrics.count("events", len(events))
        return wire.Taken(len(events), position)

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
        return wire.Cards(cards, __version__, self.store is not None)

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

    async def _shown(self, request: wire.Recommend, model: Any) -> Sequence[Any]:
        """Return the known items that the user was shown lately, if the request excludes them.

        A store that does not answer for a moment is not waited for.
        """
        if not isinstance(request.exclude_shown, str):
            return ()
        store, since = (
            self._store(),
            max(now() - duration(request.exclude_shown, "exclude_shown"), 0),
        )
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
        shown: Sequence[Any] = (),
        **options: Any,
    ) -> Question:
        """Return the question of a request.

        shown: items to exclude because they were shown; options: those that its type does not have.
        """
        if isinstance(request, wire.Recommend):
            options = {
                "n": request.n,
                "candidates": request.candidates,
                "exclude": [*request.exclude, *shown],
                "explain": request.explain,
                "exclude_seen": request.exclude_seen,
                "rules": request_rules(self.rules, request),
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
            values = sum(part.startswith("context.") for part in parts)
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


def _why_empty(model: Any, question: Question, request: wire.Recommend, answer: Answer) -> Answer:
    """Return an answer without items, which says whether the items shown lately were the last."""
    without = replace(question, exclude=request.exclude, n=1, explain=False)
    if not model.answers([without])[0].items:
        return answer
    return answer._replace(empty=f"{NONE_LEFT} exclude_shown {request.exclude_shown!r}")


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


# Requests as options of a question: their rules, and the values that a model knows.


def request_rules(known: Mapping[str, Rules], request: wire.Recommend) -> Rules | None:
    """Return the rules of a request, None if it has none.

    known: the rules of the service by name; a request may refer to one. If `exclude_shown` is a
    time, the event store applies it, not the rules.
    """
    given = (request.where, request.limit, request.boost, request.diversity, request.rules)
    if request.exclude_shown is None and given == NONE:
        return None
    base = None
    if request.rules:
        from fmpair.config.read import named_rules  # imports all of config, in 0.5 s

        base = named_rules(known, request.rules)
    items = None if isinstance(request.exclude_shown, str) else request.exclude_shown
    return rules_of(request.where, request.limit, request.boost, request.diversity, items, base)


def rules_in_service(path: Path | None, models: LiveModels) -> dict[str, Rules]:
    """Return the rules of a file by name, after checking them against every model in service.

    Models that are loaded later are checked too, and refused if a rule does not fit.
    """
    if path is None:
        return {}
    from fmpair.config.read import read_rules

    rules = read_rules(path)

    def check(model: Model) -> None:
        for name, checked in rules.items():
            try:
                checked.check(model.catalogue)
            except OptionError as error:
                raise ModelFileError(f"rules {name!r} do not fit it: {error}; {ANYWAY}") from None

    for served in models.serving():
        for checked in rules.values():
            checked.check(served.model.catalogue)
    models.check_new = check
    return rules


def answerable(request: wire.BaseRequest, model: Any, strict: bool) -> dict[str, Any]:
    """Return the context, time and `unknown` options of a question that the model can answer.

    By default, context columns that the model does not know are left out, and so is the time if the
    model does not use it. Unknown ids and values are skipped. If the request sets `unknown`, all
    parts are kept, and the library treats unknown ids and values as that option says. With strict,
    requests that do not set it have unknown="error".
    """
    context, time, unknown = request.context, request.time, request.unknown
    if unknown is None and strict:
        unknown = "error"
    if unknown is None:
        columns = model.id_lookup.context
        if any(name not in columns for name in context):
            context = {name: value for name, value in context.items() if name in columns}
        if time is not None and not knows_time(model.space):
            time = None
    return {"context": context, "time": time, "unknown": unknown or "features"}


def unknown_parts(request: wire.BaseRequest, model: Any, answer: Answer) -> list[str]:
    """Return the parts of an answered request with ids, values or columns that are not known."""
    lookup = model.id_lookup
    parts = ["user"] if answer.stranger else []
    if answer.passed_over:
        given = ((name, getattr(request, name, None)) for name in LISTS)
        parts += [name for name, ids in given if ids and (lookup.items.numbers(ids) < 0).any()]
    for name, value in request.context.items():
        if name not in lookup.context or lookup.features(name, value).unseen:
            parts.append(f"context.{name}")
    if request.time is not None and not knows_time(model.space):
        parts.append("time")
    for name in getattr(request, "show", ()):
        if model.catalogue is None or name not in model.catalogue.columns:
            parts.append(f"show.{name}")
    parts += [f"boost.{value}" for value in answer.idle]
    return parts
