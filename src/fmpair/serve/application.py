"""The service as an ASGI application: endpoints, the web page, health checks and metrics."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any, NamedTuple, get_args
from urllib.parse import parse_qs

import msgspec

from fmpair.checks import FOREIGN_OPTIONS
from fmpair.errors import nearest
from fmpair.events.event import ITEM
from fmpair.serve import metrics
from fmpair.serve.access_control import AccessControl
from fmpair.serve.endpoints import ENDPOINTS, Endpoint, Parameter, document
from fmpair.serve.model_card import utc
from fmpair.serve.problems import PROBLEM_TYPE, ProblemError, problem_json, problem_of
from fmpair.serve.requests import ItemChanges, ItemColumns
from fmpair.serve.service import Service
from fmpair.serve.settings import METRICS

LOG = logging.getLogger("fmpair.serve")

MAX_BODY = 4 << 20  # bytes
MAX_QUERY = 100  # fields of the query string
TIMEOUT = 15.0  # seconds to receive a request and answer it
JSON = b"application/json"
UNKNOWN_FIELD = re.compile(r"unknown field `([^`]{1,64})`(?: - at `([^`]*)`)?$")
PAGE_TYPES = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}
SAFE_HEADERS = [  # of every response
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
]
DATA_HEADERS = [
    *SAFE_HEADERS,
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'"),
]
# Nothing from other sites, nothing inline, no text parsed as HTML, no frames.
PAGE_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    b"require-trusted-types-for 'script'"
)
ANY_IMAGES = (b"img-src 'self'", b"img-src 'self' https: http:")
ENCODE = msgspec.json.Encoder(decimal_format="string").encode

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Header = tuple[bytes, bytes]
Headers = Mapping[bytes, bytes]
NO_DETAILS = "the event store fails; the log says why, and so does this page with an API key"


class Response(NamedTuple):
    """A complete response; headers without content-length."""

    status: int
    body: bytes
    headers: list[Header]


class Application:
    """The ASGI application. pages: responses of a web page by path, see `read_pages`."""

    def __init__(
        self,
        service: Service,
        access: AccessControl | None = None,
        pages: dict[str, Response] | None = None,
        counters: metrics.Metrics | None = None,
    ) -> None:
        self.service, self.access, self.pages = service, access or AccessControl(), pages or {}
        self.metrics = counters or metrics.Metrics(paths())
        self.handlers = {(e.method, e.path): _handler(e) for e in ENDPOINTS}
        self.purposes = {(e.method, e.path): e.purpose for e in ENDPOINTS}
        self.purposes["GET", "/metrics"] = METRICS
        self.methods = {path: _methods(path) for path in (*paths(), *OPEN, *self.pages)}
        self.description = ENCODE(document(bool(self.access.keys)))

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        start, path = time.perf_counter(), scope["path"]
        try:
            response = await self._respond(scope, receive)
        except Exception as error:
            response = self._problem(error, path)
        # Counted before it is sent: a client that has its answer finds it in the metrics.
        self.metrics.observe(path, response.status, time.perf_counter() - start)
        self.metrics.follow("swaps", self.service.models.swaps)
        self.metrics.follow("refusals", self.service.models.refusals)
        headers = response.headers
        if response.status != 304:
            headers = [(b"content-length", b"%d" % len(response.body)), *headers]
        start_message = {"type": "http.response.start", "status": response.status}
        await send({**start_message, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else response.body
        await send({"type": "http.response.body", "body": body})

    async def _respond(self, scope: dict[str, Any], receive: Receive) -> Response:
        headers = dict(scope["headers"])
        self.access.check_site(headers)
        method, path = scope["method"], scope["path"]
        if path not in self.methods:
            guess = nearest(path[:200], self.methods)
            hint = f". Did you mean {guess!r}?" if guess else ": see /openapi.json"
            raise ProblemError(404, f"no such path {path[:200]!r}{hint}")
        if method not in self.methods[path]:
            allow = ", ".join(self.methods[path])
            raise ProblemError(405, f"{path} supports {allow}, not {method}", allow=allow)
        if path in self.pages:
            page = self.pages[path]
            fresh = headers.get(b"if-none-match") == dict(page.headers)[b"etag"]
            return page._replace(status=304, body=b"") if fresh else page
        if path in OPEN:
            return _data(OPEN[path](self, headers))
        if path != "/metrics":
            self.access.check_rate((scope.get("client") or ("",))[0], headers)
        endpoint = ("GET" if method == "HEAD" else method, path)
        self.access.check_key(headers, self.purposes[endpoint])
        if path == "/metrics":
            models = self.service.models
            lines = metrics.model_lines(models.serving()) + metrics.store_lines(models.trouble)
            return _data(self.metrics.text(lines).encode(), metrics.MEDIA_TYPE)
        return _data(await self.handlers[endpoint](self.service, scope, headers, receive))

    def _problem(self, error: Exception, path: str) -> Response:
        problem = problem_of(error)
        if problem.status == 500:
            LOG.error("a request failed", exc_info=error)
        if problem.status == 404 and path in self.methods:
            self.metrics.count("refused")
        headers = [(name.encode(), value.encode()) for name, value in problem.headers.items()]
        return _data(problem_json(problem), PROBLEM_TYPE, problem.status, headers)


def read_pages(images: bool = False) -> dict[str, Response]:
    """Return the files of the web page by path: `/` and those below `/page/`.

    images: whether the page may load images from other sites.
    """
    folder = files("fmpair.serve").joinpath("page")
    contents = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    return {
        "/" if name == "index.html" else f"/page/{name}": _page(name, content, images)
        for name, content in sorted(contents.items())
    }


def _page(name: str, content: bytes, images: bool) -> Response:
    policy = PAGE_POLICY.replace(*ANY_IMAGES) if images else PAGE_POLICY
    headers = [
        (b"content-type", PAGE_TYPES[name.rpartition(".")[2]]),
        (b"content-security-policy", policy),
        (b"cache-control", b"no-cache"),  # revalidated each time, sent only if changed
        (b"etag", f'"{sha256(content).hexdigest()[:16]}"'.encode()),
    ]
    return Response(200, content, [*headers, *SAFE_HEADERS])


def paths() -> list[str]:
    """Return the paths that need an API key, if keys are set."""
    return [*dict.fromkeys(endpoint.path for endpoint in ENDPOINTS), "/metrics"]


def _methods(path: str) -> tuple[str, ...]:
    methods = tuple(endpoint.method for endpoint in ENDPOINTS if endpoint.path == path) or ("GET",)
    return (*methods, "HEAD") if "GET" in methods else methods


def _ready(application: Application, headers: Headers) -> bytes:
    """Report the models. A failing event store is reported too; requests are still answered."""
    models = application.service.models
    trouble, since = models.trouble, models.stale_since
    if trouble is not None and not application.access.may_see_details(headers):
        trouble = NO_DETAILS
    return ENCODE(
        {
            "status": "ok",
            "models": [served.id for served in models.serving()],
            "trouble": trouble,
            "events_stale_since": None if since is None else utc(since),
        }
    )


OPEN: dict[str, Callable[[Application, Headers], bytes]] = {  # paths that never need a key
    "/live": lambda application, headers: b'{"status":"ok"}',
    "/ready": _ready,
    "/openapi.json": lambda application, headers: application.description,
}


def _data(
    body: bytes, media: bytes = JSON, status: int = 200, headers: Sequence[Header] = ()
) -> Response:
    return Response(status, body, [(b"content-type", media), *DATA_HEADERS, *headers])


def _handler(endpoint: Endpoint) -> Callable[..., Awaitable[bytes]]:
    """Return a function from a request to the JSON of its answer."""
    decode: Callable[[bytes], Any] | None
    decode = None if endpoint.takes is None else msgspec.json.Decoder(endpoint.takes).decode

    async def handle(
        service: Service, scope: dict[str, Any], headers: dict[bytes, bytes], receive: Receive
    ) -> bytes:
        arguments = _query(scope, endpoint.parameters)
        body = None
        try:
            async with asyncio.timeout(TIMEOUT):
                if decode is not None:
                    body = await _body(headers, receive)
                    arguments["request"] = _decoded(decode, body, endpoint.takes)
                return ENCODE(await endpoint.answer(service, **arguments))
        except TimeoutError:
            if decode is None or body is not None:
                detail = f"no answer within {TIMEOUT:.0f} seconds"
                raise ProblemError(503, detail, retry_after="1") from None
            detail = f"the body did not arrive within {TIMEOUT:.0f} seconds"
            raise ProblemError(408, detail, connection="close") from None

    return handle


def _decoded(decode: Callable[[bytes], Any], body: bytes, kind: Any) -> Any:
    """Return a body as an object of its kind; errors say what was probably meant."""
    if not body:
        raise ProblemError(400, "the body is not valid JSON: it is empty")
    try:
        return decode(body)
    except msgspec.ValidationError as error:
        if kind is ItemChanges and _is_one_item(body):
            return ItemChanges([msgspec.json.decode(body, type=ItemColumns)])
        match = UNKNOWN_FIELD.search(str(error))
        guess = match and _nearest_field(kind, match[1], match[2] or "")
        if guess:
            raise msgspec.ValidationError(f"{error}. Did you mean `{guess}`?") from None
        fields = msgspec.structs.fields(kind)
        if len(fields) == 1 and "- at `" not in str(error):  # the object or list inside was sent
            example = f'{{"{fields[0].encode_name}": [...]}}'
            raise msgspec.ValidationError(f"{error}: send {example}") from None
        raise


def _is_one_item(body: bytes) -> bool:
    """Return whether a body is one item without a list around it."""
    fields = msgspec.json.decode(body)
    return isinstance(fields, dict) and ITEM in fields and "items" not in fields


def _nearest_field(kind: Any, name: str, path: str) -> str | None:
    """Return the field that was meant in the object at a path, such as `$.questions[0]`."""
    for step in re.findall(r"\.(\w+)", path):
        hints = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
        kind = _struct_in(hints.get(step))
        if kind is None:
            return None
    known = [field.encode_name for field in msgspec.structs.fields(kind)]
    foreign = FOREIGN_OPTIONS.get(name)
    return foreign if foreign in known else nearest(name, known)


def _struct_in(hint: Any) -> Any:
    """Return the struct of a type such as list[Struct], None if there is none."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return hint
    return next(filter(None, map(_struct_in, get_args(hint))), None)


async def _body(headers: dict[bytes, bytes], receive: Receive) -> bytes:
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length) > MAX_BODY:
        raise _too_large()
    part = await receive()
    if not part.get("more_body"):
        return part.get("body", b"")
    body = bytearray(part["body"])
    while part.get("more_body"):
        part = await receive()
        body += part.get("body", b"")
        if len(body) > MAX_BODY:
            raise _too_large()
    return bytes(body)


def _too_large() -> ProblemError:
    return ProblemError(413, f"the body has more than {MAX_BODY:,} bytes")


def _query(scope: dict[str, Any], parameters: tuple[Parameter, ...]) -> dict[str, Any]:
    """Return the parameters of the query string."""
    if not parameters:
        return {}
    text = scope["query_string"].decode("latin-1")
    try:
        values = parse_qs(text, keep_blank_values=True, max_num_fields=MAX_QUERY)
    except ValueError:
        raise ProblemError(400, f"the query has more than {MAX_QUERY} fields") from None
    return {
        p.name: _parse(p, values[p.name][-1]) if p.name in values else p.default for p in parameters
    }


def _parse(parameter: Parameter, text: str) -> Any:
    if parameter.kind is str:
        if len(text) > parameter.most:
            raise ProblemError(422, f"{parameter.name} has more than {parameter.most} characters")
        return text
    plain = text.isascii() and text.removeprefix("-").isdigit() and len(text) < 20
    if not plain or not parameter.least <= int(text) <= parameter.most:
        span = f"from {parameter.least} to {parameter.most}"
        raise ProblemError(422, f"{parameter.name} must be a whole number {span}")
    return int(text)
