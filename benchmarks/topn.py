"""How long do lists for all users, and the evaluation of all users, take?"""

from __future__ import annotations

from functools import partial
from typing import Any

import data
from measure import Answer, Bench, Check, in_turn, median, ratio

FACTORS = (32, 128)
LENGTH = 10
LEAST = 3.0
MOST_SECONDS = 1.0


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
        checks.append(Check(name, gain, LEAST))
        name = f"full ranking of all users, {factors} factors: seconds"
        checks.append(Check(name, row["fmpair ranks of all users"], MOST_SECONDS, True))
    return Answer({"topn": rows}, checks)


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
