"""Requests as options of a question: their rules, and the values that a model knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fmpair.errors import DataError, FmpairError, ModelFileError, OptionError, UnknownError
from fmpair.errors import unknown as unknown_message
from fmpair.events.event import ITEM
from fmpair.events.frame import event_types_of, is_refund
from fmpair.fitted.id_lookup import CONTEXT, USER, IdLookup, unknown_id
from fmpair.fitted.query_encoder import GUESSED_LIVE
from fmpair.fitted.question import Answer, knows_time
from fmpair.fitted.rules import Rules, rules_of
from fmpair.models.catalog import Model
from fmpair.serve import requests as wire
from fmpair.serve.live_models import LiveModels

NONE = (None,) * 6
LISTS = ("history", "candidates", "exclude", "items")  # options of requests that are lists of items
EVENT = "event"  # a part of events
IN_CONTEXT, IN_FEATURES = "context.", "user_features."  # before the name of a column
IN_MAPPINGS = (IN_CONTEXT, IN_FEATURES)


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
    """Return the values, time and `unknown` options of a question that the model can answer.

    By default, context columns and user attributes that the model does not know are left out, and
    so is the time if the model does not use it. Unknown ids and values are skipped. If the request
    sets `unknown`, all parts are kept, and the library treats unknown ids and values as that option
    says. With strict, requests that do not set it have unknown="error".
    """
    context, features = request.context, request.user_features
    time, unknown = request.time, request.unknown
    if unknown is None and strict:
        unknown = "error"
    if unknown is None:
        context = _of_known(context, model.id_lookup.context)
        if features:
            features = _of_known(features, model.encoder.user_features)
        if time is not None and not knows_time(model.space):
            time = None
    return {
        "context": context,
        "user_features": features,
        "time": time,
        "unknown": unknown or "features",
    }


def _of_known(given: dict[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """Return the values of known columns."""
    if all(name in columns for name in given):
        return given
    return {name: value for name, value in given.items() if name in columns}


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
    if request.user_features:
        names = model.encoder.user_features
        parts += _unknown_values(IN_FEATURES, USER, request.user_features, names, lookup)
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
    lookup = model.id_lookup
    return _unknown_values(IN_CONTEXT, CONTEXT, context, lookup.context, lookup)


def _unknown_values(
    prefix: str, role: str, given: Mapping[str, Any], columns: Sequence[str], lookup: IdLookup
) -> list[str]:
    """Return the names, after a prefix, of given columns that are unknown or have unseen values."""
    return [
        f"{prefix}{name}"
        for name, value in given.items()
        if name not in columns or lookup.features(name, value, role).unseen
    ]


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

    A pushed item is known. Event types are known to models with event weights or levels only; a
    refund needs none, since it is left out.
    """
    parts = []
    catalogue = model.catalogue
    if model.id_lookup.items.number(event.item) < 0 and (
        catalogue is None or catalogue.items.number(event.item) < 0
    ):
        parts.append(ITEM)
    types = event_types_of(model.space, model.recipe)
    if (
        event.event is not None
        and types is not None
        and event.event not in types.names
        and not is_refund(event, model.space)
    ):
        parts.append(EVENT)
    try:
        return parts + _unknown_context(event.context or {}, model)
    except DataError:  # a value of a type that the column cannot have
        return [*parts, *(f"{IN_CONTEXT}{name}" for name in event.context or ())]


def event_error(event: wire.NewEvent, part: str, model: Any) -> UnknownError:
    """Return the error for an unknown part of an event."""
    if part == ITEM:
        return unknown_id(ITEM, event.item, model.space.items.ids, GUESSED_LIVE)
    if part == EVENT:
        types = event_types_of(model.space, model.recipe)
        return UnknownError(
            unknown_message("event type", event.event, types.names if types else ())
        )
    name, columns = part.removeprefix(IN_CONTEXT), model.id_lookup.context
    if name not in columns:
        return UnknownError(unknown_message("context", name, columns))
    return UnknownError(f"unknown value {(event.context or {})[name]!r} of context {name!r}")
