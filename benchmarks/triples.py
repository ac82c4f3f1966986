"""What does order three cost beside order two, and is the cost linear in the number of contexts?

    python benchmarks/triples.py [EVENTS, 1000000 unless given]

Epochs of both orders take turns, with as many candidates, on generated events of the size of
MovieLens 1M with contexts of random values. Prints one table, with the ratio of medians.
"""

from __future__ import annotations

import sys
from statistics import median

import numpy as np
import polars as pl

from fmpair import Dataset
from fmpair.data.synthetic import zipf_events
from fmpair.models import FMPair

REPEATS = 5
CANDIDATES = 57  # what softmax takes of 3,706 items
FIELDS = (1, 2, 4, 6, 8)
VALUES = 20
HISTORY = 10


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    print("| | order 2, s | order 3, s | ratio |\n|---|---|---|---|")
    times = {count: row(f"{count} contexts", events, count, 0) for count in FIELDS}
    row(f"last {HISTORY} items", events, 0, HISTORY)
    for order in (2, 3):
        print(f"order {order}: R2 of a straight line in the number of contexts "
              f"{straightness(FIELDS, [times[count][order] for count in FIELDS]):.3f}")  # fmt: skip


def row(label: str, events: int, contexts: int, history: int) -> dict[int, float]:
    """Seconds of an epoch by order, printed as a row."""
    data, options = (
        events_of(events, contexts),
        {"history": history, "n_negatives": CANDIDATES, "factors": 64},
    )
    runs = {n: FMPair(order=n, epochs=REPEATS + 1, **options).train(data) for n in (2, 3)}
    seconds: dict[int, list[float]] = {order: [] for order in runs}
    for _ in range(REPEATS + 1):
        for order, epochs in runs.items():
            seconds[order].append(next(epochs).seconds)
    found = {order: median(times[1:]) for order, times in seconds.items()}
    print(f"| {label} | {found[2]:.2f} | {found[3]:.2f} | {found[3] / found[2]:.2f} |", flush=True)
    return found


def events_of(events: int, contexts: int) -> Dataset:
    """Generated events with so many contexts, in order of time."""
    user, item = zipf_events(6_040, 3_706, events)
    rng = np.random.default_rng(0)
    order = rng.permutation(events)
    columns = {f"c{n}": rng.integers(0, VALUES, events).astype(str) for n in range(contexts)}
    frame = pl.DataFrame({"user": user[order], "item": item[order], **columns})
    return Dataset.from_frame(frame, order="rows", context=list(columns))


def straightness(x: tuple[int, ...], y: list[float]) -> float:
    """R2 of the best straight line."""
    return float(np.corrcoef(x, y)[0, 1] ** 2)


if __name__ == "__main__":
    main()
