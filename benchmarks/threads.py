"""What do more threads bring, up to all cores of the machine?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import data
from measure import Answer, Bench, Check, in_turn, median, ratio, updates_a_second

PEER = "implicit"
MANY = 16  # cores from which on the promises for many are tested


@dataclass(frozen=True)
class Case:
    """One row a number of threads. of_many: least gain of MANY threads over one.

    factors: None for the defaults of FMPair; beside: least ratio to the peer at MANY threads;
    whole: on every number of threads, not only on one, two and all.
    """

    name: str
    folder: Any
    loss: str
    factors: int | None
    epochs: int
    of_many: float
    beside: float | None = None
    whole: bool = True


def _movielens(folder):
    return data.movielens(folder, "ml-1m")


CASES = (
    Case("ML-1M, BPR, 32 factors", _movielens, "bpr", 32, 11, 10, 5),
    Case("ML-1M, BPR, 128 factors", _movielens, "bpr", 128, 11, 10, 5, whole=False),
    Case("ML-1M, softmax, defaults", _movielens, "softmax", None, 3, 11),
    Case(
        "20M events, BPR, 32 factors",
        lambda f: data.series(f, "20M"),
        "bpr",
        32,
        6,
        10,
        whole=False,
    ),
)
MIN_OF_TWO = 1.7


def run(bench: Bench) -> Answer:
    most = max(os.cpu_count() or 1, 2)
    rows, checks = [], []
    for case in CASES:
        counts = [n for n in (1, 2, 4, 8, 16) if n <= most and (case.whole or n in (1, 2, 16))]
        rates = _rates(bench, case, counts)
        rows += [_row(case, threads, rates) for threads in counts]
        checks += _checks(case, rates, counts)
    return Answer({"threads": rows}, checks)


def _rates(bench: Bench, case: Case, counts: list[int]) -> dict[Any, list[float]]:
    """Million updates a second by (library, number of threads)."""
    folder = case.folder(bench.folder)

    def measure(library: str, threads: int) -> float:
        own = {"loss": case.loss} if library == "fmpair" else {}
        epochs = case.epochs * max(threads // 4, 1)  # eleven of sixteen threads are over in 70 ms
        return updates_a_second(
            bench.workers[library].ask(
                "train", folder=folder, factors=case.factors, threads=threads, epochs=epochs, **own
            )
        )

    libraries = ["fmpair"] + [PEER] * (case.beside is not None and PEER in bench.workers)
    cases = {(name, n): partial(measure, name, n) for n in counts for name in libraries}
    return in_turn(cases, bench.repeats)


def _row(case: Case, threads: int, rates: Mapping[Any, list[float]]) -> dict[str, Any]:
    ours, theirs = rates["fmpair", threads], rates.get((PEER, threads))
    return {
        "training": case.name, "threads": threads, "million updates/s": median(ours),
        "x one": ratio(ours, rates["fmpair", 1]), PEER: median(theirs) if theirs else None,
        f"x {PEER}": ratio(ours, theirs) if theirs else None,
    }  # fmt: skip


def _checks(case: Case, rates: Mapping[Any, list[float]], counts: list[int]) -> list[Check]:
    def gain(threads: int) -> float:
        return ratio(rates["fmpair", threads], rates["fmpair", 1])

    checks = [Check(f"{case.name}: two threads x one", gain(2), MIN_OF_TWO)]
    if MANY in counts:
        checks.append(Check(f"{case.name}: {MANY} threads x one", gain(MANY), case.of_many))
        theirs = rates.get((PEER, MANY))
        if case.beside is not None:
            value = ratio(rates["fmpair", MANY], theirs) if theirs else None
            checks.append(Check(f"{case.name}, {MANY} threads: x {PEER}", value, case.beside))
    return checks
