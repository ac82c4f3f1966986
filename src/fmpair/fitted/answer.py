"""Answers to single questions over arrays, without frames: what a service says thousands of times.

A question is understood by looking up what it names; then it is a query like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl

from fmpair.arrays import Rows, starts
from fmpair.checks import one_of, whole
from fmpair.data.times import EXAMPLE
from fmpair.errors import DataError, OptionError, UnknownError, named, notice
from fmpair.errors import unknown as unknown_message
from fmpair.features.calendar import DAY, TIME, datetimes
from fmpair.features.encoder import sum_to_one
from fmpair.fitted.explanation import Explained, Term, terms_of
from fmpair.fitted.id_lookup import Ids, Known, number_of, unknown_id
from fmpair.fitted.notebook import answer_html
from fmpair.fitted.question import REFUSING, UNKNOWN, Queries, check_time, name_of, refuse_unseen
from fmpair.fitted.ranked_lists import Folded
from fmpair.threads import check_process

# Answers of models that score by any means: through frames, as `recommend` gives them.


NOBODY = "_"  # a column that says nothing: who asks is nobody in particular


def answers_by_frame(model: Any, questions: Sequence[Question]) -> list[Answer]:
    """The answer to each question, by `recommend` and `explain` of a `Ranker`."""
    plain = model if model.frame_kind == "polars" else model.replaced(frame_kind="polars")
    return [_answer(plain, question) for question in questions]


def _answer(model: Any, question: Question) -> Answer:
    items, strict = model.known.items, question.unknown == "error"
    named = {
        option: _known(items, getattr(question, option), strict)
        for option in ("history", "candidates", "exclude")
    }
    given = sum(len(getattr(question, option) or ()) for option in named)
    passed = given - sum(len(own or ()) for own in named.values())
    if not named["exclude"]:
        named["exclude"] = None
    try:
        frame = model.recommend(
            pl.DataFrame({NOBODY: [0]}) if question.user is None else question.user,
            question.n,
            context=question.context,
            time=question.time,
            unknown=question.unknown,
            exclude_seen=question.exclude_seen,
            **named,
        )
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        raise DataError(f"the context cannot be {question.context!r}") from None
    found = frame[name_of(model.space, "item")].to_list()
    terms = [_terms(model, question, item) for item in found] if question.explain else None
    stranger = question.user is not None and model.known.users.number(question.user) < 0
    return Answer(found, frame["score"].to_list(), terms, passed, stranger)


def _terms(model: Any, question: Question, item: Any) -> list[tuple[str, str, float]]:
    if question.user is None or question.history is not None:
        name = type(model.recipe).__name__
        raise OptionError(f"{name} explains scores of the users it knows, and no others")
    return model.explain(question.user, item, question.context, question.time).rows()


def _known(items: Ids, given: Sequence[Any] | None, strict: bool) -> list[Any] | None:
    """The ids that are known; strict: an unknown one is refused."""
    if given is None:
        return None
    if strict:
        for item in given:
            number_of("item", item, items.known)
        return list(given)
    return [item for item in given if items.number(item) >= 0]


MOST_GUESSED = 1_000  # ids among which a similar one is looked for: somebody waits for the answer
NO_COLUMNS = pl.DataFrame()
NO_ITEMS, NO_VALUES = np.zeros(0, np.int32), np.zeros(0, np.float32)
SECOND = 1_000_000  # microseconds


class Answer(NamedTuple):
    """The best items, best first, and their scores.

    terms: of each item the terms that add up to its score, largest first, where they were asked
    for. passed_over: how many items of the question are unknown; stranger: whether its user is.
    """

    items: list[Any]
    scores: list[float]
    terms: list[list[Term]] | None = None
    passed_over: int = 0
    stranger: bool = False

    def _repr_html_(self) -> str:
        return answer_html(self)


@dataclass(frozen=True, slots=True)
class Question:
    """Who asks, in which situation, and for what: the options of `Recommender.answer`."""

    user: Any = None
    n: int = 10
    context: Mapping[str, Any] | None = None
    history: Sequence[Any] | None = None
    candidates: Sequence[Any] | None = None
    exclude: Sequence[Any] = ()
    explain: bool = False
    unknown: str = "error"
    time: Any = None
    exclude_seen: bool = True

    def __post_init__(self) -> None:
        whole("n", self.n, 1)
        one_of("unknown", self.unknown, UNKNOWN)
        if self.context is not None and not isinstance(self.context, Mapping):
            raise OptionError(
                f"context must be a mapping such as {{'daytime': 'evening'}}, not {self.context!r}"
            )
        for option in ("history", "candidates", "exclude"):
            given = getattr(self, option)
            if given is not None and (isinstance(given, str) or not hasattr(given, "__len__")):
                raise OptionError(f"{named(option)} must be a list of items, not {given!r}")


class Answering(Folded, Explained, Protocol):
    """A model that answers over arrays: see `Recommender`."""

    @property
    def item_matrix(self) -> np.ndarray: ...
    @property
    def known(self) -> Known: ...

    def before_one(
        self, user: int, told: np.ndarray | None, now: int | None
    ) -> tuple[np.ndarray, np.ndarray] | None: ...


class _Understood(NamedTuple):
    """A question by numbers. column, value: all features of the query; history: None where none is
    given; chosen: the candidates, ascending, None for all items; hidden: what leaves the list.
    """

    user: int
    column: np.ndarray
    value: np.ndarray
    history: np.ndarray | None
    chosen: np.ndarray | None
    hidden: np.ndarray
    passed_over: int


def answers(model: Answering, questions: Sequence[Question]) -> list[Answer]:
    """The answer to each question; those of all items are ranked together."""
    check_process()
    asked = [_understood(model, question) for question in questions]
    if len(asked) == 1:
        return _answered(model, questions, asked)
    groups: dict[int, list[int]] = {}
    for place, one in enumerate(asked):
        groups.setdefault(-1 if one.chosen is None else place, []).append(place)
    found: dict[int, Answer] = {}
    for places in groups.values():
        own = [questions[place] for place in places]
        found |= zip(places, _answered(model, own, [asked[place] for place in places]))
    return [found[place] for place in range(len(asked))]


def told(answer: Answer) -> Answer:
    """The answer; a notice says what was passed over."""
    if answer.passed_over:
        notice(
            f"{answer.passed_over:,} items of the question are unknown and passed over; "
            f"{named('unknown', 'error')} refuses them"
        )
    return answer


def _answered(
    model: Answering, questions: Sequence[Question], asked: Sequence[_Understood]
) -> list[Answer]:
    """Of questions about all items, or of one alone."""
    from fmpair.ranking.top import LEAST_ROWS, top

    queries, items, chosen = _queries(asked), model.item_matrix, asked[0].chosen
    if chosen is not None:
        items = np.take(items, chosen, axis=1)
    most = max(question.n for question in questions)
    hidden = _rows([one.hidden for one in asked], [])
    threads = 1 if len(asked) <= LEAST_ROWS else None  # one product, for which the BLAS has its own
    best, score, filled = top(model.vectors(queries), items, hidden, most, threads)
    out = []
    for place, (question, one) in enumerate(zip(questions, asked)):
        count = min(int(filled[place]), question.n)
        numbers = best[place, :count]
        numbers = numbers if chosen is None else chosen[numbers]
        terms = None
        if question.explain:
            terms = terms_of(model, queries, place, numbers.tolist())
        ids, scores = model.known.items.take(numbers), score[place, :count].tolist()
        stranger = one.user < 0 and question.user is not None
        out.append(Answer(ids, scores, terms, one.passed_over, stranger))
    return out


def _queries(asked: Sequence[_Understood]) -> Queries:
    """The same queries that a frame of these questions would give."""
    user = np.array([one.user for one in asked], np.int32)
    rows = _rows([one.column for one in asked], [one.value for one in asked])
    history = None
    if any(one.history is not None for one in asked):
        history = _rows([NO_ITEMS if one.history is None else one.history for one in asked])
    bare = np.zeros(len(asked), bool)  # those that are have no features
    return Queries(user, rows, NO_COLUMNS, NO_COLUMNS, bare, history)


def _understood(model: Answering, question: Question) -> _Understood:
    known, strict = model.known, question.unknown == "error"
    user = -1 if question.user is None else known.users.number(question.user)
    nobody = user < 0 and question.history is None
    if nobody and question.user is not None and question.unknown in REFUSING:
        raise unknown_id("user", question.user, known.space.users.ids, MOST_GUESSED)
    history, passed = _items(known, question.history, strict)
    chosen, more = _items(known, question.candidates, strict)
    out, others = _items(known, question.exclude, strict)
    told = None if question.history is None else history
    features = _features(model, question, user, told)
    if nobody and question.unknown == "popular":
        features = NO_ITEMS, NO_VALUES
    return _Understood(
        user,
        *features,
        told,
        None if question.candidates is None else np.unique(chosen),
        _hidden(model, question, user, history, out, chosen),
        passed + more + others,
    )


def _items(known: Known, given: Sequence[Any] | None, strict: bool) -> tuple[np.ndarray, int]:
    """(numbers of items that are known, how many are not); strict: an unknown one is refused."""
    if not given:
        return NO_ITEMS, 0
    numbers = known.items.numbers(given)
    missing = numbers < 0
    if not missing.any():
        return numbers, 0
    if strict:
        first = given[int(np.argmax(missing))]
        raise unknown_id("item", first, known.space.items.ids, MOST_GUESSED)
    return numbers[~missing], int(missing.sum())


def _hidden(
    model: Answering,
    question: Question,
    user: int,
    history: np.ndarray,
    out: np.ndarray,
    chosen: np.ndarray,
) -> np.ndarray:
    """int32: what leaves the list, as places among the candidates where there are some."""
    parts = [out]
    if question.exclude_seen:
        parts.append(history)
        if user >= 0:
            parts.append(model.seen.row(user))
    hidden = np.concatenate(parts)
    if question.candidates is None:
        return hidden
    return np.flatnonzero(np.isin(np.unique(chosen), hidden)).astype(np.int32)


def _moment(model: Answering, question: Question) -> int | None:
    """When it is asked, microseconds since 1970, None where that plays no part.

    This moment is taken to the second, so that what follows from it is worked out once a second.
    """
    check_time(model.space, question.time)
    given = _time_given(question)
    if given is not None:
        try:
            times = datetimes(pl.Series(TIME, [given]))
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
            raise DataError(f"{given!r} is no time: give text such as {EXAMPLE}") from None
        return None if times.null_count() else int(times.to_physical()[0])
    if TIME in model.known.context and TIME not in (question.context or ()):
        return int(datetime.now(UTC).timestamp()) * SECOND
    return None


def _time_given(question: Question) -> Any:
    return question.time if question.time is not None else (question.context or {}).get(TIME)


def _features(
    model: Answering, question: Question, user: int, told: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """(feature, value) of the user's attributes, of the context, and of what came before."""
    now = _moment(model, question)
    columns, values = [NO_ITEMS], [NO_VALUES]
    for name, value in _situation(model, question, user, now):
        found = model.known.features(name, value)
        if found.unseen and question.unknown in REFUSING:
            frame = pl.DataFrame({name: [value]}, strict=False)
            refuse_unseen(model.space, "context", frame, found.unseen, MOST_GUESSED)
        columns.append(found.column)
        values.append(found.value)
    if model.space.whole:
        both = _rows([np.concatenate(columns)], [np.concatenate(values)])
        columns, values = [both.column], [sum_to_one(both).value]
    profiles, before = model.user_rows, model.before_one(user, told, now)
    if user >= 0 and len(profiles.column):
        own = slice(profiles.start[user], profiles.start[user + 1])
        columns.insert(0, profiles.column[own])
        values.insert(0, profiles.value[own])
    if before is not None:
        columns.append(before[0])
        values.append(before[1])
    return np.concatenate(columns), np.concatenate(values)


def _situation(
    model: Answering, question: Question, user: int, now: int | None
) -> Iterator[tuple[str, Any]]:
    """The columns of the context that are known, with their values."""
    known, given = model.known.context, question.context or {}
    for name in given:
        if name not in known:
            raise UnknownError(unknown_message("context", name, known))
    for name in known:
        if name == TIME and name not in given and now is not None:
            if question.time is not None:
                yield name, question.time
            else:
                yield name, datetime.fromtimestamp(now // SECOND, UTC).replace(tzinfo=None)
        elif name in given:
            yield name, given[name]
    if model.space.since and model.recent is not None and now is not None and user >= 0:
        own = model.recent.line(user)[1]
        past = own[own < now]
        if len(past):
            yield f"{TIME}.since", float((now - past.max()) / DAY)


def _rows(columns: Sequence[np.ndarray], values: Sequence[np.ndarray] | None = None) -> Rows:
    """One row of each array; value 1 if not given, and none at all where there are no arrays."""
    if len(columns) == 1:
        column = columns[0]
        start = np.array([0, len(column)])
    else:
        column, start = np.concatenate(columns), starts(np.array([len(one) for one in columns]))
    if values is None:
        return Rows(start, column, np.ones(len(column), np.float32))
    return Rows(start, column, np.concatenate(values) if values else NO_VALUES)
