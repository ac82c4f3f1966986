"""What do vectors of items add to the time of a whole fit, and in which parts of it?

    python benchmarks/content_cost.py [--device cuda] [--threads 2] [--repeats 2] [--epochs N]

Fits FMPair() to a generated log of 100,000 items and 300,000 events (`content.generated`), with ids
alone and with vectors of 384 dimensions, in turns. A small fit before them loads and compiles what
every fit needs. Prints the seconds of each fit and of its parts, and the ratio of the means.

The parts: `encode` makes arrays of the data, `start` computes the content profile, `steps` are all
epochs, `regress` follows training, `fold` adds content to items and `judge` ranks held-out events,
both in trials of the regularisation; `rest` is everything else. Parts of trials are included.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from content import data_of, recipe

from fmpair import Dataset
from fmpair.training import epochs, loop, start

PARTS: tuple[tuple[str, Any, str], ...] = (
    ("encode", loop, "task_of"),
    ("start", start, "add_content"),
    ("steps", loop._Progress, "run"),
    ("regress", loop, "regressed"),
    ("fold", loop, "folded"),
    ("judge", epochs.Validation, "values"),
)
FIELDS = ("ids", "text")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--repeats", type=int, default=2)
    asked = parser.parse_args()
    seconds: Counter[str] = Counter()
    for name, owner, function in PARTS:
        setattr(owner, function, timed(name, getattr(owner, function), seconds))
    recipe(0, asked).fit(small())
    data = {given: data_of("generated", given) for given in FIELDS}
    print(f"| fields | factors | fit | {' | '.join(name for name, *_ in PARTS)} | rest |")
    print("|---" * (len(PARTS) + 4) + "|")
    fits: dict[str, list[float]] = {given: [] for given in FIELDS}
    for _ in range(asked.repeats):
        for given in FIELDS:
            seconds.clear()
            begin = time.perf_counter()
            model = recipe(0, asked).fit(data[given])
            fits[given].append(time.perf_counter() - begin)
            parts = [seconds[name] for name, *_ in PARTS]
            shown = [fits[given][-1], *parts, fits[given][-1] - sum(parts)]
            factors = model.parameters.users.shape[1]
            print(f"| {given} | {factors} | {' | '.join(f'{s:.2f}' for s in shown)} |", flush=True)
    means = [float(np.mean(fits[given])) for given in FIELDS]
    print(f"384 dimensions take {means[1] / means[0]:.2f} times ids only")


def timed(name: str, function: Callable[..., Any], seconds: Counter[str]) -> Callable[..., Any]:
    """Return the function with its seconds added to the count."""

    def run(*args: Any, **options: Any) -> Any:
        begin = time.perf_counter()
        try:
            return function(*args, **options)
        finally:
            seconds[name] += time.perf_counter() - begin

    return run


def small() -> Dataset:
    """Return a few events with vectors, enough for trials."""
    rng = np.random.default_rng(1)
    events = pl.DataFrame(
        {"user": rng.integers(0, 2000, 30_000), "item": rng.integers(0, 500, 30_000)}
    )
    items = pl.DataFrame({"item": np.arange(500), "text": rng.normal(size=(500, 16))})
    return Dataset.from_frame(events, items=items)


if __name__ == "__main__":
    main()
