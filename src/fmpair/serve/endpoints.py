"""The service described for programs: OpenAPI 3.1, made of the endpoints and their types."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fmpair import __version__
from fmpair.serve import requests as wire
from fmpair.serve.requests import MEDIA, TITLES, Problem
from fmpair.serve.service import Service

# The addresses of the service: what each takes, gives, and does, in one table.


@dataclass(frozen=True)
class Parameter:
    """A part of the query string. kind: int or str."""

    name: str
    kind: type
    default: Any
    description: str
    least: int = 0
    most: int = 2**53


@dataclass(frozen=True)
class Endpoint:
    """takes: the type of the body, None for what is only read; gives: that of the answer."""

    method: str
    path: str
    summary: str
    gives: type
    answer: Callable[..., Awaitable[Any]]
    takes: type | None = None
    parameters: tuple[Parameter, ...] = ()
    example: Any = field(default=None, compare=False)


PREFIX = Parameter("prefix", str, "", "What the ids begin with, in upper or lower case.", most=1024)
FEW = Parameter("n", int, 20, "How many at most.", 1, 1_000)

ENDPOINTS = (
    Endpoint(
        "POST", "/v1/recommend", "The best items for a user or a visitor",
        wire.Recommended, Service.recommend, wire.Recommend,
        example={"user": "ann", "n": 5, "context": {"daytime": "evening"}},
    ),
    Endpoint(
        "POST", "/v1/recommend/batch", "Several such questions at once",
        wire.RecommendedBatch, Service.batch, wire.Batch,
        example={"questions": [{"user": "ann", "n": 5}, {"history": ["maps", "mail"]}]},
    ),
    Endpoint(
        "POST", "/v1/score", "The scores of given items",
        wire.Scores, Service.score, wire.Score,
        example={"user": "ann", "items": ["maps", "mail"]},
    ),
    Endpoint(
        "POST", "/v1/similar", "The most similar items or users",
        wire.Neighbours, Service.similar, wire.Similar,
        example={"item": "maps", "n": 5},
    ),
    Endpoint(
        "POST", "/v1/explain", "What a score is made of",
        wire.Explained, Service.explain, wire.Explain,
        example={"user": "ann", "item": "maps", "context": {"daytime": "evening"}},
    ),
    Endpoint(
        "POST", "/v1/events", "Keep what users did: the next answers know of it",
        wire.Taken, Service.take, wire.NewEvents,
        example={"events": [{"user": "ann", "item": "maps", "context": {"daytime": "evening"}}]},
    ),
    Endpoint(
        "GET", "/v1/events", "The events kept after a position, or the latest; oldest first",
        wire.KeptEvents, Service.events,
        parameters=(
            Parameter("after", int, None, "The position to go on from; the latest if left out."),
            FEW,
        ),
    ),
    Endpoint("GET", "/v1/model", "The models in service", wire.Cards, Service.cards),
    Endpoint(
        "GET", "/v1/items", "Ids of items", wire.Found, Service.items, parameters=(PREFIX, FEW)
    ),
    Endpoint(
        "GET", "/v1/users", "Ids of users", wire.Found, Service.users, parameters=(PREFIX, FEW)
    ),
)  # fmt: skip


REFERENCE = "#/components/schemas/{name}"
ALWAYS = (403, 405)  # what any address may answer
OF_BODIES = (400, 408, 413)
OF_ENDPOINTS = (404, 422, 429, 500, 501, 503)
SUMMARIES = {
    "/live": "Whether the process answers",
    "/ready": "Whether it takes questions",
    "/openapi.json": "This description",
}


def document(with_keys: bool) -> dict[str, Any]:
    """The description; with_keys: whether requests must bring a key."""
    types: list[type] = [Problem]
    types += [one for e in ENDPOINTS for one in (e.takes, e.gives) if one is not None]
    schemas, parts = msgspec.json.schema_components(types, ref_template=REFERENCE)
    named = {kind.__name__: schema for kind, schema in zip(types, schemas)}
    found: dict[str, Any] = {}
    for endpoint in ENDPOINTS:
        found.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(
            endpoint, named, with_keys
        )
    for path, summary in SUMMARIES.items():
        found[path] = {"get": _plain(summary, {"application/json": {}}, (*ALWAYS, 500))}
    texts = {"text/plain": {"schema": {"type": "string"}}}
    refused = (*ALWAYS, 401, 500) if with_keys else (*ALWAYS, 500)
    found["/metrics"] = {"get": _plain("Numbers for Prometheus", texts, refused)}
    components: dict[str, Any] = {"schemas": parts}
    out: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "fmpair",
            "version": __version__,
            "description": "Recommendations in context, and why. Errors are RFC 9457.",
        },
        "paths": found,
        "components": components,
    }
    if with_keys:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        for path in [*(e.path for e in ENDPOINTS), "/metrics"]:
            for operation in found[path].values():
                operation["security"] = [{"key": []}]
    return out


def _operation(endpoint: Endpoint, named: dict[str, Any], with_keys: bool) -> dict[str, Any]:
    problems = ALWAYS + OF_ENDPOINTS + ((401,) if with_keys else ())
    if endpoint.takes is not None:
        problems += OF_BODIES
    media = {"application/json": {"schema": named[endpoint.gives.__name__]}}
    out = _plain(endpoint.summary, media, problems)
    if endpoint.parameters:
        out["parameters"] = [_parameter(one) for one in endpoint.parameters]
    if endpoint.takes is not None:
        body = {"schema": named[endpoint.takes.__name__], "example": endpoint.example}
        out["requestBody"] = {"required": True, "content": {"application/json": body}}
    return out


def _plain(summary: str, media: dict[str, Any], problems: tuple[int, ...]) -> dict[str, Any]:
    """An operation that takes nothing."""
    about = {"schema": {"$ref": REFERENCE.format(name=Problem.__name__)}}
    refusals = {
        str(status): {"description": TITLES[status], "content": {MEDIA: about}}
        for status in sorted(problems)
    }
    right = {"description": "As asked for", "content": media}
    return {"summary": summary, "responses": {"200": right, **refusals}}


def _parameter(one: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "maxLength": one.most}
    if one.kind is int:
        schema = {"type": "integer", "minimum": one.least, "maximum": one.most}
    if one.default is not None:
        schema["default"] = one.default
    return {"name": one.name, "in": "query", "description": one.description, "schema": schema}
