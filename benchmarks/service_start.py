"""How long until a service of a large model gives its first answer, and what does a worker cost?

    python benchmarks/service_start.py [--quick]

`fmpair serve` of a generated model of 1 million users, 200,000 items and 32 factors, on one worker
and on two, with compiled kernels. Seconds from the start of the process to the answer of the first
request; processor seconds of all its processes until then, which other work on the machine does
not stretch much; MB that each worker has of its own, once both have answered. --quick: a tenth of
the users and items, once.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import report
from environment import ENVIRONMENTS, HERE
from measure import Answer, Check, median

from fmpair import Dataset, FMPair
from fmpair.data.synthetic import zipf_events
from fmpair.data.vocabulary import Vocabulary
from fmpair.fitted.recommender import from_factors

USERS, ITEMS, FACTORS, EVENTS_EACH = 1_000_000, 200_000, 32, 10
REPEATS, ASKED = 5, 40
START, OWN = 3.0, 50.0  # seconds, MB
ADDRESS = re.compile(r"http://\S+?/")


def main() -> None:
    quick = "--quick" in sys.argv
    print(report.machine())
    path = model_of(USERS // 10 if quick else USERS, ITEMS // 10 if quick else ITEMS)
    answer = run(path, 1 if quick else REPEATS)
    print(f"\n{report.text('service start', answer)}")
    if not quick:
        report.write_csv(answer, HERE / "results")
        report.write_section("service start", answer)


def run(path: Path, repeats: int) -> Answer:
    started(path, 2)  # compiles, and reads the file into memory
    rows = []
    for workers in (1, 2):
        found = [started(path, workers) for _ in range(repeats)]
        rows.append({"workers": workers} | {k: median(one[k] for one in found) for k in found[0]})
    two = rows[-1]
    return Answer(
        {"service start": rows},
        [
            Check("two workers: seconds until the first answer", two["seconds"], START, True),
            Check("two workers: MB that the second has of its own", two["own MB"], OWN, True),
        ],
    )


def model_of(users: int, items: int) -> Path:
    """The file of a model that learned nothing, made once; ids are texts, as mostly."""
    folder = ENVIRONMENTS / "served"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"start-{users}-{items}.fmpair"
    if not path.exists():
        ids = (Vocabulary(pl.Series(range(size)).cast(pl.String)) for size in (users, items))
        data = Dataset(*ids, *zipf_events(users, items, EVENTS_EACH * users), pl.DataFrame())
        rng = np.random.default_rng(0)
        vectors = (rng.standard_normal((size, FACTORS), np.float32) for size in (users, items))
        from_factors(FMPair(factors=FACTORS), data, *vectors).save(path)
    return path


def started(path: Path, workers: int) -> dict[str, float]:
    """Start a service and ask it; what that took, and what its workers have of their own."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--port", "0", "--workers", str(workers), "--events", f"sqlite:{folder}/events.db"]
        command = [sys.executable, "-m", "fmpair", "serve", str(path), "--rate", "0", *flags]
        begun = time.perf_counter()
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            found = next(filter(None, map(ADDRESS.search, process.stderr)), None)
            if found is None:
                raise RuntimeError("the service did not start")
            ask(found[0])
            seconds, processor = time.perf_counter() - begun, processor_seconds(process.pid)
            for _ in range(ASKED):
                ask(found[0])
            own = sorted(own_memory(one) for one in children(process.pid))
            return {"seconds": seconds, "processor seconds": processor, "own MB": own[0]}
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def ask(address: str) -> Any:
    body = json.dumps({"user": "7", "n": 10}).encode()
    with urllib.request.urlopen(f"{address}v1/recommend", body, timeout=30) as answer:
        return json.load(answer)


def children(parent: int) -> list[int]:
    text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(one) for one in text.split()]


def processor_seconds(parent: int) -> float:
    """Processor time that a process and its children have taken."""
    ticks = 0
    for process in (parent, *children(parent)):
        with suppress(OSError):
            fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def own_memory(process: int) -> float:
    """MB that a process does not share."""
    text = Path(f"/proc/{process}/smaps_rollup").read_text()
    return sum(int(size) for size in re.findall(r"Private_\w+:\s+(\d+)", text)) / 1024


if __name__ == "__main__":
    main()
