"""Time fits to a billion events with context on one GPU, and lists for a million users.

    python benchmarks/gpu_billion.py FOLDER [PART ...]

Without PART all parts run:

    make      write the events to FOLDER as Parquet; not part of the fit
    fit       fit to these files
    twice     fit twice and compare the hashes of the models
    stream    fit with events in GPU memory, in main memory, and in main memory without overlap
    cost      time a step with all items
    predict   predict the largest `fit` by a cost model from the two smallest
    subset    compare the GPU with the CPU engine on few users
    lists     recommend to a million users

Each part prints its measurements as a line of JSON; `fit` also appends it to fits.jsonl beside
FOLDER. FMPAIR_EVENTS sets the number of events (a billion), to which the numbers of users and items
are proportional, and FMPAIR_EPOCHS the number of epochs. Without a GPU the parts run on the CPU by
PyTorch: use few events.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from fmpair import Dataset, FMPair
from fmpair.arrays import Rows, empty_rows, group_rows
from fmpair.data.vocabulary import Vocabulary
from fmpair.device import CUDA, TORCH, gpu_problem
from fmpair.engine.contract import Parameters
from fmpair.engine.torch import cuda, events
from fmpair.features import FeatureSpace
from fmpair.fitted.recommender import Recommender
from fmpair.ranking.top import ranks
from fmpair.training import device_parts, fit_parts

DEVICE = TORCH if gpu_problem() else CUDA
WHERE = torch.device("cpu" if gpu_problem() else CUDA)
EVENTS = int(os.environ.get("FMPAIR_EVENTS", 1_000_000_000))
USERS, ITEMS = max(EVENTS // 500, 50), max(EVENTS // 1000, 200)
EPOCHS = int(os.environ.get("FMPAIR_EPOCHS", 2))
PIECE = 1 << 24  # events of a part
TASTES, HOURS, PLACES = 1000, 24, 4
HELD_OUT = 10_000
OPTIONS: dict[str, Any] = {
    "factors": 64,
    "history": 0,
    "order": 2,
    "times": False,
    "n_negatives": 8192 if WHERE.type == CUDA else 64,
}
RECIPE = FMPair(**OPTIONS, epochs=EPOCHS, device=DEVICE)


def main() -> None:
    folder = Path(sys.argv[1])
    for name in sys.argv[2:] or PARTS:
        try:
            PARTS[name](folder)
        except Exception:
            traceback.print_exc()


def report(part: str, **values: Any) -> None:
    """Print measurements, with the largest memory so far."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    card = torch.cuda.max_memory_allocated() / 2**30 if WHERE.type == CUDA else 0.0
    memory = {"main memory GB": round(most, 1), "GPU memory GB": round(card, 1)}
    print(json.dumps({"part": part, **values, **memory}), flush=True)


# The events. Each user has a taste; most items are chosen by taste, hour and place.


def generated(count: int, seed: int, users: int = USERS) -> dict[str, torch.Tensor]:
    """Return columns of `count` events, made on the device."""
    draw = torch.Generator(WHERE).manual_seed(seed)

    def numbers(most: int) -> torch.Tensor:
        return torch.randint(most, (count,), generator=draw, device=WHERE)

    def share() -> torch.Tensor:
        return torch.rand(count, generator=draw, device=WHERE, dtype=torch.float64)

    user, hour, place = numbers(users), numbers(HOURS), numbers(PLACES)
    rank = (ITEMS ** share()).long() - 1  # popular ones first
    taste = torch.where(share() < 0.6, user % TASTES, numbers(TASTES))
    there = torch.where(share() < 0.5, hour // 6 * PLACES + place, 0)  # the context's part
    item = (rank * 7919 + taste * 104_729 + there * 15_485_863) % ITEMS
    kinds = (torch.int32, torch.int32, torch.int8, torch.int8)
    columns = (user, item, hour, place)
    names = ("user", "item", "hour", "place")
    return {n: c.to(kind).cpu() for n, c, kind in zip(names, columns, kinds)}


def frame_of(columns: dict[str, torch.Tensor]) -> pl.DataFrame:
    return pl.DataFrame({name: column.numpy() for name, column in columns.items()})


def make(folder: Path) -> None:
    """Write the events as Parquet parts."""
    began = time.perf_counter()
    folder.mkdir(exist_ok=True)

    def write(number: int, columns: dict[str, torch.Tensor]) -> None:
        path = folder / f"{number:04}.parquet"
        frame_of(columns).write_parquet(path, compression="lz4", statistics=False)

    with ThreadPoolExecutor(6) as pool:
        left = []
        for number, first in enumerate(range(0, EVENTS, PIECE)):
            if len(left) >= 12:
                left.pop(0).result()
            columns = generated(min(PIECE, EVENTS - first), number)
            left.append(pool.submit(write, number, columns))
        for future in left:
            future.result()
    size = sum(path.stat().st_size for path in folder.glob("*.parquet"))
    report("make", seconds=_since(began), GB=round(size / 2**30, 2), events=EVENTS)


def _since(began: float) -> float:
    return round(time.perf_counter() - began, 2)


class Clock:
    """The seconds of each part of a fit."""

    def __init__(self) -> None:
        self.began = self.last = time.perf_counter()
        self.seconds: dict[str, float] = {}

    def mark(self, name: str) -> None:
        self.seconds[name] = _since(self.last)
        self.last = time.perf_counter()

    def epoch(self, epoch: Any) -> None:
        self.seconds[f"epoch {epoch.number}"] = round(epoch.seconds, 2)
        if epoch.number == 1:
            self.seconds["begin"] = round(_since(self.last) - epoch.seconds, 2)
        else:
            self.seconds["checkpoint"] = round(_since(self.last) - epoch.seconds, 2)
        self.last = time.perf_counter()


def timed_fit(folder: Path, recipe: Any = RECIPE, checkpoint: bool = True) -> tuple[Any, Clock]:
    """Fit to the parts and return the model and the seconds of its parts."""
    clock, reading = Clock(), device_parts.read

    def read(*given: Any) -> Any:
        found = reading(*given)
        clock.mark("read and number")
        return found

    device_parts.read = read
    try:
        file = folder / "fit.part" if checkpoint else None
        model = fit_parts(
            recipe, folder, context=["hour", "place"], progress=clock.epoch, checkpoint=file
        )
    finally:
        device_parts.read = reading
    clock.mark("last checkpoint and model")
    return model, clock


def fit(folder: Path) -> None:
    """The whole fit, with checkpoints and the seen items of all users."""
    _warm()
    model, clock = timed_fit(folder)
    whole = _since(clock.began)
    report("fit", events=EVENTS, users=USERS, items=ITEMS, whole=whole, **clock.seconds)
    line = {"events": EVENTS, "users": USERS, "items": ITEMS, "epoch": 0.0, **clock.seconds}
    line["epoch"] = clock.seconds[f"epoch {EPOCHS}"]
    with _fits(folder).open("a") as file:
        file.write(json.dumps(line) + "\n")
    report("fit, held out", ndcg=_ndcg(model, generated(HELD_OUT, 10**6)))


def _fits(folder: Path) -> Path:
    return folder.absolute().parent / "fits.jsonl"


def _warm() -> None:
    """Load libraries and compile kernels, which the first fit of a process does."""
    columns = generated(min(EVENTS, 200_000), 10**6 + 1, 1000)
    began = time.perf_counter()
    FMPair(**OPTIONS, epochs=1, device=DEVICE).fit(frame_of(columns))
    report("warm", seconds=_since(began))


def _ndcg(model: Any, columns: dict[str, torch.Tensor]) -> float:
    """Mean NDCG@10 of events among all items that the user has not seen, in their context."""
    frame = frame_of(columns)
    target = model.space.items.numbers(frame["item"])
    user = model.space.users.numbers(frame["user"])
    known = np.flatnonzero((target >= 0) & (user >= 0))
    queries = model.query_vectors(frame.select("user", "hour", "place")[known])
    device = "cpu" if gpu_problem() else CUDA
    hidden = model.seen.take(user[known])
    above, level = ranks(queries, model.item_matrix, hidden, target[known], None, device)
    place = 1 + above + level / 2
    return round(float(np.where(place <= 10, 1 / np.log2(1 + place), 0).mean()), 4)


def twice(folder: Path) -> None:
    """Two whole fits have the same bytes."""
    _warm()
    hashes = [_hashed(folder, name) for name in ("first", "second")]
    report("twice", same=hashes[0] == hashes[1])


def _hashed(folder: Path, name: str) -> str:
    """Fit without checkpoints, tell the seconds and return the hash of the model."""
    model, clock = timed_fit(folder, checkpoint=False)
    whole, began = _since(clock.began), time.perf_counter()
    digest = sha256()
    for key, array in sorted(model.arrays().items()):
        digest.update(key.encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    found = digest.hexdigest()
    report(name, events=EVENTS, whole=whole, **clock.seconds, hash=found, hashing=_since(began))
    return found


class InTurn:
    """Stands for the thread that prepares blocks: nothing else runs meanwhile, on either side."""

    def __init__(self, workers: int):
        pass

    def __enter__(self) -> InTurn:
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def submit(self, call: Callable[..., Any], *given: Any) -> Future[Any]:
        if WHERE.type == CUDA:
            torch.cuda.synchronize()
        done: Future[Any] = Future()
        done.set_result(call(*given))
        return done


def stream(folder: Path) -> None:
    """Events on the card and in main memory: the same bytes, and the seconds of epochs."""
    _warm()
    sizes, pool = cuda.event_bytes, events.ThreadPoolExecutor
    hashes = []
    for name, size, own in (
        ("in GPU memory", sizes, pool),
        ("in main memory", lambda problem: 1 << 60, pool),
        ("in main memory, copies do not overlap", lambda problem: 1 << 60, InTurn),
    ):
        vars(cuda)["event_bytes"], vars(events)["ThreadPoolExecutor"] = size, own
        try:
            hashes.append(_hashed(folder, name))
        finally:
            vars(cuda)["event_bytes"], vars(events)["ThreadPoolExecutor"] = sizes, pool
    report("stream", same=len(set(hashes)) == 1)


def cost(folder: Path) -> None:
    """Time a step with all items and few events, from which the time of an epoch is predicted."""
    frame = frame_of(generated(min(PIECE, EVENTS), 0))
    run = FMPair(**OPTIONS, epochs=3, device=DEVICE).train(
        Dataset.from_frame(frame, context=["hour", "place"])
    )
    *_, last = run
    size = min(131_072, len(frame) // 32)
    report("cost", step=last.seconds / -(-len(frame) // size), items=ITEMS)


# The cost model: the two quantities to which each part of a fit is proportional. Two fits give
# their coefficients.
COSTS: dict[str, Callable[[dict[str, float]], tuple[float, float]]] = {
    "read and number": lambda fit: (1.0, fit["events"]),
    "begin": lambda fit: (1.0, fit["events"]),
    "epoch": lambda fit: (fit["events"], fit["events"] // 131_072 * fit["items"]),
    "checkpoint": lambda fit: (1.0, fit["users"] + 3 * fit["items"]),
    "last checkpoint and model": lambda fit: (fit["events"], fit["users"] + fit["items"]),
}


def predict(folder: Path) -> None:
    """Predict each part of the largest fit from the two smallest."""
    fits = [json.loads(line) for line in _fits(folder).read_text().splitlines()]
    small, next_one, *_, large = sorted(fits, key=lambda fit: fit["events"])
    for part, grows in COSTS.items():
        if not all(part in fit for fit in fits):  # a fit of one epoch has only the last checkpoint
            continue
        known = np.array([grows(small), grows(next_one)])
        costs = np.linalg.solve(known, [small[part], next_one[part]])
        predicted = float(np.array(grows(large)) @ costs)
        error = round(predicted / large[part] - 1, 3)
        report("predict", what=part, s=large[part], predicted=round(predicted, 2), error=error)


def subset(folder: Path) -> None:
    """A few users with all their events, by the GPU and by the CPU engine on all cores."""
    users = min(10_000, USERS)
    count = min(500 * users, EVENTS)
    data = Dataset.from_frame(frame_of(generated(count, 7, users)), context=["hour", "place"])
    held_out = generated(HELD_OUT, 8, users)
    small = data.take(np.arange(min(len(data), 100_000)))
    for device, epochs in ((DEVICE, (2, 4)), ("cpu", (2, 4))):
        options = OPTIONS if device != "cpu" else {**OPTIONS, "n_negatives": None}
        FMPair(**options, epochs=1, device=device).fit(small)
        for number in epochs:
            began = time.perf_counter()
            model = FMPair(**options, epochs=number, device=device).fit(data)
            seconds = _since(began)
            report(
                "subset", device=device, epochs=number, whole=seconds, ndcg=_ndcg(model, held_out)
            )


def lists(folder: Path) -> None:
    """The best ten of a million users among 100,000 items."""
    users, items = (1_000_000, 100_000) if WHERE.type == CUDA else (2_000, 3_000)
    rng = np.random.default_rng(0)
    tables = [rng.standard_normal((n, 64), np.float32) * 0.3 for n in (users, items)]
    ids = [Vocabulary(pl.Series(np.arange(n))) for n in (users, items)]
    none = np.zeros(0, np.int32)
    space = FeatureSpace.fit(Dataset(ids[0], ids[1], none, none, pl.DataFrame()))
    flat, empty = np.zeros(0, np.float32), np.zeros((0, 64), np.float32)
    owner = np.repeat(np.arange(users), 50)
    seen: Rows = group_rows(owner, rng.integers(0, items, len(owner)), users)
    parameters = Parameters(*tables, np.zeros(items, np.float32), empty, empty, flat)
    rows = (empty_rows(users), empty_rows(items), seen)
    model = Recommender(space, parameters, *rows, RECIPE)
    model.recommend(pl.DataFrame({"user": np.arange(1000)}), n=10)
    for _ in range(2):
        began = time.perf_counter()
        found = model.recommend(n=10)
        report("lists", users=users, items=items, rows=len(found), seconds=_since(began))


PARTS: dict[str, Callable[[Path], None]] = {
    "make": make,
    "fit": fit,
    "twice": twice,
    "stream": stream,
    "cost": cost,
    "predict": predict,
    "subset": subset,
    "lists": lists,
}

if __name__ == "__main__":
    main()
