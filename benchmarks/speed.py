"""How many effective updates a second, on the same data with the same number of factors?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import data
from measure import Answer, Bench, Check, in_turn, median, ratio, updates_a_second

THREADS = (1, 2)
EPOCHS = 6  # the first is not counted; fmpair deals its blocks anew in one of the other five
SMALL_EPOCHS = 21  # an epoch of the small set is a few hundredths of a second
SLOW_EPOCHS = {"lightfm-next": 1}  # an epoch takes seconds, and nothing has to warm up

# Name in the table, its folder, numbers of factors, epochs, least ratio to implicit.
SETS: tuple[tuple[str, Callable[[Path], str], tuple[int, ...], int, float], ...] = (
    ("ML-1M", lambda folder: data.movielens(folder, "ml-1m"), (32, 128), EPOCHS, 4.0),
    ("ML-100K", lambda folder: data.movielens(folder, "ml-100k"), (10, 64), SMALL_EPOCHS, 3.0),
    ("Zipf 2M", data.zipf, (32,), EPOCHS, 3.0),
)
MIN_GAINS = {"cornac": 2.5, "buffalo": 2.5}


def run(bench: Bench) -> Answer:
    rows: list[dict[str, Any]] = []
    checks: list[Check] = []
    for name, folder, sizes, epochs, to_implicit in SETS:
        least = {"implicit": to_implicit, **MIN_GAINS}
        for factors in sizes:
            rates = _rates(bench, folder(bench.folder), factors, epochs)
            rows += [_row(name, factors, threads, rates, bench) for threads in THREADS]
            checks += _checks(f"{name}, {factors} factors", rates, least, name == "ML-100K")
    notes = [f"{library}: {why}" for library, why in bench.missing.items()]
    return Answer({"speed": rows}, checks, notes)


def _rates(bench: Bench, folder: str, factors: int, epochs: int) -> dict[Any, list[float]]:
    """Million updates a second by (library, threads)."""

    def measure(library: str, threads: int) -> float:
        count = SLOW_EPOCHS.get(library, epochs)
        return updates_a_second(
            bench.workers[library].ask(
                "train", folder=folder, factors=factors, threads=threads, epochs=count
            )
        )

    cases = {
        (library, threads): partial(measure, library, threads)
        for threads in THREADS
        for library in bench.workers
    }
    return in_turn(cases, bench.repeats)


def _row(name: str, factors: int, threads: int, rates, bench: Bench) -> dict[str, Any]:
    ours = rates["fmpair", threads]
    row: dict[str, Any] = {"data": name, "factors": factors, "threads": threads}
    row |= {library: median(rates[library, threads]) for library in bench.workers}
    others = [library for library in bench.workers if library != "fmpair"]
    row |= {f"x {library}": ratio(ours, rates[library, threads]) for library in others}
    return row


def _checks(name: str, rates, least: dict[str, float], best_of_both: bool) -> list[Check]:
    """One promise per peer and number of threads; on the small set implicit's better one counts."""
    checks = []
    for library, target in least.items():
        if best_of_both and library == "implicit":
            ours, theirs = _better("fmpair", rates), _better(library, rates)
            checks.append(
                Check(f"{name}: x {library}, better of both", ratio(ours, theirs), target)
            )
            continue
        for threads in THREADS:
            theirs = rates.get((library, threads))
            value = ratio(rates["fmpair", threads], theirs) if theirs else None
            plural = "s" if threads > 1 else ""
            checks.append(Check(f"{name}, {threads} thread{plural}: x {library}", value, target))
    return checks


def _better(library: str, rates) -> list[float]:
    """The values of the number of threads with the higher median."""
    return max((rates[library, threads] for threads in THREADS), key=median)
