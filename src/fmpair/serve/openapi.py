"""The service described for programs: OpenAPI 3.1, made of the endpoints and their types."""

from __future__ import annotations

from typing import Any

import msgspec

from fmpair import __version__
from fmpair.serve.endpoint import ENDPOINTS, Endpoint, Parameter
from fmpair.serve.problem import MEDIA, TITLES, Problem

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
