"""What of a request a model does not know, and how the rest is answered."""

from __future__ import annotations

from typing import Any

from fmpair.fitted.question import Answer, knows_time
from fmpair.serve.requests import BaseRequest

LISTS = ("history", "candidates", "exclude", "items")  # of items, in requests


def answerable(request: BaseRequest, model: Any, strict: bool) -> dict[str, Any]:
    """Return the options of a question that the model can answer.

    By default unknown columns and a time that the model does not use are left out, and of unknown
    ids and values what is known is used. strict, or the request's own `unknown`: as in the library.
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


def unknown_parts(request: BaseRequest, model: Any, answer: Answer) -> list[str]:
    """Return the parts of an answered request with ids or values that the model does not know."""
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
    return parts
