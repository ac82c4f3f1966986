"""The page for people: files of the package, at `/` and below `/page/`."""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

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
