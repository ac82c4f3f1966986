"""What does `FMPair()` reach by itself, on splits that others publish results for?

    FMPAIR_DATA=... python benchmarks/defaults.py [SET ...] [--device cpu] [--seeds 3]
        [--tune 5m] [--threads N] [--into results/defaults.jsonl]
    python benchmarks/defaults.py --write results/defaults.jsonl

Fits `FMPair()` as it stands to each set, or tunes it first, and asks the test part once per seed.
Results are appended to a file. --write makes the table of
docs/model.md from that file.

Sequences are learned without each user's last two events; the last but one is then shown to the
model, and the last one ranked among all unseen items, as in published results.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fmpair import Dataset, FMPair, evaluate, read
from fmpair.data import leave_last_out

ROOT = Path(__file__).parent
PAGE = ROOT.parent / "docs" / "model.md"
BEGIN, END = "<!-- defaults -->", "<!-- /defaults -->"


class Task(NamedTuple):
    """Events to learn from, events shown afterwards (or None), events to predict."""

    train: Dataset
    shown: Dataset | None
    test: Dataset
    protocol: str
    metrics: tuple[str, str]


def folder(name: str) -> Path:
    return Path(os.environ["FMPAIR_DATA"]) / name


def sequences(name: str, file: str) -> Task:
    events = read(folder(name) / file, format="sequences")
    known, _, test = leave_last_out(events).parts(events)
    train, _, shown = leave_last_out(known).parts(known)
    return Task(train, shown, test, "next-item", ("hit@10", "ndcg@10"))


def lists(name: str) -> Task:
    train, test = (
        read(folder(name) / f"{part}.txt.gz", format="sequences") for part in ("train", "test")
    )
    unordered = (without_order(train), without_order(test))
    return Task(unordered[0], None, unordered[1], "full-user", ("recall@20", "ndcg@20"))


def without_order(data: Dataset) -> Dataset:
    """Return the events without their order, which these files do not keep."""
    frame = data.frame().select("user", "item")
    return Dataset.from_frame(frame)


def frappe(name: str) -> Task:
    from fmpair.data import public_sets

    train, test = (public_sets.load(name, part=part) for part in ("train", "test"))
    return Task(train, None, test, "full-context", ("hit@10", "ndcg@10"))


def sessions(name: str) -> Task:
    train, test = (
        read(folder(name) / f"{part}.txt.gz", user="SessionId", item="ItemId", timestamp="Time")
        for part in ("train_full", "test")
    )
    return Task(train, None, test, "sessions", ("hit@20", "mrr@20"))


SETS: dict[str, Callable[[], Task]] = {
    "amazon-sports": lambda: sequences("amazon-sports", "sequences.txt.gz"),
    "amazon-beauty": lambda: sequences("amazon-beauty", "sequences.txt.gz"),
    "ml-1m-sequences": lambda: sequences("ml-1m-sequences", "sequences.txt.gz"),
    "amazon-cds": lambda: lists("amazon-cds"),
    "yelp2018": lambda: lists("yelp2018"),
    "frappe-cfm": lambda: frappe("frappe-cfm"),
    "yoochoose-100k": lambda: sessions("yoochoose-100k"),
}
# The best published on the same split.
PUBLISHED = {
    "amazon-sports": "SASRec .0569 / .0314, eSASRec .0560 / .0323",
    "amazon-beauty": "eSASRec .0928 / .0523",
    "ml-1m-sequences": "FuXi-a .3164 / .1813",
    "amazon-cds": "UltraGCN .1622 / .1043", "yelp2018": "XSimGCL .0723 / .0604",
    "yoochoose-100k": "V-SKNN .6881 / .3683 (this package)",
}  # fmt: skip


def measure(name: str, seed: int, device: str, tune: str | None, threads: int | None) -> dict:
    """Return what one fit reached, with its options and its seconds."""
    task, begin = SETS[name](), time.perf_counter()
    recipe: Any = FMPair(seed=seed, device=device, threads=threads)
    if tune:
        recipe = recipe.tune(task.train, budget=tune).recipe
    model = recipe.fit(task.train)
    seconds = time.perf_counter() - begin
    known = task.train if task.shown is None else joined(task.train, task.shown)
    if task.shown is not None and model.space.history is not None:
        model = model.extended(task.shown)
    means = evaluate(model, known, task.test, task.protocol, task.metrics).means
    return {
        "set": name, "seed": seed, "device": device, "tune": tune, "seconds": round(seconds, 1),
        "features": [e.name for e in model.space.query.encoders],
        "values": [round(float(means[metric]), 4) for metric in task.metrics],
    }  # fmt: skip


def joined(train: Dataset, shown: Dataset) -> Dataset:
    """Return both parts, which share their vocabularies, as one."""
    columns = train.columns.vstack(shown.columns) if train.columns.width else train.columns
    user, item = (np.append(getattr(train, n), getattr(shown, n)) for n in ("user", "item"))
    return train.__class__(
        train.users, train.items, user, item, columns, context=train.context, order=train.order
    )


def table(rows: list[dict]) -> str:
    """Return the means over seeds as a Markdown table, a row per set."""
    columns = list(dict.fromkeys((row["device"], row["tune"]) for row in rows))
    heads = [f"`FMPair()`, {d}" if t is None else f"tuned {t}, {d}" for d, t in columns]
    lines = ["| | " + " | ".join([*heads, "published"]) + " |"]
    lines.append("|---" * (len(columns) + 2) + "|")
    for name in SETS:
        cells = []
        for device, tune in columns:
            of = (name, device, tune)
            found = [r["values"] for r in rows if (r["set"], r["device"], r["tune"]) == of]
            mean = np.mean(found, axis=0) if found else []
            cells.append(
                " / ".join(f"{v:.4f}" for v in mean) + (f" ({len(found)})" if found else "")
            )
        lines.append(f"| {name} | {' | '.join(cells)} | {PUBLISHED.get(name, '')} |")
    return "\n".join(lines).replace(" 0.", " .")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", metavar="SET", help=", ".join(SETS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--tune")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--into", default=str(ROOT / "results" / "defaults.jsonl"))
    parser.add_argument("--write", metavar="FILE")
    given = parser.parse_args()
    if given.write:
        rows = [json.loads(line) for line in Path(given.write).read_text().splitlines()]
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{table(rows)}\n{END}{rest.split(END)[1]}")
        return
    for name in given.sets or SETS:
        for seed in range(given.first, given.first + given.seeds):
            row = measure(name, seed, given.device, given.tune, given.threads)
            print(row, flush=True)
            with open(given.into, "a") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
