"""Many thousands of damaged inputs and crafted models: none may end the process or raise an error
of another library.

    python -m faults.fuzz --parquet 20000 --others 100000 --models 5000

in the folder tests. Prints the counts as JSON, and the seed of every case that breaks a promise.
A process that dies costs one case: the next one goes on behind it.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from faults.samples import SAMPLES

TESTS = Path(__file__).parents[1]
CRAFTED = TESTS / "fitted" / "crafted.py"
CHUNK = 500  # models of one process


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name, count in (("parquet", 20_000), ("others", 100_000), ("models", 5_000), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=count)
    given = parser.parse_args()
    columnar = [name for name in SAMPLES if "parquet" in name or name == "splits"]
    others = [name for name in SAMPLES if name not in columnar]
    for names, count in ((columnar, given.parquet), (others, given.others)):
        for name in names:
            report(name, inputs(name, given.seed, -(-count // len(names))))
    report("models", models(given.seed, given.models))


def report(name: str, counts: Counter[str]) -> None:
    if counts:
        print(json.dumps({"sample": name, "counts": counts}), flush=True)


def inputs(name: str, seed: int, count: int) -> Counter[str]:
    """Read damaged inputs of one sample; a death of the process is counted, and the rest read."""
    counts: Counter[str] = Counter()
    end = seed + count
    while seed < end:
        with TemporaryDirectory(prefix="fuzz-") as place:
            progress = Path(place) / "progress"
            done = subprocess.run(
                [sys.executable, "-m", "faults.batch", str(seed), str(end - seed), name],
                env={**os.environ, "PROGRESS": str(progress), "POLARS_MAX_THREADS": "2",
                     "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
                capture_output=True, text=True, cwd=place,
            )  # fmt: skip
            last = int(progress.read_text().split()[-1])
        for line in done.stdout.splitlines():
            found = json.loads(line)
            counts.update(found.get("counts", {}))
            if "seed" in found:
                print(line, flush=True)
        if done.returncode:
            counts["died"] += 1
            counts["read or refused before"] += last - seed
            print(json.dumps({"sample": name, "died": last, "says": done.stderr[-200:]}))
        seed = last + 1
    return counts


def models(seed: int, count: int) -> Counter[str]:
    """Load crafted models."""
    counts: Counter[str] = Counter()
    for first in range(seed, seed + count, CHUNK):
        done = subprocess.run(
            [sys.executable, str(CRAFTED), str(first), str(min(CHUNK, seed + count - first))],
            capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            counts["died"] += 1
            print(json.dumps({"models from": first, "says": done.stderr[-500:]}))
            continue
        found = json.loads(done.stdout)
        counts.update(found["found"])
        for wrong in found["wrong"]:
            print(json.dumps(wrong), flush=True)
    return counts


if __name__ == "__main__":
    main()
