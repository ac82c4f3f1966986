"""What does order three cost beside order two, and does it rank better?

    python benchmarks/triples.py [EVENTS, 1000000 unless given]
    FMPAIR_DATA=... python benchmarks/triples.py SET ... [--seeds 3] [--threads N]

Cost: epochs of both orders take turns, with as many candidates, on generated events of the size of
MovieLens 1M with contexts of random values. Prints one table, with the ratio of medians.
Ranking: both orders are fitted to a set with its contexts and attributes, other options at their
defaults. A random tenth of its events is held out, another one for each seed. Prints a row per set
with the means over seeds, and for each seed the mean difference of users by its standard error.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from statistics import mean, median

import numpy as np
import polars as pl

from fmpair import Dataset, evaluate
from fmpair.data import holdout, public_sets
from fmpair.data.synthetic import zipf_events
from fmpair.evaluation import Evaluation
from fmpair.models import FMPair

REPEATS = 5
CANDIDATES = 57  # what softmax takes of 3,706 items
FIELDS = (1, 2, 4, 6, 8)
VALUES = 20
HISTORY = 10
METRICS = ("hit@10", "ndcg@10")
# Name -> its events with contexts and attributes.
CONTEXTS: dict[str, Callable[[], Dataset]] = {
    "frappe-cfm": partial(public_sets.load, "frappe-cfm", part="train"),
    "ml-100k": partial(public_sets.load, "ml-100k"),
    "depaul-movie": partial(public_sets.load, "depaul-movie"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("of", nargs="*", default=["1000000"], metavar="EVENTS or SET")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int)
    asked = parser.parse_args()
    if asked.of[0].isdigit():
        costs(int(asked.of[0]))
        return
    print(f"| set | {METRICS[0]} | {METRICS[1]} | z |\n|---|---|---|---|")
    for name in asked.of:
        print(ranking(name, asked.seeds, asked.threads), flush=True)


def costs(events: int) -> None:
    """Print the seconds of epochs of both orders, and how linear they are."""
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


def ranking(name: str, seeds: int, threads: int | None) -> str:
    """Return a row of a table: metrics of order two and three, and z of each seed."""
    data = CONTEXTS[name]()
    protocol = "full-context" if data.context else "full"
    found: dict[int, list[Evaluation]] = {2: [], 3: []}
    for seed in range(seeds):
        train, _, test = holdout(data, test=0.1, seed=10 + seed).parts(data)
        for order, results in found.items():
            model = FMPair(order=order, seed=seed, threads=threads).fit(train)
            results.append(evaluate(model, train, test, protocol, METRICS))
    cells = [
        " / ".join(
            f"{mean(result.means[metric] for result in found[order]):.4f}" for order in found
        )
        for metric in METRICS
    ]
    z = ", ".join(f"{z_of(*pair):.1f}" for pair in zip(found[2], found[3]))
    return f"| {name} | {' | '.join(cells)} | {z} |"


def z_of(second: Evaluation, third: Evaluation) -> float:
    """Return the mean difference of users' NDCG@10 by its standard error."""
    of_users = [r.units.group_by("user").agg(pl.col(METRICS[1]).mean()) for r in (second, third)]
    pairs = of_users[0].join(of_users[1], on="user")
    gain = (pairs[METRICS[1] + "_right"] - pairs[METRICS[1]]).to_numpy()
    return float(gain.mean() / (gain.std(ddof=1) / len(gain) ** 0.5))


def straightness(x: tuple[int, ...], y: list[float]) -> float:
    """R2 of the best straight line."""
    return float(np.corrcoef(x, y)[0, 1] ** 2)


if __name__ == "__main__":
    main()
