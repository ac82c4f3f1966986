"""Measure the cost of histories: training time, memory, and adding new events (`extended`).

    python benchmarks/histories.py [EVENTS, 20000000 unless given]

Epochs with and without a history take turns, with as many candidates, on generated events of the
size of MovieLens 1M; memory is the peak of a process of its own. Prints one table.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from statistics import median

import numpy as np
import polars as pl

from fmpair import Dataset
from fmpair.data.synthetic import zipf_events
from fmpair.models import FMPair

REPEATS = 5
CANDIDATES = 57  # what softmax takes of 3,706 items
LAST = 10


def main() -> None:
    if sys.argv[1:2] == ["--peak"]:
        print(peak_of(int(sys.argv[2]), int(sys.argv[3])))
        return
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000_000
    data = events_of(6_040, 3_706, 1_000_000)
    times = seconds_of_epochs(data)
    print(
        f"| last {LAST} items against ids only, seconds an epoch | x {times[LAST] / times[0]:.2f} |"
    )
    print(f"| memory an event, {events:,} events | {bytes_an_event(events):.1f} bytes |")
    of_frame, of_data = seconds_to_extend(data)
    print(f"| add 1,000 events of a Dataset (`extended`) | {1000 * of_data:.1f} ms |")
    print(f"| add 1,000 events of a frame (`extended`) | {1000 * of_frame:.1f} ms |")


def events_of(users: int, items: int, events: int) -> Dataset:
    """Generated events in order of time."""
    user, item = zipf_events(users, items, events)
    order = np.random.default_rng(0).permutation(events)
    return Dataset.from_frame(
        pl.DataFrame({"user": user[order], "item": item[order]}), order="rows"
    )


def seconds_of_epochs(data: Dataset) -> dict[int, float]:
    """Median seconds of an epoch with a history and without, by turns, but the first of each."""
    runs = {
        last: FMPair(history=last, n_negatives=CANDIDATES, epochs=REPEATS + 1).train(data)
        for last in (0, LAST)
    }
    seconds: dict[int, list[float]] = {last: [] for last in runs}
    for _ in range(REPEATS + 1):
        for last, epochs in runs.items():
            seconds[last].append(next(epochs).seconds)
    return {last: median(found[1:]) for last, found in seconds.items()}


def bytes_an_event(events: int) -> float:
    """By how much the peak of training grows with a history, in bytes an event."""
    with_one, without = (
        int(subprocess.check_output([sys.executable, __file__, "--peak", str(events), str(last)]))
        for last in (LAST, 0)
    )
    return (with_one - without) / events


def peak_of(events: int, last: int) -> int:
    """The most bytes that two epochs need."""
    data = events_of(events // 100, 20_000, events)
    for epoch in FMPair(history=last, factors=32, n_negatives=4, epochs=2).train(data):
        print(f"epoch {epoch.number}: {epoch.seconds:.0f} s", file=sys.stderr)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def seconds_to_extend(data: Dataset) -> tuple[float, float]:
    """Median seconds until a model knows 1,000 further events, of a frame and of a Dataset."""
    *_, last = FMPair(history=LAST, epochs=1, n_negatives=4).train(data)
    model, rng = last.recommender(), np.random.default_rng(1)
    user, item = data.users.ids, data.items.ids
    of_frame, of_data = [], []
    for _ in range(5 * REPEATS):
        news = pl.DataFrame(
            {
                "user": user.gather(rng.integers(0, len(user), 1_000)),
                "item": item.gather(rng.integers(0, len(item), 1_000)),
            }
        )
        for events, found in ((news, of_frame), (Dataset.from_frame(news), of_data)):
            began = time.perf_counter()
            model.extended(events)
            found.append(time.perf_counter() - began)
    return median(of_frame), median(of_data)


if __name__ == "__main__":
    main()
