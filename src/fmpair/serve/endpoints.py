"""The endpoints of the service, and their OpenAPI 3.1 description."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fmpair import __version__
from fmpair.serve import requests as wire
from fmpair.serve.problems import PROBLEM_TYPE, TITLES, ProblemDetails
from fmpair.serve.service import Service
from fmpair.serve.settings import ASK, READ, SEND


@dataclass(frozen=True)
class Parameter:
    """A parameter of the query string. kind: int or str."""

    name: str
    kind: type
    default: Any
    description: str
    least: int = 0
    most: int = 2**53


@dataclass(frozen=True)
class Endpoint:
    """A path and method. takes: type of the body, None for none; gives: type of the answer.

    purpose: of the API keys that are accepted.
    """

    method: str
    path: str
    summary: str
    gives: type
    answer: Callable[..., Awaitable[Any]]
    takes: type | None = None
    parameters: tuple[Parameter, ...] = ()
    purpose: str = ASK
    example: Any = field(default=None, compare=False)


PREFIX = Parameter("prefix", str, "", "The prefix of the ids, ignoring case.", most=1024)
FEW = Parameter("n", int, 20, "The maximum number.", 1, 1_000)

ENDPOINTS = (
    Endpoint(
        "POST", "/v1/recommend", "The best items for a user or a visitor",
        wire.Recommended, Service.recommend, wire.Recommend,
        example={"user": "ann", "n": 5, "context": {"daytime": "evening"}},
    ),
    Endpoint(
        "POST", "/v1/recommend/batch", "Recommendations for several users at once",
        wire.RecommendedBatch, Service.batch, wire.RecommendBatch,
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
        "POST", "/v1/explain", "The terms of a score",
        wire.Explanation, Service.explain, wire.Explain,
        example={"user": "ann", "item": "maps", "context": {"daytime": "evening"}},
    ),
    Endpoint(
        "POST", "/v1/events", "Store events; the next answers take them into account",
        wire.Taken, Service.take, wire.NewEvents, purpose=SEND,
        example={"events": [{"user": "ann", "item": "maps", "context": {"daytime": "evening"}}]},
    ),
    Endpoint(
        "GET", "/v1/events", "The stored events after a position, or the latest; oldest first",
        wire.KeptEvents, Service.events, purpose=READ,
        parameters=(
            Parameter("after", int, None, "The position to continue from; by default the latest."),
            FEW,
        ),
    ),
    Endpoint("GET", "/v1/model", "The models in service", wire.Cards, Service.cards),
    Endpoint(
        "GET", "/v1/items", "Ids of items", wire.IdList, Service.items, parameters=(PREFIX, FEW)
    ),
    Endpoint(
        "PUT", "/v1/items", "Change items; the next answers of all workers take it into account",
        wire.ItemsTaken, Service.put_items, wire.ItemChanges, purpose=SEND,
        example={"items": [{"item": "maps", "price": 4.5, "in_stock": True},
                           {"item": "mail", "removed": True}]},
    ),
    Endpoint(
        "GET", "/v1/users", "Ids of users", wire.IdList, Service.users, parameters=(PREFIX, FEW),
        purpose=READ,
    ),
)  # fmt: skip


REFERENCE = "#/components/schemas/{name}"
ANY_ERRORS = (400, 403, 405)  # of every path
BODY_ERRORS = (408, 413)
ENDPOINT_ERRORS = (404, 422, 429, 500, 501, 503)
SUMMARIES = {
    "/live": "Liveness: the process answers",
    "/ready": "Readiness: the models are loaded",
    "/openapi.json": "This description",
}


def document(with_keys: bool) -> dict[str, Any]:
    """Return the OpenAPI description; with_keys: whether requests need an API key."""
    types: list[type] = [ProblemDetails]
    types += [wired for e in ENDPOINTS for wired in (e.takes, e.gives) if wired is not None]
    schemas, parts = msgspec.json.schema_components(types, ref_template=REFERENCE)
    named = {kind.__name__: schema for kind, schema in zip(types, schemas)}
    paths: dict[str, Any] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(
            endpoint, named, with_keys
        )
    for path, summary in SUMMARIES.items():
        paths[path] = {"get": _plain(summary, {"application/json": {}}, (*ANY_ERRORS, 500))}
    texts = {"text/plain": {"schema": {"type": "string"}}}
    refused = (*ANY_ERRORS, 401, 500) if with_keys else (*ANY_ERRORS, 500)
    paths["/metrics"] = {"get": _plain("Metrics for Prometheus", texts, refused)}
    components: dict[str, Any] = {"schemas": parts}
    out: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "fmpair",
            "version": __version__,
            "description": "Context-aware recommendations, explained. Errors follow RFC 9457.",
        },
        "paths": paths,
        "components": components,
    }
    if with_keys:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        for path in [*(e.path for e in ENDPOINTS), "/metrics"]:
            for operation in paths[path].values():
                operation["security"] = [{"key": []}]
    return out


def _operation(endpoint: Endpoint, named: dict[str, Any], with_keys: bool) -> dict[str, Any]:
    problems = ANY_ERRORS + ENDPOINT_ERRORS + ((401,) if with_keys else ())
    if endpoint.takes is not None:
        problems += BODY_ERRORS
    media = {"application/json": {"schema": named[endpoint.gives.__name__]}}
    out = _plain(endpoint.summary, media, problems)
    if endpoint.parameters:
        out["parameters"] = [_parameter(parameter) for parameter in endpoint.parameters]
    if endpoint.takes is not None:
        body = {"schema": named[endpoint.takes.__name__], "example": endpoint.example}
        out["requestBody"] = {"required": True, "content": {"application/json": body}}
    return out


def _plain(summary: str, media: dict[str, Any], problems: tuple[int, ...]) -> dict[str, Any]:
    """Return an operation without parameters and body."""
    about = {"schema": {"$ref": REFERENCE.format(name=ProblemDetails.__name__)}}
    errors = {
        str(status): {"description": TITLES[status], "content": {PROBLEM_TYPE.decode(): about}}
        for status in sorted(problems)
    }
    success = {"description": "OK", "content": media}
    return {"summary": summary, "responses": {"200": success, **errors}}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "maxLength": parameter.most}
    if parameter.kind is int:
        schema = {"type": "integer", "minimum": parameter.least, "maximum": parameter.most}
    if parameter.default is not None:
        schema["default"] = parameter.default
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.description,
        "schema": schema,
    }
