"""Answers of models that score by any means: through frames, as `recommend` gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from fmpair.errors import DataError, OptionError
from fmpair.fitted.answer import Answer, Question
from fmpair.fitted.known import Ids
from fmpair.fitted.lookup import number_of
from fmpair.fitted.query import name_of

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
