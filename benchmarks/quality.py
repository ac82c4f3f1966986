"""How many seconds of training until a given Recall@10 on events held out?"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import data
import numpy as np
from measure import Answer, Bench, median, ratio

from fmpair.arrays import Rows, distinct_pairs
from fmpair.ranking.top import item_matrix, top

FACTORS = 32
LENGTH = 10
# Name in the table -> library, epochs, learning rate, regularization.
RUNS = {
    "fmpair": ("fmpair", 30, 0.05, 0.01),
    "implicit": ("implicit", 30, 0.05, 0.01),
    "implicit, its defaults": ("implicit", 100, 0.01, 0.01),
}
LEVELS = (0.8, 0.9, 0.95, 1.0)  # shares of the best recall that all reach


def run(bench: Bench) -> Answer:
    learned, judged = data.held_out(bench.folder)
    parts = [_seen(folder) for folder in (learned, judged)]
    runs = {name: options for name, options in RUNS.items() if options[0] in bench.workers}
    bench.workers["fmpair"].ask("train", folder=learned, factors=FACTORS, threads=1, epochs=1)
    seconds: dict[str, list[np.ndarray]] = {name: [] for name in runs}
    recall: dict[str, np.ndarray] = {}
    for number in range(min(bench.repeats, 3)):
        for name, options in runs.items():
            took, reached = _curve(bench, learned, options, parts if number == 0 else None)
            seconds[name].append(np.cumsum(took))
            recall.setdefault(name, reached)
    curves = [
        {"run": name, "epoch": n + 1, "seconds": float(at), "recall@10": float(recall[name][n])}
        for name in runs
        for n, at in enumerate(np.median(seconds[name], axis=0))
    ]
    return Answer({"quality": _levels(seconds, recall), "quality curve": curves})


def _curve(bench: Bench, folder: str, options, parts: list[Rows] | None):
    """(seconds of each epoch, Recall@10 after each); judged outside the clock, once per run."""
    library, epochs, rate, penalty = options
    with tempfile.TemporaryDirectory() as out:
        answer = bench.workers[library].ask(
            "curve", folder=folder, factors=FACTORS, threads=os.cpu_count(), epochs=epochs,
            rate=rate, penalty=penalty, out=out,
        )  # fmt: skip
        numbers = range(1, epochs + 1) if parts else ()
        reached = [_recall(Path(out), number, *parts) for number in numbers]
    return answer["seconds"], np.array(reached)


def _recall(folder: Path, epoch: int, learned: Rows, judged: Rows) -> float:
    """The share of a user's held-out items among the ten best unseen, as the mean over users."""
    queries, items = (np.load(folder / f"{epoch}-{name}.npy") for name in ("queries", "items"))
    nothing = np.zeros(len(items), np.float32)
    best = top(queries, item_matrix(items, nothing), learned, LENGTH)[0]
    held = judged.owner * len(items) + judged.column
    listed = np.arange(len(best))[:, None] * len(items) + best
    hits = np.isin(listed, held).sum(axis=1)
    count = np.diff(judged.start)
    return float((hits[count > 0] / count[count > 0]).mean())


def _levels(seconds: dict[str, list[np.ndarray]], recall: dict[str, np.ndarray]):
    """Median seconds until each level, and how many times sooner fmpair is there."""
    common = min(values.max() for values in recall.values())
    rows = []
    for level in LEVELS:
        row: dict[str, Any] = {"recall@10": level * common}
        epoch = {name: int(np.argmax(values >= level * common)) for name, values in recall.items()}
        at = {name: [curve[epoch[name]] for curve in curves] for name, curves in seconds.items()}
        row |= {name: median(values) for name, values in at.items()}
        others = [name for name in at if name != "fmpair"]
        row |= {f"x {name}": ratio(at[name], at["fmpair"]) for name in others}
        rows.append(row)
    return rows


def _seen(folder: str) -> Rows:
    user, item = (np.load(Path(folder) / f"{name}.npy") for name in ("user", "item"))
    users = 1 + int(np.load(Path(folder).parent / "ml-1m" / "user.npy").max())
    return distinct_pairs(user, item, users)
