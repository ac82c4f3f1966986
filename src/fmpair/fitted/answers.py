"""Answers to single requests: questions as arrays, ranked together where they can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, overload

import numpy as np

from fmpair.arrays import Rows
from fmpair.features import FeatureSpace
from fmpair.fitted.catalogue import Catalogue
from fmpair.fitted.history import LiveState
from fmpair.fitted.id_lookup import IdLookup
from fmpair.fitted.query_encoder import NO_ITEMS, QueryEncoder, known_items
from fmpair.fitted.question import (
    Answer,
    Queries,
    Question,
    Request,
    Term,
    stacked_places,
    stacked_queries,
)
from fmpair.fitted.rules import ALL_HIDDEN, NO_CANDIDATES, NONE_LEFT, BoundRules, Rules
from fmpair.fitted.top_items import Best, Ruled, ScoresItems, ruled
from fmpair.threads import check_process


class Answering(ScoresItems, Protocol):
    """The methods of a model that an answer needs, as `FittedModel` documents them."""

    @property
    def catalogue(self) -> Catalogue | None: ...
    @property
    def encoder(self) -> QueryEncoder: ...
    @property
    def id_lookup(self) -> IdLookup: ...
    @property
    def live(self) -> LiveState | None: ...
    @property
    def ranks_apart(self) -> bool: ...
    @property
    def seen(self) -> Rows: ...
    @property
    def space(self) -> FeatureSpace: ...

    def best(
        self,
        queries: Queries,
        chosen: np.ndarray | None,
        hidden: Rows,
        n: int,
        interactive: bool = False,
        apart: bool = False,
    ) -> Best: ...

    def terms(self, queries: Queries, row: int, items: Sequence[int]) -> list[list[Term]]: ...


def answers(model: Answering, questions: Sequence[Question], apart: bool = False) -> list[Answer]:
    """Answer questions; those about all items and without rules are ranked in one batch.

    apart: give every question the scores that it has alone. In either case all questions are
    encoded first and all answers are made last, so that the processor reads the item vectors and
    the code of the interpreter into its cache once, not for each question.
    """
    check_process()
    requests = [_request(model, question) for question in questions]
    if len(requests) == 1:
        return _answered(model, questions, requests)
    groups: dict[int, list[int]] = {}
    for number, (question, request) in enumerate(zip(questions, requests)):
        separate = request.chosen is not None or request.query.situation.width or question.rules
        if apart and not separate:  # the vectors of visitors are products of their histories
            separate = not model.ranks_apart or request.query.history is not None
        groups.setdefault(number if separate else -1, []).append(number)
    by_number: dict[int, Answer] = {}
    for numbers in groups.values():
        answered = _answered(
            model,
            [questions[number] for number in numbers],
            [requests[number] for number in numbers],
            apart,
        )
        by_number |= zip(numbers, answered)
    return [by_number[number] for number in range(len(requests))]


@overload
def bound(model: Answering, rules: Rules) -> BoundRules: ...
@overload
def bound(model: Answering, rules: Rules | None) -> BoundRules | None: ...
def bound(model: Answering, rules: Rules | None) -> BoundRules | None:
    """Return rules as arrays over a model's items; unknown items in `shown` are ignored."""
    if rules is None:
        return None
    shown = known_items(model.id_lookup.items, rules.shown, strict=False)[0]
    return BoundRules.of(rules, model.catalogue, len(model.space.items), shown)


def _request(model: Answering, question: Question) -> Request:
    query, missing = model.encoder.of_request(question)
    items, strict = model.id_lookup.items, question.unknown == "error"
    chosen, more = known_items(items, question.candidates, strict)
    excluded, others = known_items(items, question.exclude, strict)
    parts = [excluded] if model.live is None else [excluded, model.live.removed]
    if question.exclude_seen:
        if query.history is not None:
            parts.append(query.history.column)
        user = int(query.user[0])
        if user >= 0:
            live = model.live
            parts.append(model.seen.row(user) if live is None else live.seen_row(model.seen, user))
    parts = [part for part in parts if len(part)]
    hidden = parts[0] if len(parts) == 1 else np.concatenate([NO_ITEMS, *parts])
    ignored = missing + more + others
    if question.candidates is None:
        return Request(query, None, hidden, ignored)
    chosen = np.unique(chosen)
    if question.rules:
        return Request(query, chosen, hidden, ignored)
    positions = np.flatnonzero(np.isin(chosen, hidden)).astype(np.int32)
    return Request(query, chosen, positions, ignored)


def _answered(
    model: Answering,
    questions: Sequence[Question],
    requests: Sequence[Request],
    apart: bool = False,
) -> list[Answer]:
    """Answer questions about all items without rules, or one question."""
    rules = questions[0].rules
    if rules:
        return [_ruled_answer(model, questions[0], requests[0], rules)]
    queries = stacked_queries([request.query for request in requests])
    hidden = stacked_places([request.hidden for request in requests])
    chosen, most = requests[0].chosen, max(question.n for question in questions)
    best, score, filled = model.best(queries, chosen, hidden, most, interactive=True, apart=apart)
    results, lists = [], zip(best.tolist(), score.tolist(), filled.tolist())
    for row, (places, scores, count) in enumerate(lists):
        question, count = questions[row], min(count, questions[row].n)
        numbers = places[:count] if chosen is None else chosen[places[:count]].tolist()
        terms = model.terms(queries, row, numbers) if question.explain else None
        answer = _answer(model, question, requests[row], numbers, scores[:count], terms)
        results.append(answer if count else answer._replace(empty=_why_empty(chosen)))
    return results


def _why_empty(chosen: np.ndarray | None) -> str:
    """Return why no item is left without rules; chosen: the candidates, None for all."""
    if chosen is None:
        return f"all items are {ALL_HIDDEN}"
    return f"{NONE_LEFT} candidates: all are {ALL_HIDDEN}" if len(chosen) else NO_CANDIDATES


def _ruled_answer(model: Answering, question: Question, request: Request, rules: Rules) -> Answer:
    ruling = bound(model, rules)
    hidden, query = stacked_places([request.hidden]), request.query
    under_rules = Ruled(query, request.chosen, hidden, ruling)
    best, score, filled = ruled(model, under_rules, question.n, 1)
    count = int(filled[0])
    numbers, terms = best[0, :count].tolist(), None
    if question.explain:
        terms = model.terms(query, 0, numbers)
        terms = [with_boosts(model, rules, *pair) for pair in zip(numbers, terms)]
    answer = _answer(model, question, request, numbers, score[0, :count].tolist(), terms)
    empty = "" if count else ruling.why_empty(request.chosen)
    return answer._replace(empty=empty, idle=ruling.idle)


def with_boosts(model: Answering, rules: Rules | None, item: int, terms: list[Term]) -> list[Term]:
    """Return the terms of an item's score with those of boosts, largest first."""
    if not rules:
        return terms
    rules.check(model.catalogue)
    added = [*terms, *rules.boost_terms(model.catalogue, item)]
    return sorted(added, key=lambda term: -abs(term[2]))


def _answer(
    model: Answering,
    question: Question,
    request: Request,
    numbers: list[int],
    scores: list[float],
    terms: Any,
) -> Answer:
    described = question.user is None or bool(question.user_features)
    stranger = not described and bool(request.query.user[0] < 0)
    ids = model.id_lookup.items.take(numbers)
    return Answer(ids, scores, terms, request.passed_over, stranger)
