"""Connections of the HTTP server: limits per connection and client, silent ones closed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fmpair.serve.problems import PROBLEM_TYPE, TITLES, ProblemError, problem_json
from fmpair.serve.settings import is_loopback

KEEP_ALIVE = 75  # seconds that an idle connection stays open
STOP_TIMEOUT = 10  # seconds for open requests when the service is stopped
MAX_CONNECTIONS = 4_096
MAX_PER_CLIENT = 256  # connections of one client
HEAD_TIMEOUT = 10.0  # seconds for the head of a request to arrive
READ_TIMEOUT = 30.0  # seconds in which a client must read some of its answer
CHECK_EVERY = 5  # seconds between two checks of connections
MAX_HEAD = 32 << 10  # bytes of a request's first line and fields
MAX_FIELDS = 100
MAX_PIPELINED = 32  # requests sent before the answer to the first


class Clients(NamedTuple):
    """The number of connections per client. proxied: clients on this machine are a proxy."""

    proxied: bool
    open: Counter[str]

    def limit(self, client: str) -> int:
        """Return how many connections a client may have; a proxy has those of all its clients."""
        return MAX_CONNECTIONS if self.proxied and is_loopback(client) else MAX_PER_CLIENT


class TooLargeError(Exception):
    """The head of a request has too many bytes or fields."""


class BoundedConnection(HttpToolsProtocol):
    """A connection whose request heads are bounded; uvicorn would collect them without end."""

    clients: Clients  # set by `make_server`, in a class of its own

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._address = "" if self.client is None else self.client[0]
        self._quiet = self._head = self._fields = 0
        self._too_large = False
        self.clients.open[self._address] += 1
        if self.clients.open[self._address] > self.clients.limit(self._address):
            limit = self.clients.limit(self._address)
            self._refuse(ProblemError(429, f"more than {limit} connections of one client"))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.clients.open[self._address] -= 1
        if self.clients.open[self._address] <= 0:
            del self.clients.open[self._address]

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._quiet += len(data)  # set to 0 whenever a part of a request is complete
        super().data_received(data)
        if self._quiet > MAX_HEAD and not self.transport.is_closing():
            self._too_large = True
            self.send_400_response("")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._quiet = self._head = self._fields = 0
        if len(self.pipeline) >= MAX_PIPELINED:
            self._take(MAX_HEAD + 1)

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._take(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:  # of trailers too
        self._fields += 1
        self._take(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._quiet = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._quiet = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._quiet = 0
        super().on_message_complete()

    def _take(self, size: int) -> None:
        self._quiet, self._head = 0, self._head + size
        if self._head > MAX_HEAD or self._fields > MAX_FIELDS:
            self._too_large = True
            raise TooLargeError  # the parser stops, and uvicorn sends a 400 response

    def send_400_response(self, msg: str) -> None:
        """Say what was wrong with a request that could not be parsed, and close."""
        if self._too_large:
            most = f"{MAX_HEAD:,} bytes or {MAX_FIELDS} fields"
            self._refuse(ProblemError(431, f"the head of the request has more than {most}"))
        else:
            self._refuse(ProblemError(400, "this is not an HTTP request"))

    def _refuse(self, problem: ProblemError) -> None:
        body = problem_json(problem)
        line = f"HTTP/1.1 {problem.status} {TITLES[problem.status]}\r\n".encode()
        about = b"content-type: %s\r\ncontent-length: %d\r\n" % (PROBLEM_TYPE, len(body))
        self.transport.write(line + about + b"connection: close\r\n\r\n" + body)
        self.transport.close()


def make_server(application: Any, proxied: bool = False) -> uvicorn.Server:
    """Return a server of bounded connections; proxied: clients on this machine are a proxy."""
    protocol = type("Connection", (BoundedConnection,), {"clients": Clients(proxied, Counter())})
    config = uvicorn.Config(
        application,
        http=protocol,
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=STOP_TIMEOUT,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_notify=CHECK_EVERY,
        ws="none",
    )
    server = uvicorn.Server(config)
    config.callback_notify = SilentConnections(lambda: server.server_state.connections).close
    return server


class SilentConnections:
    """Closes connections whose client sends no request, or reads no answer; uvicorn keeps them.

    connections: returns the open ones.
    """

    def __init__(
        self, connections: Callable[[], Iterable[Any]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connections, self._clock = connections, clock
        self._since: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
        self._unread: WeakKeyDictionary[Any, tuple[int, float]] = WeakKeyDictionary()

    async def close(self) -> None:
        """Close connections that have been silent for too long."""
        now = self._clock()
        for connection in list(self._connections()):
            self._close_unread(connection, now)
            # Between two requests uvicorn's own keep-alive timer runs.
            answered = connection.cycle is None or connection.cycle.response_complete
            if not answered or connection.timeout_keep_alive_task is not None:
                self._since.pop(connection, None)
            elif now - self._since.setdefault(connection, now) >= HEAD_TIMEOUT:
                connection.transport.close()

    def _close_unread(self, connection: Any, now: float) -> None:
        """Drop a connection whose answer has waited too long; closing it would wait for more."""
        size = connection.transport.get_write_buffer_size()
        before, since = self._unread.get(connection, (0, now))
        if not size or size < before:
            since = now
        self._unread[connection] = size, since
        if size and now - since >= READ_TIMEOUT:
            connection.transport.abort()
