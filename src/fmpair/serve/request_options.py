"""Turn a request into the options of a question: its rules, and the values that a model knows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fmpair.errors import ModelFileError, OptionError
from fmpair.fitted.question import Answer, knows_time
from fmpair.fitted.rules import Rules, rules_of
from fmpair.models.catalog import Model
from fmpair.serve.live_models import ANYWAY, LiveModels
from fmpair.serve.requests import BaseRequest, Recommend

NONE = (None,) * 5
LISTS = ("history", "candidates", "exclude", "items")  # options of requests that are lists of items


def request_rules(known: Mapping[str, Rules], request: Recommend) -> Rules | None:
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


def answerable(request: BaseRequest, model: Any, strict: bool) -> dict[str, Any]:
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


def unknown_parts(request: BaseRequest, model: Any, answer: Answer) -> list[str]:
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
