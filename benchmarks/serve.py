"""How many requests a second does a service answer, and how long does each wait?

    python benchmarks/serve.py [--quick] [--alone]

`fmpair serve` of ML-1M (64 factors, two columns of context, histories) and of generated catalogues
of 100,000 and 1 million items, on one worker and two, beside a minimal service of FastAPI and
implicit with vectors of the same size. Client and service share the machine. Every connection has
one request under way; questions are of users drawn at random, 10 items each. --alone: without the
other library, which is installed into an environment of its own. --quick: few requests.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import report
from environment import ENVIRONMENTS, HERE, NotInstallableError, serving
from lookup import FACTORS, generated
from measure import Answer, Check

from fmpair import FMPair, Recommender, load
from fmpair.data import public_sets

FEW_USERS = 20_000
DAYTIMES = ["night", "morning", "afternoon", "evening"]
ADDRESS = re.compile(r"http://\S+?/")
PEER_PORT = 8765


@dataclass(frozen=True)
class Catalogue:
    """name: of its table row; requests: how many are sent; connections: by how many clients."""

    name: str
    requests: int
    connections: int


CATALOGUES = (
    Catalogue("ML-1M", 200_000, 8),
    Catalogue("100k items", 20_000, 8),
    Catalogue("1M items", 2_000, 2),
)


def main() -> None:
    quick, alone = "--quick" in sys.argv, "--alone" in sys.argv
    print(report.machine())
    answer = run(quick, alone)
    print(f"\n{report.text('serve', answer)}")
    if not quick:
        report.write_csv(answer, HERE / "results")
        report.write_section("serve", answer)


def run(quick: bool, alone: bool) -> Answer:
    rows, notes = [], []
    peer = None
    if not alone:
        try:
            peer = serving()
        except NotInstallableError as error:
            notes.append(f"FastAPI and implicit are not installable here: {error}")
    for one in CATALOGUES:
        path = model_of(one.name)
        count = one.requests // 20 if quick else one.requests
        for workers in (1, 2):
            with fmpair_service(path, workers) as address:
                found = loaded(address, bodies(path, one.name), one.connections, count)
            rows.append({"service": "fmpair", "catalogue": one.name, "workers": workers} | found)
        if peer is not None:
            for workers in (1, 2):
                with peer_service(peer, path, workers) as address:
                    asked = [{k: b[k] for k in ("user", "n")} for b in bodies(path, one.name)]
                    found = loaded(address, asked, one.connections, count // 4)
                row = {"service": "FastAPI + implicit", "catalogue": one.name, "workers": workers}
                rows.append(row | found)
    return Answer({"serve": rows}, checks(rows), notes)


def checks(rows: list[dict[str, Any]]) -> list[Check]:
    """The promises, by the better number of workers."""
    own = [row for row in rows if row["service"] == "fmpair"]
    small = max(_of(own, "ML-1M"), key=lambda row: row["requests/s"])
    large = min(_of(own, "1M items"), key=lambda row: row["p99 ms"])
    return [
        Check("ML-1M: requests a second", small["requests/s"], 4_000),
        Check("ML-1M: p99, ms", small["p99 ms"], 5, True),
        Check("ML-1M: failed requests", float(small["failed"]), 0, True),
        Check("1M items: p99, ms", large["p99 ms"], 60, True),
    ]


def _of(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["catalogue"] == name]


def model_of(name: str) -> Path:
    """The file of a model, made once."""
    folder = ENVIRONMENTS / "served"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name.replace(' ', '-')}.fmpair"
    if not path.exists():
        model = movielens() if name == "ML-1M" else generated(FEW_USERS, _items(name))
        model.save(path)
    return path


def _items(name: str) -> int:
    return {"100k items": 100_000, "1M items": 1_000_000}[name]


def movielens() -> Recommender:
    """ML-1M with the time of day and the day of the week as context; how well is not the point."""
    data = public_sets.load("ml-1m")
    times = pl.from_epoch(data.columns["timestamp"])
    frame = pl.DataFrame(
        {
            "user": data.users.take(data.user),
            "item": data.items.take(data.item),
            "timestamp": data.columns["timestamp"],
            "daytime": pl.Series(DAYTIMES).gather(times.dt.hour() // 6),
            "weekday": times.dt.weekday().cast(pl.String),
        }
    )
    return FMPair(factors=FACTORS, epochs=3, history=10).fit(frame)


def bodies(path: Path, name: str) -> list[dict[str, Any]]:
    """Questions of users drawn at random."""
    ids = load(path, mapped=True).space.users.ids
    draw = np.random.default_rng(1)
    users = ids.gather(draw.integers(len(ids), size=5_000)).to_list()
    if name != "ML-1M":
        return [{"user": user, "n": 10} for user in users]
    return [
        {
            "user": user,
            "n": 10,
            "context": {
                "daytime": DAYTIMES[draw.integers(4)],
                "weekday": str(1 + draw.integers(7)),
            },
        }
        for user in users
    ]


@contextmanager
def fmpair_service(
    path: Path, workers: int, *more: str, program: tuple[str, ...] = ("-m", "fmpair")
) -> Iterator[str]:
    """The address of a service of our own; more: flags."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--port", "0", "--workers", str(workers), "--events", f"sqlite:{folder}/events.db"]
        command = [sys.executable, *program, "serve", str(path), *flags, *more]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            said = next((line for line in process.stderr if ADDRESS.search(line)), "")
            found = ADDRESS.search(said)
            # a service that says more than a pipe holds would wait for a reader
            threading.Thread(target=process.stderr.read, daemon=True).start()
            if found is None:
                raise RuntimeError("the service did not start")
            yield found[0]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


@contextmanager
def peer_service(python: Path, path: Path, workers: int, **settings: str) -> Iterator[str]:
    """The address of the service of FastAPI and implicit, with vectors of the same model."""
    vectors = vectors_of(path)
    command = [str(python), "-m", "uvicorn", "implicit_service:app", "--log-level", "warning",
               "--port", str(PEER_PORT), "--workers", str(workers)]  # fmt: skip
    own = {"MODEL": str(vectors), "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": "", **settings}
    process = subprocess.Popen(command, cwd=HERE / "workers", env={**os.environ, **own})
    try:
        address = f"http://127.0.0.1:{PEER_PORT}/"
        _await(f"{address}docs")
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def vectors_of(path: Path) -> Path:
    """The file of a model's vectors, made once."""
    vectors = path.with_suffix(".npz")
    if not vectors.exists():
        model = load(path)
        np.savez(
            vectors,
            users=model.user_vectors,
            items=model.item_vectors,
            start=model.seen.start,
            column=model.seen.column,
            user_ids=model.user_ids.astype(str),
            item_ids=model.item_ids.astype(str),
        )
    return vectors


def _await(address: str) -> None:
    for _ in range(300):
        try:
            urllib.request.urlopen(address, timeout=5)
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"nothing answers at {address}")


def warming(count: int) -> int:
    """How many requests are sent before those that count."""
    return max(count // 50, 50)


def loaded(
    address: str, asked: list[dict[str, Any]], connections: int, count: int
) -> dict[str, Any]:
    """What a client in a process of its own measures, after a few requests that are not counted."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(asked, file)
        file.flush()
        for requests in (warming(count), count):
            command = [sys.executable, str(HERE / "load.py"), f"{address}v1/recommend", file.name,
                       "--connections", str(connections), "--requests", str(requests)]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    return {
        "connections": connections,
        "requests": found["requests"],
        "failed": found["failed"],
        "requests/s": round(found["per_second"]),
        "p50 ms": found["p50_ms"],
        "p99 ms": found["p99_ms"],
        "most ms": found["most_ms"],
    }


if __name__ == "__main__":
    main()
