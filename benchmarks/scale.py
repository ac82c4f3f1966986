"""How do time and memory grow with the number of events?"""

from __future__ import annotations

import os
from statistics import fmean
from typing import Any

import data
from measure import Answer, Bench, Check
from worker import Worker

FACTORS = 32
EPOCHS = 6
MAX_TIMES_ENCODED = 3.0
MAX_GIGABYTES = 24.0
LARGEST = "20M"


def run(bench: Bench) -> Answer:
    rows = [_row(bench, name) for name in data.SERIES]
    largest = rows[-1]
    return Answer({"scale": rows}, [
        Check(f"{LARGEST} events: GB at most", largest["peak MB"] / 1000, MAX_GIGABYTES, True),
        Check(f"{LARGEST} events: training's memory x encoded data", largest["x encoded"],
              MAX_TIMES_ENCODED, True),
    ])  # fmt: skip


def _row(bench: Bench, name: str) -> dict[str, Any]:
    """One size, in a process of its own so that its peak is its own.

    Encoded data are 8 bytes an event, user and item; the ratio leaves out what the idle program
    holds before it has read any data.
    """
    folder = data.series(bench.folder, name)
    worker = Worker("fmpair")
    try:
        answer = worker.ask("grow", folder=folder, factors=FACTORS, threads=os.cpu_count(),
                            epochs=EPOCHS)  # fmt: skip
    finally:
        worker.close()
    users, items, _ = data.SERIES[name]
    seconds = fmean(answer["seconds"][1:])  # one of the five deals the blocks anew
    return {
        "events": answer["updates"][0], "users": users, "items": items,
        "seconds an epoch": seconds,
        "million updates/s": answer["updates"][0] / seconds / 1e6,
        "encoded MB": answer["encoded"] / 1e6, "idle MB": answer["idle"] / 1e6,
        "peak MB": answer["peak"] / 1e6,
        "x encoded": (answer["peak"] - answer["idle"]) / answer["encoded"],
    }  # fmt: skip
