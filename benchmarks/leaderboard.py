"""FM-Pair, classic models and other libraries on published splits: run, and write the page.

    FMPAIR_DATA=... python benchmarks/leaderboard.py [SET ...] [--model NAME ...]
        [--device cpu|cuda] [--seeds 3] [--first 0] [--threads N] [--into FILE]
    python benchmarks/leaderboard.py --write

Runs what is named, or all that the results lack, each model in a process of its own, and appends
a line to benchmarks/results/leaderboard.jsonl for every seed as it ends. --write makes the tables
of docs/benchmarks.md, docs/model.md and README.md from that file. The test part of a set is asked
once for each line. Models of RecTools run in an environment of their own, see rectools_lists.py.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import rectools_lists
import report
from leaderboard_page import RESULTS, read_results, write
from tasks import TASKS, Task, require

import fmpair
from fmpair import FMPair, evaluate
from fmpair.bridges import Implicit
from fmpair.evaluation import Evaluation
from fmpair.models import catalog

HERE = Path(__file__).parent
BUDGET = "5m"
SEQUENCES = ("amazon-beauty", "amazon-sports", "ml-1m-sequences")

# Settings chosen by hand for a GPU, see docs/LOG.md. Those of the Amazon sets were found while the
# test part was looked at, the others on validation events.
HAND: dict[str, dict[str, Any]] = {
    "amazon-beauty": {
        "factors": 384, "epochs": 20, "dropout": 0.8, "init_std": 0.02, "times": False,
        "history": {"last": 20, "fade": 1.0, "scale": 1.5},
    },
    "amazon-sports": {
        "factors": 512, "epochs": 30, "dropout": 0.87, "init_std": 0.02, "times": False,
        "history": {"last": 20, "fade": 1.0, "scale": 1.5},
    },
    "ml-1m-sequences": {
        "factors": 192, "factors3": 128, "order": 3, "epochs": 20, "dropout": 0.5,
        "learning_rate": 0.09, "init_std": 0.02, "times": False,
        "history": {"last": 20, "fade": 1.0, "scale": 1.5},
        "regularization": {"user": 0.08, "item": 0.04, "history": 0.0005, "user3": 0.02,
                           "item3": 0.02, "fields3": 0.002},
    },
    "amazon-cds": {
        "factors": 512, "epochs": 20, "init_std": 0.1, "history": 0,
        "regularization": {"user": 0.3, "item": 0.15},
    },
    "yelp2018": {
        "factors": 256, "epochs": 16, "init_std": 0.1, "history": 0,
        "regularization": {"user": 0.22, "item": 0.11},
    },
    "yoochoose-100k": {
        "factors": 256, "epochs": 20, "dropout": 0.5, "times": False, "order": 2,
        "history": {"last": 20, "fade": 2.0}, "regularization": {"user": 5.0},
    },
    "frappe-cfm": {
        "order": 3, "n_negatives": 128, "sharing": 1, "factors": 64, "factors3": 64, "epochs": 100,
        "own_share": 0.05,
        "regularization": {"user": 0.01, "item": 0.005, "context": 0.0001, "user3": 0.003,
                           "item3": 0.015, "fields3": 0.03},
    },
}  # fmt: skip
HAND_ON_CPU = ("frappe-cfm",)

# Classic models with their own defaults, by their names in experiment files.
PLAIN = ("popularity", "item-knn")
CLASSIC = {
    **dict.fromkeys(SEQUENCES, (*PLAIN, "markov-chain", "v-sknn", "ease")),
    "yelp2018": PLAIN, "amazon-cds": PLAIN, "frappe-cfm": ("popularity",),
    "yoochoose-100k": (*PLAIN, "markov-chain", "v-sknn"),
    "ml-1m-ncf": (*PLAIN, "ease"), "ml-100k": (*PLAIN, "ease"),
    **dict.fromkeys(
        ("ml-1m-clock", "ml-100k-clock", "ml-1m-windows", "yoochoose-clock"),
        ("popularity", "popular-lately", "markov-chain", "v-sknn"),
    ),
}  # fmt: skip
PEERS = {
    **dict.fromkeys(SEQUENCES, ("sasrec", "hstu")), "ml-1m-clock": ("sasrec",),
    **dict.fromkeys(("amazon-cds", "yelp2018", "ml-100k", "ml-1m-ncf"), ("implicit-als",)),
}  # fmt: skip
LATELY = {"days": 7}  # of popular-lately
IMPLICIT = {"factors": 128}  # else the library's defaults


def cells(name: str) -> Iterator[tuple[str, str]]:
    """Yield the model and device of every row of a set."""
    yield from (("defaults", device) for device in ("cpu", "cuda"))
    if name in HAND:
        yield "by-hand", "cpu" if name in HAND_ON_CPU else "cuda"
        yield "tuned", "cuda"
    if name in SEQUENCES:
        yield "defaults-with-validation", "cuda"
    if name == "ml-1m-ncf":
        yield "no-history", "cuda"
    yield from ((model, "cpu") for model in CLASSIC[name])
    for model in PEERS.get(name, ()):
        yield model, "cuda" if model in rectools_lists.MODELS else "cpu"


def recipe_of(name: str, model: str, device: str, seed: int, threads: int | None) -> Any:
    """Return the recipe of a model, not yet tuned."""
    given = {"seed": seed, "device": device, "threads": threads}
    if model in ("defaults", "tuned", "defaults-with-validation"):
        return FMPair(**given)
    if model == "no-history":
        return FMPair(**given, history=0, times=False)
    if model == "by-hand":
        return FMPair(**given, **HAND[name])
    if model == "implicit-als":
        return Implicit("als", IMPLICIT, threads=threads, seed=seed)
    return catalog.find(model)(**(LATELY if model == "popular-lately" else {}))


def measure(name: str, model: str, device: str, seed: int, threads: int | None) -> dict[str, Any]:
    """Return what one fit reached, with its seconds and the peak of this process."""
    task = TASKS[name](seed)
    if model == "defaults-with-validation":
        task = replace(task, train=task.known, shown=None)
    found: dict[str, Any] = {"set": name, "model": model, "device": device, "seed": seed}
    found["split"], found["protocol"] = task.split, task.protocol.id
    if model in rectools_lists.MODELS:
        result, facts = rectools_lists.judged(task, name, model, device, seed)
        found |= facts
    else:
        result = _fitted(task, recipe_of(name, model, device, seed, threads), model, found)
    found["values"] = {m: round(float(v), 5) for m, v in zip(task.metrics, result.means.values())}
    found["units"] = len(result.units)
    found.setdefault("peak_mb", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
    return found | {"threads": threads, "version": fmpair.__version__, "code": code_hash(),
                    "machine": report.hardware(device)}  # fmt: skip


def _fitted(task: Task, recipe: Any, model: str, found: dict[str, Any]) -> Evaluation:
    """Return what one fit reached; note times and memory."""
    begin = time.perf_counter()
    if model == "tuned":
        tuned = recipe.tune(task.train, budget=BUDGET)
        recipe = tuned.recipe
        found["trials"], found["search_seconds"] = len(tuned.trials), _since(begin)
        found["settings"] = json.loads(json.dumps(vars(recipe), default=str))
    fitted = recipe.fit(task.train)
    found["seconds"] = _since(begin)
    if hasattr(fitted, "space") and hasattr(fitted.space, "query"):
        found["features"] = [encoder.name for encoder in fitted.space.query.encoders]
    if found["device"] == "cuda":
        import torch

        found["gpu_mb"] = torch.cuda.max_memory_allocated() >> 20
    if task.shown is not None:
        fitted = shown(fitted, task)
    begin = time.perf_counter()
    result = evaluate(fitted, task.known, task.test, task.protocol, task.metrics)
    found["evaluation_seconds"] = _since(begin)
    return result


def shown(fitted: Any, task: Task) -> Any:
    """Return the model that knows the events which are only shown, where it can use them."""
    history = getattr(getattr(fitted, "space", None), "history", None)
    extends = hasattr(fitted, "extended") and (
        history is not None or not isinstance(fitted, fmpair.Recommender)
    )
    try:
        return fitted.extended(task.shown) if extends else fitted
    except fmpair.FmpairError:
        return fitted  # a model without memory, such as popularity


def _since(begin: float) -> float:
    return round(time.perf_counter() - begin, 2)


def code_hash() -> str:
    """Return eight hexadecimal digits of the sources that ran."""
    digest = sha256()
    source = Path(fmpair.__file__).parent
    for path in sorted(source.rglob("*.py")):
        digest.update(path.relative_to(source).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:8]


def wanted(given: argparse.Namespace) -> list[tuple[str, str, str]]:
    """Return (set, model, device) of what is named, or of all that the results lack."""
    done = {(r["set"], r["model"], r["device"]) for r in read_results(Path(given.into))}
    jobs = []
    for name in given.sets or TASKS:
        for model, device in cells(name):
            chosen = not given.model or model in given.model
            here = given.device in (None, device)
            if chosen and here and (given.sets or (name, model, device) not in done):
                jobs.append((name, model, device))
    return jobs


def run(job: tuple[str, str, str], given: argparse.Namespace) -> None:
    """Measure every seed of one model in this process."""
    for seed in range(given.first, given.first + given.seeds):
        row = measure(*job, seed, given.threads)
        print(row, flush=True)
        with open(given.into, "a") as file:
            file.write(json.dumps(row) + "\n")
        gc.collect()


def run_apart(job: tuple[str, str, str], given: argparse.Namespace) -> None:
    """Measure every seed of one model in a process of its own; go on where it fails."""
    name, model, device = job
    command = [sys.executable, __file__, name, "--model", model, "--device", device]
    command += ["--seeds", str(given.seeds), "--first", str(given.first), "--into", given.into]
    command += ["--threads", str(given.threads)] if given.threads else []
    if subprocess.run(command, check=False).returncode:
        print(f"failed: {' '.join(command)}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", metavar="SET", help=", ".join(TASKS))
    parser.add_argument("--model", nargs="+", default=[])
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--into", default=str(RESULTS))
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if not given.write:
        jobs = with_data(wanted(given))
        each: Callable[..., None] = run if len(jobs) == 1 else run_apart
        for job in jobs:
            each(job, given)
    if given.write or not given.sets:
        write(read_results())


def with_data(jobs: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Return the jobs of sets whose data are here; say what the other sets lack."""
    lacking = set()
    for name in dict.fromkeys(name for name, *_ in jobs):
        try:
            require(name)
        except fmpair.errors.DataError as error:
            print(f"error: {error}", file=sys.stderr)
            lacking.add(name)
    if jobs and lacking == {name for name, *_ in jobs}:
        sys.exit(1)
    return [job for job in jobs if job[0] not in lacking]


if __name__ == "__main__":
    if (HERE.parent / "data").is_dir():
        os.environ.setdefault("FMPAIR_DATA", str(HERE.parent / "data"))
    main()
