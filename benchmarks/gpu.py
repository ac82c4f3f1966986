"""What a GPU does: kernels, quality against time, and the CPU engine beside it.

    FMPAIR_DATA=... python benchmarks/gpu.py [PART ...]

Parts: machine, kernels, bits, yelp, sequences, scale; all unless given. Each prints a table, and a
part that fails says why and lets the others go on. Seconds are those of the epochs, compiling left
out. Without a GPU the parts run on the CPU by PyTorch, which is slow.
"""

from __future__ import annotations

import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl
import torch

from fmpair import Dataset, FMPair
from fmpair.data import catalog
from fmpair.data.split import holdout, leave_last_out
from fmpair.device import CUDA, TORCH, cards, obstacle
from fmpair.engine.torch import softmax
from fmpair.evaluation import evaluate

DEVICE = TORCH if obstacle() else CUDA
WHERE = torch.device("cpu" if obstacle() else CUDA)

# Options by name. What the rows differ in was chosen on the engine alone, see docs/LOG.md.
YELP: dict[str, dict[str, Any]] = {
    "14 epochs": {"factors": 256, "epochs": 14},
    "12 epochs": {"factors": 256, "epochs": 12},
    "10 epochs, longer steps": {"factors": 256, "epochs": 10, "learning_rate": 0.15},
    "7 epochs, longer steps": {"factors": 256, "epochs": 7, "learning_rate": 0.2},
    "defaults": {},
}
LAST = {"last": 10, "fade": 1.0, "scale": 1.5}
CHOSEN: dict[str, Any] = {
    "factors": 128, "epochs": 24, "dropout": 0.5, "learning_rate": 0.06, "history": LAST,
    "regularization": {"user": 0.03, "item": 0.015, "history": 0.0005},
}  # fmt: skip
HISTORIES = {"order": 3, "pairs": [["history", "history"]]}
SEQUENCES: dict[str, dict[str, Any]] = {
    "history": CHOSEN,
    "history, order three": {**CHOSEN, **HISTORIES},
    "the same, 128 factors each": {**CHOSEN, **HISTORIES, "factors3": 128},
    "the same, last 20": {**CHOSEN, **HISTORIES, "history": {**LAST, "last": 20}},
    "the same, dropout .6": {**CHOSEN, **HISTORIES, "dropout": 0.6},
    "the same, all pairs": {**CHOSEN, "order": 3},
}
USERS, ITEMS, EVENTS = 138_000, 27_000, 20_000_000  # generated, of the size of MovieLens 20M
TASTES = 60
CATALOGUE = 38_048  # items of Yelp2018


def main() -> None:
    for name in sys.argv[1:] or PARTS:
        print(f"\n## {name}", flush=True)
        try:
            PARTS[name]()
        except Exception:
            traceback.print_exc()


def table(head: tuple[str, ...], rows: Iterator[tuple[Any, ...]]) -> None:
    """Print rows as they are made."""
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head), flush=True)
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


def machine() -> None:
    print(
        f"Python {platform.python_version()}, PyTorch {torch.__version__}, {obstacle() or cards()}"
    )


def kernels() -> None:
    """The parts of one exact softmax, 38,048 items."""
    table(("rows", "factors", "part", "ms", "TFLOP/s"), _kernels())


def _kernels() -> Iterator[tuple[Any, ...]]:
    for rows, factors in ((4096, 64), (4096, 256), (16_384, 256)):
        for name, (products, call) in _parts(rows, factors).items():
            ms = milliseconds(call)
            rate = 2 * products * rows * CATALOGUE * factors / ms / 1e9
            yield f"{rows:,}", factors, name, f"{ms:.2f}", f"{rate:.0f}"


def _parts(rows: int, factors: int) -> dict[str, tuple[int, Callable[[], Any]]]:
    """By name: how many matrix products there are in it, and the call."""
    q, p = (torch.randn(n, factors, device=WHERE) * 0.3 for n in (rows, CATALOGUE))
    constants, offset = torch.randn(CATALOGUE, device=WHERE), torch.zeros(rows, device=WHERE)
    row, start = (torch.arange(n, device=WHERE) for n in (rows, rows + 1))
    item = torch.randint(0, CATALOGUE, (rows,), device=WHERE)
    chosen = softmax.Chosen(row, item, torch.ones(rows, device=WHERE), start, True)
    half = softmax.number_type(WHERE)
    given = (q.to(half), p.to(half), constants, offset)
    out = softmax.empty_chunk(rows, CATALOGUE, given[0])
    return {
        "matrix product alone": (1, lambda: torch.mm(given[0], given[1].T, out=out)),
        "exponentials by PyTorch": (1, lambda: softmax.plain_exponentials(*given)),
        "exponentials, fused": (1, lambda: softmax.exponentials(*given)),
        "loss and slopes": (3, lambda: softmax.softmax_slopes(q, p, constants, chosen, rows)),
    }


def milliseconds(call: Callable[[], Any], repeats: int = 20) -> float:
    for _ in range(3):
        call()
    finish()
    began = time.perf_counter()
    for _ in range(repeats):
        call()
    finish()
    return (time.perf_counter() - began) / repeats * 1e3


def finish() -> None:
    if WHERE.type == "cuda":
        torch.cuda.synchronize()


def bits() -> None:
    """The same seed gives the same bytes."""
    data = generated(3_000, 2_000, 200_000)
    found = [FMPair(factors=32, epochs=3, device=DEVICE).fit(data) for _ in range(2)]
    one, other = (b"".join(t.tobytes() for t in model.parameters) for model in found)
    print("two fits have the same bytes:", one == other)


def fitted(recipe: FMPair, data: Dataset) -> tuple[Any, float, float]:
    """(the model, seconds of its epochs, seconds of all)."""
    began, seconds = time.perf_counter(), 0.0
    for epoch in recipe.train(data):
        seconds += epoch.seconds
    return epoch.recommender(), seconds, time.perf_counter() - began


def yelp() -> None:
    """Yelp2018, split of LightGCN, full ranking per user; to reach: .0728/.0602 and .0694/.0575."""
    train, test = (catalog.load("yelp2018", part=part) for part in ("train", "test"))
    fitted(FMPair(history=0, factors=256, epochs=1, device=DEVICE), train)  # compiles
    rows = _judged(YELP, (train, test), "full-user", ("recall@20", "ndcg@20"), {"history": 0})
    table(("Yelp2018", "Recall@20", "NDCG@20", "training s", "whole fit s", "evaluation s"), rows)


def sequences() -> None:
    """The next item of ml-1m-sequences among all unseen; to reach: .308/.183."""
    data = catalog.load("ml-1m-sequences")
    split = leave_last_out(data)
    train, test = data.take(split.train), data.take(split.test)
    rows = _judged(SEQUENCES, (train, test), "next-item", ("hit@10", "ndcg@10"), {})
    table(
        ("ml-1m-sequences", "HR@10", "NDCG@10", "training s", "whole fit s", "evaluation s"), rows
    )


def _judged(
    recipes: dict[str, dict[str, Any]],
    parts: tuple[Dataset, Dataset],
    protocol: str,
    metrics: tuple[str, ...],
    common: dict[str, Any],
) -> Iterator[tuple[Any, ...]]:
    for name, options in recipes.items():
        model, seconds, whole = fitted(FMPair(**{**common, **options}, device=DEVICE), parts[0])
        began = time.perf_counter()
        found = evaluate(model, *parts, protocol, metrics).means
        judged = time.perf_counter() - began
        values = (f"{value:.4f}" for value in found.values())
        yield name, *values, f"{seconds:.2f}", f"{whole:.1f}", f"{judged:.1f}"


def generated(users: int, items: int, events: int, seed: int = 0) -> Dataset:
    """Events of users with tastes: most choose among the items of theirs, by popularity."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, users, events)
    rank = (items ** rng.random(events)).astype(np.int64) - 1  # popular ones first
    taste = np.where(rng.random(events) < 0.7, user % TASTES, rng.integers(0, TASTES, events))
    item = (rank * 7919 + taste * 104_729) % items
    frame = pl.DataFrame({"user": user.astype(np.int32), "item": item.astype(np.int32)})
    return Dataset.from_frame(frame.unique(maintain_order=True))


def scale() -> None:
    """Generated events, 64 factors: an epoch and the whole, by the GPU and by the CPU engine."""
    head = ("events", "device", "epochs", "s an epoch", "training s", "NDCG@10")
    table(head, _scale())


def _scale() -> Iterator[tuple[Any, ...]]:
    for events, cpu_epochs in ((EVENTS // 10, 25), (EVENTS, 1)):
        share = events / EVENTS
        data = generated(int(USERS * share), ITEMS, events)
        split = holdout(data, test=min(20_000 / len(data), 0.1), seed=1)
        train, test = data.take(split.train), data.take(split.test)
        for device, epochs in ((DEVICE, 12), ("cpu", cpu_epochs)):
            recipe = FMPair(factors=64, history=0, epochs=epochs, device=device)
            model, seconds, _ = fitted(recipe, train)
            value = evaluate(model, train, test, metrics=("ndcg@10",)).means["ndcg@10"]
            each = seconds / epochs
            yield f"{len(train):,}", device, epochs, f"{each:.2f}", f"{seconds:.1f}", f"{value:.4f}"


PARTS: dict[str, Callable[[], None]] = {
    "machine": machine,
    "kernels": kernels,
    "bits": bits,
    "yelp": yelp,
    "sequences": sequences,
    "scale": scale,
}

if __name__ == "__main__":
    main()
