"""What do features cost: beside lightfm-next, and as their number and that of factors grows?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import data
from measure import (
    Answer,
    Bench,
    Check,
    in_turn,
    median,
    ratio,
    straight_line,
    updates_a_second,
)

FACTORS = 32
USER_COLUMNS, ITEM_COLUMNS = 4, 11
SIZES = (8, 16, 32, 64, 96, 128)
COUNTS = (0, 1, 2, 4, 6, 8)
EPOCHS = 6
LIST_COUNTS = (0, 4, 12)
LIST_EPOCHS = 2  # of lists: the first may compile
MIN_R2 = 0.98


def run(bench: Bench) -> Answer:
    folder = data.movielens(bench.folder, "ml-1m")
    beside, promise = _beside_lightfm(bench, folder)
    tables, checks = {"attributes": beside}, [promise]
    series = {
        "factors": [{"factors": k} for k in SIZES],
        "contexts": [{"context_columns": n} for n in COUNTS],
        "item attributes": [{"item_columns": n} for n in COUNTS],
    }
    for name, cases in series.items():
        seconds = _seconds(bench, folder, cases)
        x = [next(iter(case.values())) for case in cases]
        rows, r2 = _table(name, x, [median(values) for values in seconds])
        tables[f"cost of {name}"] = rows
        checks.append(Check(f"time is linear in {name}: R2", r2, MIN_R2))
        if name == "contexts":
            cost = ratio(seconds[1], seconds[0])
            checks.append(Check("one context field: x ids only", cost, 1.4, at_most=True))
    tables["cost of item attributes in lists"], promise = _in_lists(bench)
    return Answer(tables, [*checks, promise])


def _in_lists(bench: Bench) -> tuple[list[dict[str, Any]], Check]:
    """Softmax over 256 negatives, events and items as many as of Amazon-book, two threads."""
    folder = data.books(bench.folder)

    def measure(columns: int) -> float:
        answer = bench.workers["fmpair"].ask(
            "train", folder=folder, factors=FACTORS, threads=2, epochs=LIST_EPOCHS, loss="softmax",
            item_columns=columns,
        )  # fmt: skip
        return median(answer["seconds"][1:])

    seconds = in_turn({n: partial(measure, n) for n in LIST_COUNTS}, bench.repeats)
    rows = [
        {"item attributes": n, "seconds": median(took), "x ids only": ratio(took, seconds[0])}
        for n, took in seconds.items()
    ]
    cost = ratio(seconds[LIST_COUNTS[-1]], seconds[0])
    return rows, Check("softmax, 12 item attributes: x ids only", cost, 2.5, at_most=True)


def _beside_lightfm(bench: Bench, folder: str) -> tuple[list[dict[str, Any]], Check]:
    """Both with the ids, 4 user attributes and 11 item attributes in every row."""

    def measure(library: str, threads: int) -> float:
        epochs = 1 if library == "lightfm-next" else EPOCHS
        return updates_a_second(
            bench.workers[library].ask(
                "train", folder=folder, factors=FACTORS, threads=threads, epochs=epochs,
                user_columns=USER_COLUMNS, item_columns=ITEM_COLUMNS,
            )
        )  # fmt: skip

    libraries = [name for name in ("fmpair", "lightfm-next") if name in bench.workers]
    cases = {(t, name): partial(measure, name, t) for t in (1, 2) for name in libraries}
    rates = in_turn(cases, min(bench.repeats, 3))
    rows, ratios = [], []
    for threads in (1, 2):
        row = {"threads": threads, **{name: median(rates[threads, name]) for name in libraries}}
        if len(libraries) == 2:
            ratios.append(ratio(*(rates[threads, name] for name in libraries)))
            row["x lightfm-next"] = ratios[-1]
        rows.append(row)
    worst = min(ratios, default=None)
    return rows, Check("4 user and 11 item features: x lightfm-next", worst, 10.0)


def _seconds(bench: Bench, folder: str, series: Sequence[dict[str, int]]) -> list[list[float]]:
    """Seconds an epoch of every case, on one thread."""

    def measure(case: dict[str, int]) -> float:
        answer = bench.workers["fmpair"].ask(
            "train", folder=folder, threads=1, epochs=EPOCHS, **{"factors": FACTORS, **case}
        )
        return median(answer["seconds"][1:])

    cases = {n: partial(measure, case) for n, case in enumerate(series)}
    return list(in_turn(cases, bench.repeats).values())


def _table(
    name: str, x: Sequence[float], seconds: list[float]
) -> tuple[list[dict[str, Any]], float]:
    """Seconds an epoch beside the straight line through them; and how well it fits."""
    intercept, slope, r2 = straight_line(x, seconds)
    rows = [
        {name: at, "seconds": took, "line": intercept + slope * at} for at, took in zip(x, seconds)
    ]
    return rows, r2
