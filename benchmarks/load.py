"""A client that asks a service as fast as it answers: requests a second, and how long each took.

    python benchmarks/load.py http://127.0.0.1:8000/v1/recommend bodies.json --connections 8

bodies.json: a list of bodies, which are sent in turn. Every connection has one request under way.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path
from urllib.parse import urlsplit


class Connection(asyncio.Protocol):
    """Sends a request, waits for the whole answer, sends the next."""

    def __init__(self, load: Load) -> None:
        self.load, self.buffer, self.sent = load, b"", 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.send()

    def send(self) -> None:
        request = self.load.next()
        if request is None:
            self.transport.close()
            return
        self.sent = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.buffer = self.buffer + data if self.buffer else data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.buffer[:end].lower()
        at = head.index(b"content-length:") + 15
        length = int(head[at:].split(b"\r\n", 1)[0])
        if len(self.buffer) < end + 4 + length:
            return
        self.load.note(time.perf_counter() - self.sent, self.buffer[9:12])
        self.buffer = b""
        self.send()

    def connection_lost(self, error: Exception | None) -> None:
        self.load.lost(self.buffer != b"" or error is not None)


class Load:
    """How many requests are still to be sent, and what came of those that were."""

    def __init__(self, requests: list[bytes], count: int, seconds: float, connections: int) -> None:
        self.requests, self.left, self.end = requests, count, time.perf_counter() + seconds
        self.place, self.waits, self.failed, self.open = 0, [], 0, connections
        self.done = asyncio.get_running_loop().create_future()

    def next(self) -> bytes | None:
        if self.left <= 0 or time.perf_counter() > self.end:
            return None
        self.left -= 1
        self.place = (self.place + 1) % len(self.requests)
        return self.requests[self.place]

    def note(self, seconds: float, status: bytes) -> None:
        self.waits.append(seconds)
        self.failed += status != b"200"

    def lost(self, broken: bool) -> None:
        self.open -= 1
        self.failed += broken
        if not self.open and not self.done.done():
            self.done.set_result(None)


def requests_of(url: str, bodies: list[dict], key: str | None) -> tuple[list[bytes], str, int]:
    """(the requests as bytes, host, port)."""
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    auth = f"Authorization: Bearer {key}\r\n" if key else ""
    out = []
    for body in bodies:
        content = json.dumps(body).encode()
        head = (
            f"POST {parts.path} HTTP/1.1\r\nHost: {host}\r\n{auth}"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        out.append(head.encode() + content)
    return out, host, port


async def run(options: argparse.Namespace) -> dict[str, float]:
    bodies = json.loads(Path(options.bodies).read_text())
    requests, host, port = requests_of(options.url, bodies, options.key)
    load = Load(requests, options.requests, options.seconds, options.connections)
    loop, begun = asyncio.get_running_loop(), time.perf_counter()
    for _ in range(options.connections):
        await loop.create_connection(lambda: Connection(load), host, port)
    await load.done
    waits, took = sorted(load.waits), time.perf_counter() - begun

    def share(part: float) -> float:
        return 1e3 * waits[min(int(part * len(waits)), len(waits) - 1)] if waits else 0.0

    return {
        "requests": len(waits),
        "failed": load.failed,
        "per_second": len(waits) / took,
        "p50_ms": share(0.5),
        "p99_ms": share(0.99),
        "most_ms": share(1.0),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("bodies")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--requests", type=int, default=10**9)
    parser.add_argument("--seconds", type=float, default=10**9)
    parser.add_argument("--key")
    try:
        import uvloop as loops
    except ImportError:
        loops = asyncio
    print(json.dumps(loops.run(run(parser.parse_args()))))


if __name__ == "__main__":
    main()
