"""How long do lists for all users, and the evaluation of all users, take?"""

from __future__ import annotations

import os
from functools import partial
from itertools import product
from typing import Any

import data
from measure import Answer, Bench, Check, in_turn, median, ratio

FACTORS = (32, 128)
LENGTH = 10
MIN_GAIN = 3.0
MAX_SECONDS = 1.0
MANY = 20_000  # users of a larger set, on more and more threads
RANKED = {"kernel": "top-10", "ranks": "ranks", "evaluate": "evaluate"}


def run(bench: Bench) -> Answer:
    folder = data.movielens(bench.folder, "ml-1m")
    rows: list[dict[str, Any]] = []
    checks: list[Check] = []
    for factors in FACTORS:
        took = _seconds(bench, folder, factors)
        row = {"factors": factors, "fmpair recommend": median(took["recommend"]),
               "fmpair arrays only": median(took["kernel"])}  # fmt: skip
        gain = None
        if "implicit" in took:
            gain = ratio(took["implicit"], took["recommend"])
            row |= {"implicit recommend": median(took["implicit"]), "x implicit": gain,
                    "arrays only x implicit": ratio(took["implicit"], took["kernel"])}  # fmt: skip
        row["fmpair ranks of all users"] = median(took["ranks"])
        rows.append(row)
        name = f"top-{LENGTH} of every ML-1M user, {factors} factors: x implicit"
        checks.append(Check(name, gain, MIN_GAIN))
        name = f"full ranking of all users, {factors} factors: seconds"
        checks.append(Check(name, row["fmpair ranks of all users"], MAX_SECONDS, True))
    return Answer({"topn": rows, "topn by threads": _by_threads(bench, folder)}, checks)


def _by_threads(bench: Bench, folder: str) -> list[dict[str, Any]]:
    """Seconds on more and more threads, and how many times as fast as on one."""
    counts = [n for n in (1, 2, 4, 8, 16) if n <= (os.cpu_count() or 1)]
    sets = {"ML-1M": (folder, None), f"{MANY:,} x 50,000": (data.zipf(bench.folder), MANY)}
    rows = []
    for (name, (place, users)), factors in product(sets.items(), FACTORS):
        options = {"folder": place, "factors": factors, "n": LENGTH, "users": users}
        ask = partial(bench.workers["fmpair"].ask, "rank", **options)
        ask(threads=1)  # fits
        took: dict[int, list[Any]] = in_turn(
            {n: partial(ask, threads=n) for n in counts},  # type: ignore[misc]
            bench.repeats,
        )
        for n in counts:
            row: dict[str, Any] = {"users x items": name, "factors": factors, "threads": n}
            for key, work in RANKED.items():
                ours, one = ([answer[key] for answer in took[count]] for count in (n, 1))
                row |= {f"{work} s": median(ours), f"{work} x one": ratio(one, ours)}
            rows.append(row)
    return rows


def _seconds(bench: Bench, folder: str, factors: int) -> dict[str, list[float]]:
    """Seconds by what was done; the first round is not counted, since it compiles and fits."""

    def ask(library: str) -> dict[str, float]:
        return bench.workers[library].ask("top", folder=folder, factors=factors, n=LENGTH)

    libraries = [name for name in ("fmpair", "implicit") if name in bench.workers]
    rounds: dict[str, list[Any]] = in_turn(
        {name: partial(ask, name) for name in libraries}, 1 + max(bench.repeats, 3)
    )  # type: ignore[assignment]
    counted = {name: answers[1:] for name, answers in rounds.items()}
    took = {key: [answer[key] for answer in counted["fmpair"]]
            for key in ("recommend", "kernel", "ranks")}  # fmt: skip
    if "implicit" in counted:
        took["implicit"] = [answer["recommend"] for answer in counted["implicit"]]
    return took
