"""What do more threads bring?"""

from __future__ import annotations

import os
from functools import partial

import data
from measure import Answer, Bench, Check, in_turn, median, ratio, updates_a_second

FACTORS = (32, 128)
EPOCHS = 11
LEAST = 1.7


def run(bench: Bench) -> Answer:
    folder = data.movielens(bench.folder, "ml-1m")
    counts = [n for n in (1, 2, 4, 8, 16) if n <= max(os.cpu_count() or 1, 2)]
    rows, checks = [], []
    for factors in FACTORS:
        rates = _rates(bench, folder, factors, counts)
        for threads in counts:
            gain = ratio(rates[threads], rates[1])
            rows.append({"factors": factors, "threads": threads,
                         "million updates/s": median(rates[threads]), "x one": gain})  # fmt: skip
            if threads == 2:
                name = f"ML-1M, {factors} factors: two threads x one"
                checks.append(Check(name, gain, LEAST))
    return Answer({"threads": rows}, checks)


def _rates(bench: Bench, folder: str, factors: int, counts: list[int]) -> dict[int, list[float]]:
    """Million updates a second by number of threads."""

    def measure(threads: int) -> float:
        return updates_a_second(
            bench.workers["fmpair"].ask(
                "train", folder=folder, factors=factors, threads=threads, epochs=EPOCHS
            )
        )

    return in_turn({n: partial(measure, n) for n in counts}, bench.repeats)
