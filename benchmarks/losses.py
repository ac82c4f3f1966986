"""How fast is every loss and every way to draw negatives, on one thread?

    [FMPAIR_DATA=...] python benchmarks/losses.py [--quick]

On MovieLens 1M where FMPAIR_DATA names its folder, else on generated events of that size. An item
gradient is one update of one item's row: two a step for pairs, candidates + 1 for softmax.
"""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from typing import Any

import polars as pl
import report
from measure import Answer, Check, in_turn, median
from tasks import in_one_line

from fmpair import Dataset, FMPair
from fmpair.data import public_sets
from fmpair.data.synthetic import zipf_events
from fmpair.data.vocabulary import Vocabulary

FACTORS = (32, 64)
CANDIDATES = 32
MIN_GRADIENTS = 20.0  # million item gradients a second and thread
REPEATS, QUICK_REPEATS = 5, 1
USERS, ITEMS, EVENTS = 6_000, 3_700, 1_000_000

# Name -> (options, item gradients an event; None where it depends on what is found).
KINDS: dict[str, tuple[dict[str, Any], int | None]] = {
    "bpr": ({}, 2),
    "hinge": ({"loss": "hinge"}, 2),
    "logistic": ({"loss": "logistic"}, 2),
    "warp": ({"loss": "warp", "n_negatives": CANDIDATES}, None),
    "softmax": ({"loss": "softmax", "n_negatives": CANDIDATES}, CANDIDATES + 1),
    "softmax of cosines": (
        {"loss": "softmax", "n_negatives": CANDIDATES, "temperature": 0.2, "init_std": 0.1},
        CANDIDATES + 1,
    ),
    "bpr, popularity": ({"negative_sampler": "popularity"}, 2),
    "bpr, adaptive": ({"negative_sampler": "adaptive"}, 2),
}


def main() -> None:
    repeats = QUICK_REPEATS if "--quick" in sys.argv else REPEATS
    name, data = events()
    print(report.machine())
    print(f"\nlosses ({name}, one thread)\n")
    print(report.text("losses", run(data, repeats)))


def run(data: Dataset, repeats: int) -> Answer:
    """Million events and item gradients a second, by number of factors and kind."""
    rows, checks = [], []
    for factors in FACTORS:
        cases = {kind: partial(_speed, data, factors, options)
                 for kind, (options, _) in KINDS.items()}  # fmt: skip
        for kind, values in in_turn(cases, repeats).items():
            each, speed = KINDS[kind][1], median(values)
            gradients = each and each * speed
            rows.append({"factors": factors, "kind": kind, "M events/s": speed,
                         "M item gradients/s": gradients})  # fmt: skip
            if kind == "softmax" and factors == 64:
                claim = f"softmax, {CANDIDATES} candidates, k=64: M item gradients/s"
                checks.append(Check(claim, gradients, MIN_GRADIENTS))
    return Answer({"losses": rows}, checks)


def events() -> tuple[str, Dataset]:
    """Users and items only, of MovieLens 1M or generated."""
    if "FMPAIR_DATA" in os.environ:
        data = public_sets.load("ml-1m")
        return "MovieLens 1M", Dataset(data.users, data.items, data.user, data.item, pl.DataFrame())
    ids = [Vocabulary(pl.Series(range(size))) for size in (USERS, ITEMS)]
    return "generated", Dataset(*ids, *zipf_events(USERS, ITEMS, EVENTS), pl.DataFrame())


def _speed(data: Dataset, factors: int, options: dict[str, Any]) -> float:
    """Million events a second of this thread's own time, the better of two epochs.

    The first is left out: it may compile. On a busy machine other programs take no part in it.
    """
    epochs = iter(FMPair(factors=factors, epochs=3, threads=1, **options).train(data))
    next(epochs)
    seconds = []
    for _ in range(2):
        began = time.thread_time()
        next(epochs)
        seconds.append(time.thread_time() - began)
    return len(data) / min(seconds) / 1e6


if __name__ == "__main__":
    in_one_line(main)
