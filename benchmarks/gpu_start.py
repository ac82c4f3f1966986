"""The first fit of a process on a GPU: where its seconds go, with files in memory and on disk.

    FMPAIR_DATA=... python benchmarks/gpu_start.py [--cold] [REPEATS]

Every measurement is a fresh process that fits Yelp2018 with 256 factors. Plans:

  fit     the fit alone, as a user calls it: import of PyTorch to the model
  stages  the parts one after another, each by itself, then a first and a second fit

`--cold` first drops the files of PyTorch, its libraries, Triton and Polars from the page cache, and
then measures each plan once more with files in memory. The kernels of Triton are compiled before
(`fmpair compile --device cuda`), which the first line times. Without a GPU the parts that need one
are left out, and the fit is a small one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

PLANS = ("fit", "stages")
LIBRARIES = ("torch", "nvidia", "triton", "polars", "_polars_runtime_32", "numpy", "fmpair")
EPOCHS = 16


def main() -> None:
    given = [argument for argument in sys.argv[1:] if argument != "--cold"]
    if given and given[0] in PLANS:
        print(json.dumps(_child(given[0])))
        return
    repeats = int(given[0]) if given else 3
    print(f"fmpair compile --device cuda: {_compiled()}", flush=True)
    if "--cold" in sys.argv:
        for plan in PLANS:
            dropped = _drop_files()
            _tell(f"{plan}, {dropped / 2**30:.1f} GB of files dropped", [_measured(plan)])
    for plan in PLANS:
        _tell(f"{plan}, files in memory", [_measured(plan) for _ in range(repeats)])


def _compiled() -> str:
    """Compile the kernels in a process of its own; return its seconds, or why it failed."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "fmpair", "compile", "--device", "cuda"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    seconds = f"{time.perf_counter() - began:.1f} s, the whole process"
    return f"failed: {done.stderr.strip()}" if done.returncode else seconds


def _measured(plan: str) -> dict[str, float]:
    """Run a plan in a process of its own; seconds by part, and of the whole process."""
    began = time.perf_counter()
    command = [sys.executable, __file__, plan]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    whole = time.perf_counter() - began
    return {**json.loads(done.stdout.splitlines()[-1]), "whole process": whole}


def _tell(name: str, measured: list[dict[str, float]]) -> None:
    """Print the median and all values of each part."""
    print(f"\n{name}\n| part | s | all |\n|---|---|---|")
    for part in measured[0]:
        values = [one[part] for one in measured]
        all_values = " ".join(f"{value:.2f}" for value in values)
        print(f"| {part} | {median(values):.2f} | {all_values} |", flush=True)


def _drop_files() -> int:
    """Drop clean files of the libraries from the page cache; return their bytes."""
    os.sync()
    folders = []
    for name in LIBRARIES:
        spec = find_spec(name)
        folders += list(spec.submodule_search_locations or ()) if spec else []
    folders.append(os.environ.get("TRITON_CACHE_DIR", str(Path.home() / ".triton")))
    dropped = 0
    for path in (file for folder in folders for file in Path(folder).rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            dropped += path.stat().st_size
    return dropped


# In the child.


class Clock:
    """Seconds of each part."""

    def __init__(self) -> None:
        self.last, self.seconds = time.perf_counter(), dict[str, float]()

    def part(self, name: str, call: Callable[[], Any]) -> Any:
        self.last = time.perf_counter()
        found = call()
        self.seconds[name] = round(time.perf_counter() - self.last, 4)
        return found


def _child(plan: str) -> dict[str, float]:
    clock = Clock()
    data = clock.part("fmpair and the events", _data)
    if plan == "stages":
        _stages(clock)
    _fit(clock, data, "first fit")
    _fit(clock, data, "second fit")
    return clock.seconds


def _data() -> Any:
    """Return the events of Yelp2018; without a card few generated ones."""
    from fmpair.data import public_sets
    from fmpair.data.synthetic import make

    if not _has_card():
        return make(users=200, items=150, events=5000).data
    return public_sets.load("yelp2018", part="train")


def _has_card() -> bool:
    """Return whether there is a card, without loading PyTorch."""
    return any(Path("/dev").glob("nvidia*"))


def _fit(clock: Clock, data: Any, name: str) -> None:
    """Fit and tell the seconds of epochs and of the rest."""
    from fmpair import FMPair

    options: dict[str, Any] = {"factors": 256, "history": 0, "init_std": 0.1, "epochs": EPOCHS}
    device = "cuda" if _has_card() else "torch"
    recipe = FMPair(**options, regularization={"user": 0.22, "item": 0.11}, device=device)
    epochs: list[float] = []
    clock.part(name, lambda: recipe.fit(data, progress=lambda epoch: epochs.append(epoch.seconds)))
    clock.seconds[f"{name}: its first epoch"] = round(epochs[0], 4)
    clock.seconds[f"{name}: its other epochs"] = round(sum(epochs[1:]), 4)


def _stages(clock: Clock) -> None:
    """What a first fit loads, one after another."""
    torch = clock.part("import torch", lambda: import_module("torch"))
    if not _has_card():
        return
    clock.part("torch.cuda.init", torch.cuda.init)
    clock.part("a first number on the card", lambda: _done(torch, torch.zeros(1, device="cuda")))
    clock.part("import triton", lambda: import_module("triton"))
    clock.part("triton hashes its own files", _hash_of_triton)
    clock.part("import of our kernel", lambda: import_module("fmpair.engine.torch.fused"))
    clock.part("first call of our kernel", lambda: _exponentials(torch))
    clock.part("second call of our kernel", lambda: _exponentials(torch))
    clock.part("first product (cuBLAS)", lambda: _product(torch))
    clock.part("sort, unique, count", lambda: _layout(torch))
    clock.part("pinned memory, 64 MB", lambda: torch.empty(1 << 26, dtype=torch.int8).pin_memory())
    clock.part("a recorded graph", lambda: _graph(torch))


def _done(torch: Any, value: Any) -> Any:
    torch.cuda.synchronize()
    return value


def _hash_of_triton() -> None:
    """Call what names Triton's cache: a hash of its own files, the library among them."""
    for name in ("triton.runtime.cache", "triton.compiler.compiler"):
        found = getattr(import_module(name), "triton_key", None)
        if found is not None:
            found()
            return


def _exponentials(torch: Any) -> None:
    softmax = import_module("fmpair.engine.torch.softmax")
    q, p = (torch.ones(n, 256, device="cuda", dtype=torch.bfloat16) for n in (1024, 4096))
    constants, offset = torch.zeros(4096, device="cuda"), torch.zeros(1024, device="cuda")
    _done(torch, softmax.exponentials(q, p, constants, offset))


def _product(torch: Any) -> None:
    square = torch.ones(1024, 1024, device="cuda", dtype=torch.bfloat16)
    _done(torch, square @ square)


def _layout(torch: Any) -> None:
    numbers = torch.arange(1 << 20, device="cuda").flip(0)
    torch.unique(numbers, return_counts=True)
    torch.sort(numbers, stable=True)
    _done(torch, torch.bincount(numbers))


def _graph(torch: Any) -> None:
    graph, value = torch.cuda.CUDAGraph(), torch.zeros(1000, device="cuda")
    with torch.cuda.graph(graph):
        value += 1
    graph.replay()
    _done(torch, value)


if __name__ == "__main__":
    main()
