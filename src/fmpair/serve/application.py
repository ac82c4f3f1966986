"""The service over HTTP: an ASGI application of the endpoints."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from fmpair.serve.endpoint import ENDPOINTS, Endpoint, Parameter
from fmpair.serve.problem import MEDIA, ProblemError, body_of, problem_of
from fmpair.serve.requests import Alive
from fmpair.serve.service import Service

LOG = logging.getLogger("fmpair.serve")
JSON = "application/json"
MOST_BYTES = 4 << 20  # of a body


def application(service: Service, more: list[BaseRoute] | None = None) -> Any:
    """The ASGI application; more: routes besides the endpoints, such as a page."""
    routes: list[BaseRoute] = [_route(service, endpoint) for endpoint in ENDPOINTS]
    routes += [Route("/live", _alive), Route("/ready", _alive)]
    return Starlette(routes=routes + (more or []))


async def _alive(request: Request) -> Response:
    return Response(msgspec.json.encode(Alive("ok")), media_type=JSON)


def _route(service: Service, endpoint: Endpoint) -> Route:
    decoder = None if endpoint.takes is None else msgspec.json.Decoder(endpoint.takes)
    encode = msgspec.json.Encoder(decimal_format="string").encode

    async def answer(request: Request) -> Response:
        try:
            given = _query(request, endpoint.parameters)
            if decoder is not None:
                given["asked"] = decoder.decode(await _body(request))
            found = await endpoint.answer(service, **given)
            return Response(encode(found), media_type=JSON)
        except Exception as error:
            return _refusal(error)

    return Route(endpoint.path, answer, methods=[endpoint.method])


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise ProblemError(413, f"the body has more than {MOST_BYTES:,} bytes")
    return bytes(body)


def _query(request: Request, parameters: tuple[Parameter, ...]) -> dict[str, Any]:
    """The values of the query string's parameters."""
    out = {}
    for one in parameters:
        text = request.query_params.get(one.name)
        out[one.name] = one.default if text is None else _read(one, text)
    return out


def _read(parameter: Parameter, text: str) -> Any:
    if parameter.kind is str:
        return text
    try:
        value = int(text)
    except ValueError:
        value = parameter.least - 1
    if not parameter.least <= value <= parameter.most:
        raise ProblemError(
            422,
            f"{parameter.name} must be a whole number from {parameter.least} to {parameter.most}",
        )
    return value


def _refusal(error: Exception) -> Response:
    problem = problem_of(error)
    if problem.status == 500:
        LOG.error("a request failed", exc_info=error)
    return Response(body_of(problem), problem.status, problem.headers, MEDIA)
