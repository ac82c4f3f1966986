"""How many lists a second from a million items, exactly and by an index?

    python benchmarks/large_catalogue.py [--quick] [--items N]

`fmpair serve` of one million generated items of 128 factors, on two workers: by the full product,
by the pass over int8 vectors, and by an index of recall .99 and of recall 1. Client and service
share the machine. Then the same questions to the model itself, on one thread, over all items and
over a tenth of them, as a rule leaves them: milliseconds of processor time, which other work on
the machine does not count into. Vectors are a mixture of Gaussians with the spectrum of a model
fitted to ML-1M; users lie between a few of its centres.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import report
from environment import ENVIRONMENTS, HERE
from measure import Answer, Check
from serve import bodies, fmpair_service, loaded

from fmpair import Dataset, FMPair, Recommender, load
from fmpair.arrays import empty_rows
from fmpair.data.synthetic import zipf_events
from fmpair.data.vocabulary import Vocabulary
from fmpair.fitted import large_catalogue
from fmpair.fitted.file import checksum_of
from fmpair.fitted.question import query_frame
from fmpair.fitted.recommender import from_factors

FACTORS, USERS, CENTRES = 128, 20_000, 4_000
DECAY = 20.0  # factors in which the spread falls to 1 / e
EVENTS_EACH = 10
WORKERS, CONNECTIONS, REQUESTS = 2, 4, 3_000
ASKED = 100  # lists by the model itself
WAYS = {"full product": None, "exact": None, "index": 0.99, "index, recall 1": 1.0}
FULL = (str(HERE / "workers" / "full_product.py"),)


def main() -> None:
    items = int(sys.argv[sys.argv.index("--items") + 1]) if "--items" in sys.argv else 1_000_000
    quick = "--quick" in sys.argv
    print(report.machine())
    path = model_of(items)
    answer = run(path, REQUESTS // 10 if quick else REQUESTS)
    print(f"\n{report.text('large catalogue', answer)}")
    if not quick and items == 1_000_000:
        report.write_csv(answer, HERE / "results")
        report.write_section("large catalogue", answer)


def run(path: Path, requests: int) -> Answer:
    asked, services, lists = bodies(path, ""), [], []
    for way, recall in WAYS.items():
        program = FULL if way == "full product" else ("-m", "fmpair")
        flags, row = [], {"way": way, "recall@10": 1.0}
        if recall is not None:
            row |= indexed(path, recall)
            flags = ["--index"]
        with fmpair_service(path, WORKERS, *flags, program=program) as address:
            services.append(row | loaded(address, asked, CONNECTIONS, requests))
        found = in_process(path, way, recall is not None)
        services[-1]["recall@10"] = found.pop("recall@10")
        lists.append({"way": way} | found)
    rows = {row["way"]: row for row in services}
    checks = [
        Check("exact: requests a second", rows["exact"]["requests/s"], 150),
        Check("exact: p99, ms", rows["exact"]["p99 ms"], 25, True),
        Check("index: requests a second", rows["index"]["requests/s"], 600),
        Check("index: p99, ms", rows["index"]["p99 ms"], 10, True),
        Check("index: recall@10", rows["index"]["recall@10"], 0.99),
    ]
    columns = list(dict.fromkeys(name for row in services for name in row))
    services = [{name: row.get(name, "") for name in columns} for row in services]
    return Answer({"large catalogue": services, "large lists": lists}, checks)


def indexed(path: Path, recall: float) -> dict[str, float]:
    """Build the index of a model; one of recall 1 is the other with a reach of 1."""
    file = large_catalogue.index_path(path)
    if recall == 1:
        model = load(path)
        index = large_catalogue.load_index(file, model, checksum_of(path))
        large_catalogue.save_index(replace(index, reach=1.0, recall=1.0), file)
        return {}
    begun = time.perf_counter()
    command = [sys.executable, "-m", "fmpair", "index", str(path), "--recall", str(recall)]
    subprocess.run(command, check=True)
    return {"built in s": round(time.perf_counter() - begun)}


def in_process(path: Path, way: str, indexed: bool) -> dict[str, Any]:
    """Milliseconds of processor time a list takes on one thread, and recall@10."""
    model = load(path)
    large, large_catalogue.LARGE = large_catalogue.LARGE, 1 << 62 if way == "full product" else 1
    index = None
    if indexed:
        file = large_catalogue.index_path(path)
        index = large_catalogue.load_index(file, model, checksum_of(path))
        large_catalogue.use_index(model, index)
    model.item_side.threads = 1
    frame = query_frame(model.space, model.space.users.ids.head(ASKED).to_list(), None)
    tenth = np.flatnonzero(np.random.default_rng(2).random(len(model.space.items)) < 0.1)
    row = {"recall@10": 1.0 if index is None else index.recall}
    for name, chosen in (("all items", None), ("a tenth", tenth)):
        took = []
        for number in range(0, ASKED, 1 if way != "full product" else 10):
            queries = model.queries(frame[number : number + 1], "error")
            begun = time.process_time()
            model.best(queries, chosen, empty_rows(1), 10, interactive=True)
            took.append(1e3 * (time.process_time() - begun))
        row |= {f"{name}, ms": np.median(took), f"{name}, p99 ms": np.quantile(took, 0.99)}
    large_catalogue.LARGE = large
    return row


def model_of(items: int) -> Path:
    """The file of a model, made once."""
    folder = ENVIRONMENTS / "served"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"clustered-{items}.fmpair"
    if not path.exists():
        generated(items).save(path)
    return path


def generated(items: int) -> Recommender:
    """A model with items around centres, and users between three of them."""
    draw = np.random.default_rng(0)
    spread = np.exp(-np.arange(FACTORS) / DECAY)
    turn = np.linalg.qr(draw.standard_normal((FACTORS, FACTORS)))[0]
    shape = (spread[:, None] * turn).astype(np.float32)
    centres = draw.standard_normal((CENTRES, FACTORS), np.float32) @ shape
    vectors = centres[draw.integers(CENTRES, size=items)]
    for first in range(0, items, 100_000):
        part = vectors[first : first + 100_000]
        part += 0.5 * draw.standard_normal(part.shape, np.float32) @ shape
    users = centres[draw.integers(CENTRES, size=(USERS, 3))].mean(axis=1)
    users += 0.3 * draw.standard_normal(users.shape, np.float32) @ shape
    names = (Vocabulary(pl.Series(range(size)).cast(pl.String)) for size in (USERS, items))
    user, item = zipf_events(USERS, items, EVENTS_EACH * USERS)
    # every item has an event: the vectors of others would become zero
    user = np.concatenate([user, draw.integers(USERS, size=items).astype(user.dtype)])
    item = np.concatenate([item, np.arange(items, dtype=item.dtype)])
    data = Dataset(*names, user, item, pl.DataFrame())
    bias = 0.3 * draw.standard_normal(items, np.float32)
    return from_factors(FMPair(factors=FACTORS), data, users, vectors, bias)


if __name__ == "__main__":
    main()
