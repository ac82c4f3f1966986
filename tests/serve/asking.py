"""A service without a network: requests are handed to the application as a server would."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

from fmpair.serve.application import Application

LOCAL = {"host": "127.0.0.1:8000"}


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    application: Application,
    path: str,
    body: Any = None,
    *,
    method: str | None = None,
    headers: dict[str, str] | None = None,
    client: str = "127.0.0.1",
) -> Reply:
    """What the service answers. body: bytes as they are, anything else as JSON."""
    return asyncio.run(send(application, path, body, method, headers, client))


async def send(
    application: Application,
    path: str,
    body: Any = None,
    method: str | None = None,
    headers: dict[str, str] | None = None,
    client: str = "127.0.0.1",
) -> Reply:
    content = (
        body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    )
    given = {**LOCAL, "content-length": str(len(content)), **(headers or {})}
    where, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method or ("GET" if body is None else "POST"),
        "path": where,
        "raw_path": where.encode(),
        "root_path": "",
        "scheme": "http",
        "server": ("127.0.0.1", 8000),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "client": (client, 1),
    }
    parts = [content[: len(content) // 2], content[len(content) // 2 :]]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if not parts:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def collect(message: dict[str, Any]) -> None:
        sent.append(message)

    await application(scope, receive, collect)
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Reply(sent[0]["status"], found, b"".join(part.get("body", b"") for part in sent[1:]))
