"""How long until a change of 10,000 items is in all answers?

    python benchmarks/push.py [--events URL]   # of an empty store; SQLite by default

A service of two workers and 100,000 items whose price and brand are learned from. A client pushes
10,000 items with a new price and a new stock, as `fmpair items push` does, while four others ask
for items of that stock all the time. "in all answers": seconds from the start of the push until
the first question after which every answer has the change. CPU s: of the service.
"""

from __future__ import annotations

import http.client
import json
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import polars as pl
import report
from large_catalogue import processor_seconds
from measure import Answer, Check
from serve import fmpair_service

from fmpair import Dataset, FMPair
from fmpair.serve.item_push import push

ITEMS, USERS, CHANGED, PUSHES, CLIENTS = 100_000, 5_000, 10_000, 5, 4
SETTLED = 2.0  # seconds of asking after a push
PROMISED = 1.0  # second


def main() -> None:
    url = sys.argv[sys.argv.index("--events") + 1] if "--events" in sys.argv else ""
    print(report.machine())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.fmpair"
        model().save(path)
        more = ["--events", url] if url else []
        with fmpair_service(path, 2, *more) as address:
            rows = [pushed(address, f"serve {path}", number) for number in range(PUSHES)]
    for row in rows:
        print("  ".join(f"{name} {value:.3f}" for name, value in row.items()))
    took = float(np.median([row["in all answers, s"] for row in rows]))
    checks = [Check("10,000 changed items in all answers, s", took, PROMISED, True)]
    print(f"\n{report.text('push', Answer({}, checks))}")


def model() -> Any:
    draw = np.random.default_rng(0)
    count = 5 * ITEMS
    events = {"user": draw.integers(USERS, size=count), "item": draw.integers(ITEMS, size=count)}
    items = {
        "item": np.arange(ITEMS),
        "brand": [f"b{n}" for n in draw.integers(200, size=ITEMS)],
        "price": draw.random(ITEMS) * 100,
        "stock": np.zeros(ITEMS, np.int64),
    }
    data = Dataset.from_frame(events, items=items)
    return FMPair(factors=64, epochs=1, history=0, order=2, times=False).fit(data)


def pushed(address: str, words: str, number: int) -> dict[str, float]:
    """Push once; return when the push was answered and when all answers had it, in seconds."""
    draw = np.random.default_rng(number)
    changed = {
        "item": draw.permutation(ITEMS)[:CHANGED],
        "price": draw.random(CHANGED) * 100,
        "stock": np.full(CHANGED, number + 1),
    }
    before = processor_seconds(words)
    with asking(address, f"stock={number + 1}") as (empty, answered):
        time.sleep(0.3)
        begun = time.perf_counter()
        push(pl.DataFrame(changed), address)
        taken = time.perf_counter() - begun
        time.sleep(SETTLED)
    last = max((sent for sent in empty if sent > begun), default=begun)
    fresh = [sent for sent in answered if sent > last]
    assert fresh, "no answer has the change"
    return {
        "push answered, s": taken,
        "in all answers, s": min(fresh) - begun,
        "CPU s": processor_seconds(words) - before,
    }


@contextmanager
def asking(address: str, rule: str):
    """Ask all the time; yield when each question without items and with items was sent."""
    empty: list[float] = []
    answered: list[float] = []
    refused: list[dict[str, Any]] = []
    stop = threading.Event()

    def ask(seed: int) -> None:
        connection = http.client.HTTPConnection(urlsplit(address).netloc)
        draw = np.random.default_rng(seed)
        while not stop.is_set():
            body = json.dumps({"user": int(draw.integers(USERS)), "n": 10, "where": rule})
            sent = time.perf_counter()
            connection.request("POST", "/v1/recommend", body, {"Content-Type": "application/json"})
            answer = json.loads(connection.getresponse().read())
            if "items" not in answer:
                refused.append(answer)
                return
            (answered if answer["items"] else empty).append(sent)
            time.sleep(0.005)
        connection.close()

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield empty, answered
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not refused, f"{len(refused)} questions were refused: {refused[0]}"


if __name__ == "__main__":
    main()
