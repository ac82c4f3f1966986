"""What a GPU does: kernels, quality against time, and the CPU engine beside it.

    FMPAIR_DATA=... python benchmarks/gpu.py [PART ...]

Parts: machine, kernels, bits, yelp, sequences, scale; all unless given. Each prints a table, and a
part that fails says why and lets the others go on. The first row of a part is the first fit of its
process: kernels are compiled and libraries are loaded in its first epoch. Training is the seconds
of the epochs; the whole fit is from the data set to the model. Without a GPU the parts run on the
CPU by PyTorch, which is slow.
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
from tasks import in_one_line

from fmpair import Dataset, FMPair
from fmpair.data import public_sets
from fmpair.data.splits import holdout, leave_last_out
from fmpair.device import CUDA, TORCH, gpu_problem, usable_gpus
from fmpair.engine.torch import softmax
from fmpair.evaluation import evaluate

DEVICE = TORCH if gpu_problem() else CUDA
WHERE = torch.device("cpu" if gpu_problem() else CUDA)

# Settings were chosen on events held out of the training part, see docs/LOG.md.
SEEDS = (0, 1, 2)
OF_YELP: dict[str, Any] = {"factors": 256, "history": 0, "init_std": 0.1}
YELP: dict[str, dict[str, Any]] = {
    "16 epochs": {**OF_YELP, "epochs": 16, "regularization": {"user": 0.22, "item": 0.11}},
    "12 epochs": {
        **OF_YELP,
        "epochs": 12,
        "regularization": {"user": 0.2, "item": 0.1},
        "final_rate_share": 0.3,
    },
}
SEQUENCES: dict[str, dict[str, Any]] = {
    "history, order three": {
        "factors": 192,
        "epochs": 20,
        "dropout": 0.5,
        "learning_rate": 0.09,
        "init_std": 0.02,
        "history": {"last": 20, "fade": 1.0, "scale": 1.5},
        "order": 3,
        "factors3": 128,
        "regularization": {
            "user": 0.08,
            "item": 0.04,
            "history": 0.0005,
            "user3": 0.02,
            "item3": 0.02,
            "fields3": 0.002,
        },
    }
}
USERS, ITEMS, EVENTS = 138_000, 27_000, 20_000_000  # generated, of the size of MovieLens 20M
TASTES = 60
GPU_EPOCHS, CPU_EPOCHS = (1, 2, 3, 4, 8), (1, 2, 4, 8)
TIMES = ("training s", "whole fit s", "evaluation s")
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
    gpu = gpu_problem() or usable_gpus()
    print(f"Python {platform.python_version()}, PyTorch {torch.__version__}, {gpu}")


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
    train, test = (public_sets.load("yelp2018", part=part) for part in ("train", "test"))
    table(
        ("Yelp2018", "seed", "Recall@20", "NDCG@20", *TIMES),
        _judged(YELP, (train, test), "full-user", ("recall@20", "ndcg@20")),
    )


def sequences() -> None:
    """The next item of ml-1m-sequences among all unseen; to reach: .308/.183."""
    data = public_sets.load("ml-1m-sequences")
    split = leave_last_out(data)
    train, test = data.take(split.train), data.take(split.test)
    table(
        ("ml-1m-sequences", "seed", "HR@10", "NDCG@10", *TIMES),
        _judged(SEQUENCES, (train, test), "next-item", ("hit@10", "ndcg@10")),
    )


def _judged(
    recipes: dict[str, dict[str, Any]],
    parts: tuple[Dataset, Dataset],
    protocol: str,
    metrics: tuple[str, ...],
) -> Iterator[tuple[Any, ...]]:
    """A row for each recipe and seed; the very first fit of the process is one more."""
    first = next(iter(recipes))
    for name, seed in [(first, SEEDS[0]), *((n, s) for n in recipes for s in SEEDS)]:
        recipe = FMPair(**recipes[name], seed=seed, device=DEVICE)
        model, seconds, whole = fitted(recipe, parts[0])
        began = time.perf_counter()
        found = evaluate(model, *parts, protocol, metrics).means
        judged = time.perf_counter() - began
        values = (f"{value:.4f}" for value in found.values())
        yield name, seed, *values, f"{seconds:.2f}", f"{whole:.2f}", f"{judged:.1f}"


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
    """Generated events, 64 factors: the whole by the GPU and by the CPU engine on all cores.

    Each device has so many epochs, and its rate falls over them as ever.
    """
    data = generated(USERS, ITEMS, EVENTS)
    split = holdout(data, test=20_000 / len(data), seed=1)
    train, test = data.take(split.train), data.take(split.test)
    warm = train.take(np.arange(min(100_000, len(train)))).compact()
    head = ("events", "device", "epochs", "s an epoch", "training s", "whole fit s", "NDCG@10")
    table(head, _scale(train, test, warm))


def _scale(train: Dataset, test: Dataset, warm: Dataset) -> Iterator[tuple[Any, ...]]:
    for device, counts in ((DEVICE, GPU_EPOCHS), ("cpu", CPU_EPOCHS)):
        FMPair(factors=64, history=0, epochs=1, device=device).fit(warm)  # compiles
        for epochs in counts:
            recipe = FMPair(factors=64, history=0, epochs=epochs, device=device)
            model, seconds, whole = fitted(recipe, train)
            value = evaluate(model, train, test, metrics=("ndcg@10",)).means["ndcg@10"]
            texts = (f"{n:.2f}" for n in (seconds / epochs, seconds, whole))
            yield f"{len(train):,}", device, epochs, *texts, f"{value:.4f}"


PARTS: dict[str, Callable[[], None]] = {
    "machine": machine,
    "kernels": kernels,
    "bits": bits,
    "yelp": yelp,
    "sequences": sequences,
    "scale": scale,
}

if __name__ == "__main__":
    in_one_line(main)
