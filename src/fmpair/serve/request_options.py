"""Requests as options of a question: their rules, and the values that a model knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fmpair.errors import DataError, FmpairError, ModelFileError, OptionError, UnknownError
from fmpair.errors import unknown as unknown_message
from fmpair.events.event import ITEM
from fmpair.events.frame import event_types_of
from fmpair.fitted.id_lookup import unknown_id
from fmpair.fitted.query_encoder import GUESSED_LIVE
from fmpair.fitted.question import Answer, knows_time
from fmpair.fitted.rules import Rules, rules_of
from fmpair.models.catalog import Model
from fmpair.serve import requests as wire
from fmpair.serve.live_models import LiveModels

NONE = (None,) * 6
LISTS = ("history", "candidates", "exclude", "items")  # options of requests that are lists of items
EVENT, CONTEXT = "event", "context."  # parts of requests; the second is before the name of a column


def request_rules(known: Mapping[str, Rules], request: wire.Recommend) -> Rules | None:
    """Return the rules of a request, None if it has none.

    known: the rules of the service by name; a request may refer to one.
    """
    given = request.where, request.limit, request.boost, request.diversity, request.exclude_shown
    if (*given, request.rules) == NONE:
        return None
    base = None
    if request.rules:
        from fmpair.config.read import named_rules  # imports all of config, in 0.5 s

        base = named_rules(known, request.rules)
    return rules_of(*given, base)


def rules_in_service(path: Path | None, models: LiveModels) -> dict[str, Rules]:
    """Return the rules of a file by name, after checking them against every model in service.

    Models that are loaded later are checked too, and refused if a rule does not fit.
    """
    if path is None:
        return {}
    from fmpair.config.read import read_rules

    rules = read_rules(path)

    def check(model: Model) -> None:
        for checked in rules.values():
            try:
                checked.check(model.catalogue)
            except OptionError as error:
                raise ModelFileError(f"it does not fit the rules: {error}") from None

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
    shown = getattr(request, "exclude_shown", None)
    if isinstance(shown, list) and shown and (lookup.items.numbers(shown) < 0).any():
        parts.append("exclude_shown")
    parts += _unknown_context(request.context, model)
    if request.time is not None and not knows_time(model.space):
        parts.append("time")
    parts += unknown_columns(getattr(request, "show", ()), model)
    parts += [f"boost.{value}" for value in answer.idle]
    return parts


def unknown_columns(show: Sequence[str], model: Any) -> list[str]:
    """Return the columns to show that no item of a model has."""
    columns = () if model.catalogue is None else model.catalogue.columns
    return [f"show.{name}" for name in show if name not in columns]


def _unknown_context(context: Mapping[str, Any], model: Any) -> list[str]:
    """Return the parts of a context whose column or value a model does not know."""
    lookup, parts = model.id_lookup, []
    for name, value in context.items():
        if name not in lookup.context or lookup.features(name, value).unseen:
            parts.append(f"{CONTEXT}{name}")
    return parts


@contextmanager
def placed(place: str) -> Iterator[None]:
    """Add to an error where in the body of the request its cause is."""
    try:
        yield
    except FmpairError as error:
        raise type(error)(f"{error.args[0]} - at `$.{place}`") from None


# Events: their users are not looked up, since events are how a user becomes known.


def unknown_in_event(event: wire.NewEvent, model: Any) -> list[str]:
    """Return the parts of an event that a model does not know: item, event, context.NAME.

    A pushed item is known. Event types are known to models with event weights or levels only.
    """
    parts = []
    catalogue = model.catalogue
    if model.id_lookup.items.number(event.item) < 0 and (
        catalogue is None or catalogue.items.number(event.item) < 0
    ):
        parts.append(ITEM)
    types = event_types_of(model.space, model.recipe)
    if event.event is not None and types is not None and event.event not in types.names:
        parts.append(EVENT)
    try:
        return parts + _unknown_context(event.context or {}, model)
    except DataError:  # a value of a type that the column cannot have
        return [*parts, *(f"{CONTEXT}{name}" for name in event.context or ())]


def event_error(event: wire.NewEvent, part: str, model: Any) -> UnknownError:
    """Return the error for an unknown part of an event."""
    if part == ITEM:
        return unknown_id(ITEM, event.item, model.space.items.ids, GUESSED_LIVE)
    if part == EVENT:
        types = event_types_of(model.space, model.recipe)
        return UnknownError(
            unknown_message("event type", event.event, types.names if types else ())
        )
    name, columns = part.removeprefix(CONTEXT), model.id_lookup.context
    if name not in columns:
        return UnknownError(unknown_message("context", name, columns))
    return UnknownError(f"unknown value {(event.context or {})[name]!r} of context {name!r}")
