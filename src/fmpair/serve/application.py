"""The service over HTTP: an ASGI application of the endpoints, and of the page beside them.

Addresses of the service are found in one table and answered here; Starlette has the rest.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from fmpair.serve import metrics
from fmpair.serve.access_control import Gate
from fmpair.serve.endpoints import ENDPOINTS, Endpoint, Parameter, document
from fmpair.serve.requests import MEDIA, ProblemError, body_of, problem_of
from fmpair.serve.service import Service

# The page for people: files of the package, at `/` and below `/page/`.


KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
# Nothing from elsewhere, nothing inline, no text read as HTML, and no frame around it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)


class File(NamedTuple):
    """A file as it is sent."""

    content: bytes
    headers: dict[str, str]


def page_routes() -> list[BaseRoute]:
    """The addresses of the page; all files are read here, so that no request names a path."""
    folder = files("fmpair.serve").joinpath("page")
    found = {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}
    pages = {name: _file(name, content) for name, content in found.items()}
    routes: list[BaseRoute] = [_route("/", pages.pop("index.html"))]
    return routes + [_route(f"/page/{name}", page) for name, page in sorted(pages.items())]


def _file(name: str, content: bytes) -> File:
    headers = {
        "Content-Type": KINDS[name.rpartition(".")[2]],
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",  # asked for each time, sent again only when it has changed
        "ETag": f'"{sha256(content).hexdigest()[:16]}"',
    }
    return File(content, headers)


def _route(path: str, file: File) -> Route:
    async def send(request: Request) -> Response:
        if request.headers.get("if-none-match") == file.headers["ETag"]:
            return Response(status_code=304, headers=file.headers)
        return Response(file.content, headers=file.headers)

    return Route(path, send)


LOG = logging.getLogger("fmpair.serve")
JSON = b"application/json"
MOST_BYTES = 4 << 20  # of a body
LONGEST = 15.0  # seconds for a request to come in and be answered
SAFE = [  # headers of every answer
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
]
OF_DATA = [
    *SAFE,
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'"),
]
ENCODE = msgspec.json.Encoder(decimal_format="string").encode

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Answered = tuple[int, bytes, bytes, list[tuple[bytes, bytes]]]  # status, media, body, headers


class Application:
    """ASGI. more: routes besides the endpoints, such as those of a page."""

    def __init__(
        self,
        service: Service,
        gate: Gate | None = None,
        more: Sequence[BaseRoute] = (),
        numbers: metrics.Metrics | None = None,
    ) -> None:
        self.service, self.gate = service, gate or Gate()
        self.metrics = numbers or metrics.Metrics(paths())
        self.handlers = {(one.method, one.path): _handler(one) for one in ENDPOINTS}
        self.known = {path: allowed(path) for path in (*paths(), *OPEN)}
        self.rest = Starlette(routes=list(more), exception_handlers={HTTPException: _no_page})
        self.description = ENCODE(document(self.gate.keys != ()))

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        begun, path = time.perf_counter(), scope["path"]
        if path not in self.known:
            self._count(path, await self._page(scope, receive, send), begun)
            return
        status, media, body, headers = await self._answer(scope, receive)
        self._count(path, status, begun)  # before it is sent: who has an answer finds it counted
        await _send(send, scope["method"], status, media, body, headers)

    def _count(self, path: str, status: int, begun: float) -> None:
        self.metrics.observe(path, status, time.perf_counter() - begun)
        self.metrics.follow("swaps", self.service.models.swaps)
        self.metrics.follow("refusals", self.service.models.refusals)

    async def _answer(self, scope: dict[str, Any], receive: Receive) -> Answered:
        try:
            headers = dict(scope["headers"])
            self.gate.check_site(headers)
            method, path = scope["method"], scope["path"]
            if method not in self.known[path]:
                allow = ", ".join(self.known[path])
                raise ProblemError(405, f"{path} answers {allow}, not {method}", allow=allow)
            if path in OPEN:
                return 200, *OPEN[path](self), []
            if path != "/metrics":
                self.gate.check_rate((scope.get("client") or ("",))[0])
            self.gate.check_key(headers)
            if path == "/metrics":
                return 200, metrics.MEDIA.encode(), self._metrics(), []
            handler = self.handlers["GET" if method == "HEAD" else method, path]
            return 200, JSON, await handler(self.service, scope, headers, receive), []
        except Exception as error:
            return self._refused(error)

    def _refused(self, error: Exception) -> Answered:
        problem = problem_of(error)
        if problem.status == 500:
            LOG.error("a request failed", exc_info=error)
        if problem.status == 404:
            self.metrics.count("refused")
        headers = [(name.encode(), value.encode()) for name, value in problem.headers.items()]
        return problem.status, MEDIA.encode(), body_of(problem), headers

    def _metrics(self) -> bytes:
        models = self.service.models
        lines = [*metrics.of_models(models.serving()), *metrics.of_store(models.trouble)]
        return self.metrics.text(lines).encode()

    async def _page(self, scope: dict[str, Any], receive: Receive, send: Send) -> int:
        """What is no address of the service: the page, or nothing."""
        try:
            self.gate.check_site(dict(scope["headers"]))
        except ProblemError as error:
            status, media, body, headers = self._refused(error)
            await _send(send, scope["method"], status, media, body, headers)
            return status
        seen = [500]

        async def watched(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                seen[0] = message["status"]
                given = {name for name, _ in message["headers"]}
                message["headers"] += [one for one in SAFE if one[0] not in given]
            await send(message)

        await self.rest(scope, receive, watched)
        return seen[0]


def paths() -> list[str]:
    """The addresses that need a key, where there are any keys."""
    return [*dict.fromkeys(endpoint.path for endpoint in ENDPOINTS), "/metrics"]


def allowed(path: str) -> tuple[str, ...]:
    """The methods of an address."""
    own = tuple(endpoint.method for endpoint in ENDPOINTS if endpoint.path == path) or ("GET",)
    return (*own, "HEAD") if "GET" in own else own


def _live(application: Application) -> tuple[bytes, bytes]:
    return JSON, b'{"status":"ok"}'


def _ready(application: Application) -> tuple[bytes, bytes]:
    """Answers go on where events cannot be kept: whoever asks is told so."""
    models = application.service.models
    names = [own.id for own in models.serving()]
    return JSON, ENCODE({"status": "ok", "models": names, "trouble": models.trouble})


def _description(application: Application) -> tuple[bytes, bytes]:
    return JSON, application.description


OPEN = {"/live": _live, "/ready": _ready, "/openapi.json": _description}


def _handler(endpoint: Endpoint) -> Callable[..., Awaitable[bytes]]:
    """From the parts of a request to the bytes of its answer."""
    decode: Callable[[bytes], Any] | None
    decode = None if endpoint.takes is None else msgspec.json.Decoder(endpoint.takes).decode

    async def handle(
        service: Service, scope: dict[str, Any], headers: dict[bytes, bytes], receive: Receive
    ) -> bytes:
        given = _query(scope, endpoint.parameters)
        body = None
        try:
            async with asyncio.timeout(LONGEST):
                if decode is not None:
                    body = await _body(headers, receive)
                    given["asked"] = decode(body)
                return ENCODE(await endpoint.answer(service, **given))
        except TimeoutError:
            if decode is None or body is not None:
                said = f"no answer was found within {LONGEST:.0f} seconds"
                raise ProblemError(503, said, retry_after="1") from None
            said = f"the body did not come in within {LONGEST:.0f} seconds"
            raise ProblemError(408, said, connection="close") from None

    return handle


async def _body(headers: dict[bytes, bytes], receive: Receive) -> bytes:
    """The body of a request, which may not be large."""
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length) > MOST_BYTES:
        raise ProblemError(413, f"the body has more than {MOST_BYTES:,} bytes")
    part = await receive()
    if not part.get("more_body"):
        return part.get("body", b"")
    body = bytearray(part["body"])
    while part.get("more_body"):
        part = await receive()
        body += part.get("body", b"")
        if len(body) > MOST_BYTES:
            raise ProblemError(413, f"the body has more than {MOST_BYTES:,} bytes")
    return bytes(body)


def _query(scope: dict[str, Any], parameters: tuple[Parameter, ...]) -> dict[str, Any]:
    """The values of the query string's parameters."""
    if not parameters:
        return {}
    text = scope["query_string"].decode("latin-1")
    found = parse_qs(text, keep_blank_values=True, max_num_fields=100)
    return {
        one.name: _read(one, found[one.name][-1]) if one.name in found else one.default
        for one in parameters
    }


def _read(parameter: Parameter, text: str) -> Any:
    if parameter.kind is str:
        if len(text) > parameter.most:
            raise ProblemError(422, f"{parameter.name} has more than {parameter.most} letters")
        return text
    plain = text.isascii() and text.removeprefix("-").isdigit() and len(text) < 20
    if not plain or not parameter.least <= int(text) <= parameter.most:
        span = f"from {parameter.least} to {parameter.most}"
        raise ProblemError(422, f"{parameter.name} must be a whole number {span}")
    return int(text)


async def _send(
    send: Send,
    method: str,
    status: int,
    media: bytes,
    body: bytes,
    headers: list[tuple[bytes, bytes]],
) -> None:
    length = (b"content-length", b"%d" % len(body))
    own = [(b"content-type", media), length, *OF_DATA, *headers]
    await send({"type": "http.response.start", "status": status, "headers": own})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else body})


async def _no_page(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    path = request.url.path[:200]
    said = f"nothing is at {path!r}: see /openapi.json" if status == 404 else str(error)
    return Response(body_of(ProblemError(status, said)), status, media_type=MEDIA)
