"""How many lists a second from a million items, exactly and by an index?

    python benchmarks/large_catalogue.py [--quick] [--alone] [--items N] [--indexes] [--built]

`fmpair serve` of one million generated items of 128 factors, on two workers: by the full product,
by the pass over int8 codes, and by an index of recall .99; each over all items and under a rule
that keeps a tenth, beside a minimal service of FastAPI and implicit with the same vectors, without
and with implicit's own index (--alone: without them). Client and service share the machine. Then
the same questions to the model itself, on one thread: milliseconds of processor time, which other
work on the machine does not count into, and the share of exact lists that were found. Vectors are a
mixture of Gaussians with the spectrum of a model fitted to ML-1M; users lie between a few of its
centres. --indexes, and above a million items: only indexes are asked. Their figures are written
apart from those of all ways. --built: the index beside the model is used as it is.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import report
from environment import ENVIRONMENTS, HERE, NotInstallableError, serving
from measure import Answer, Check
from serve import bodies, fmpair_service, loaded, peer_service, vectors_of, warming

from fmpair import Dataset, FMPair, Recommender, load
from fmpair.data.synthetic import zipf_events
from fmpair.data.vocabulary import Vocabulary
from fmpair.fitted import large_catalogue
from fmpair.fitted.file import checksum_of
from fmpair.fitted.recommender import from_factors

FACTORS, USERS, CENTRES = 128, 20_000, 4_000
DECAY = 20.0  # factors in which the spread falls to 1 / e
EVENTS_EACH = 10
WORKERS, CONNECTIONS, REQUESTS = 2, 4, 3_000
ASKED = 100  # lists by the model itself
WAYS = ("full product", "exact", "index")
PARTS, RULE = 10, "part=3"
INDEX = {"index": ["--index"]}
PROMISED = {"exact": (150, 25), "index": (600, 10)}  # requests a second, milliseconds
RECALL = 0.99
OF_MORE = (0, 30), 0.98  # the same of an index of more than a million items, and its recall
Row = dict[str, Any]
FULL = (str(HERE / "workers" / "full_product.py"),)


def main() -> None:
    items = int(sys.argv[sys.argv.index("--items") + 1]) if "--items" in sys.argv else 1_000_000
    quick = "--quick" in sys.argv
    print(report.machine())
    path = model_of(items)
    whole = items == 1_000_000 and "--indexes" not in sys.argv
    ways = WAYS if whole else WAYS[-1:]
    requests = REQUESTS // (10 if quick else 1 if whole else 3)
    beside = "--alone" not in sys.argv and items <= 1_000_000
    answer = run(path, ways, requests, beside, items > 1_000_000)
    if not whole:
        name = f"{items // 1_000_000}M items by indexes"
        services, lists = answer.tables.values()
        answer = replace(answer, tables={name: services, f"{name} lists": lists})
    print(f"\n{report.text('large catalogue', answer)}")
    if not quick:
        report.write_csv(answer, HERE / "results")
    if not quick and whole:
        report.write_section("large catalogue", answer)


def run(path: Path, ways: tuple[str, ...], requests: int, beside: bool, larger: bool) -> Answer:
    asked, services, lists, notes = bodies(path, ""), [], [], []
    for way in ways:
        program = FULL if way == "full product" else ("-m", "fmpair")
        built = indexed(path) if way == "index" and "--built" not in sys.argv else ""
        with fmpair_service(path, WORKERS, *INDEX.get(way, []), program=program) as address:
            for items, more in (("all", {}), ("a tenth", {"where": RULE})):
                found = asked_of(f"serve {path}", address, [one | more for one in asked], requests)
                row = {"service": f"fmpair, {way}", "items": items, "built in s": built}
                services.append(row | found)
        own = in_process(path, way)
        for row, found in zip(services[-2:], own):
            row["recall@10"] = found["recall@10"]
        lists += own
    if beside:
        try:
            python = serving()
            services += beside_it(python, path, asked, requests, exact=len(ways) > 1)
        except NotInstallableError as error:
            notes.append(f"FastAPI and implicit are not installable here: {error}")
    checks = [check for way in ways for check in promises(way, services, lists, larger)]
    return Answer({"large catalogue": services, "large lists": lists}, checks, notes)


def beside_it(
    python: Path, path: Path, asked: list[Row], requests: int, exact: bool
) -> Iterator[Row]:
    """The rows of FastAPI and implicit. exact: also without its index."""
    name, words = "FastAPI + implicit", "implicit_service:app"
    vectors, index = vectors_of(path), path.with_suffix(".faiss")
    if exact:
        with peer_service(python, path, WORKERS) as address:
            found = asked_of(words, address, asked, requests // 4)
        yield {"service": name, "items": "all", "built in s": ""} | found | {"recall@10": 1.0}
    command = [python, HERE / "workers" / "implicit_index.py", vectors, index, str(RECALL)]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
    built = json.loads(done.stdout)
    for cells, recall in built["recall"].items():
        with peer_service(python, path, WORKERS, INDEX=str(index), CELLS=cells) as address:
            found = asked_of(words, address, asked, requests)
        row = {"service": f"{name}, index, {cells} cells", "items": "all"}
        yield row | {"built in s": built["seconds"]} | found | {"recall@10": recall}


def promises(way: str, services: list[Row], lists: list[Row], larger: bool) -> Iterator[Check]:
    for items in ("all", "a tenth"):
        (row,) = (r for r in services if r["service"] == f"fmpair, {way}" and r["items"] == items)
        (own,) = (r for r in lists if r["way"] == way and r["items"] == items)
        if way in PROMISED:
            (least, most), recall = OF_MORE if larger else (PROMISED[way], RECALL)
            yield Check(f"{way}, {items}: requests a second", row["requests/s"], least)
            yield Check(f"{way}, {items}: p99, ms", row["p99 ms"], most, True)
            yield Check(f"{way}, {items}: recall@10", own["recall@10"], recall)


def indexed(path: Path) -> int:
    """Build the index of a model; return how many seconds that took."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "fmpair", "index", str(path), "--recall", str(RECALL)]
    subprocess.run(command, check=True)
    return round(time.perf_counter() - begun)


def processes(words: str) -> list[Path]:
    """The folders in /proc of a service: its parent, whose command has the words, and workers."""
    folders = [place.parent for place in Path("/proc").glob("[0-9]*/stat")]
    parents = set()
    for folder in folders:
        with suppress(OSError):
            command = (folder / "cmdline").read_bytes().decode().replace("\0", " ")
            if words in command and "load.py" not in command:
                parents.add(folder.name)
    return [one for one in folders if one.name in parents or parents & {*_fields(one)[1:2]}]


def _fields(folder: Path) -> list[str]:
    """The fields of a process's status after its name."""
    with suppress(OSError):
        return (folder / "stat").read_text().rsplit(")", 1)[1].split()
    return []


def processor_seconds(words: str) -> float:
    ticks = (int(one[11]) + int(one[12]) for one in map(_fields, processes(words)) if one)
    return sum(ticks) / os.sysconf("SC_CLK_TCK")


def memory_of(words: str) -> int:
    """MB of a service; what its workers share is counted once."""
    rollups = [(folder / "smaps_rollup").read_text() for folder in processes(words)]
    return sum(int(re.search(r"Pss:\s+(\d+)", text)[1]) for text in rollups) // 1000


def asked_of(words: str, address: str, asked: list[Row], requests: int) -> Row:
    """What a client measures, and the processor time and memory of the service."""
    begun = processor_seconds(words)
    found = loaded(address, asked, CONNECTIONS, requests)
    each = 1e3 * (processor_seconds(words) - begun) / (requests + warming(requests))
    return found | {"CPU ms": each, "MB": memory_of(words)}


def in_process(path: Path, way: str) -> list[Row]:
    """Milliseconds of processor time a list takes on one thread, and recall@10."""
    model, exact = load(path, mapped=True), load(path, mapped=True)
    large, large_catalogue.LARGE = large_catalogue.LARGE, 1 << 62 if way == "full product" else 1
    if way == "index":
        file = large_catalogue.index_path(path)
        large_catalogue.use_index(model, large_catalogue.load_index(file, model, checksum_of(path)))
    model.item_side.threads, rows = 1, []
    users = model.space.users.ids.sample(ASKED // (10 if way == "full product" else 1), seed=3)
    for items, rule in (("all", None), ("a tenth", RULE)):
        took, hits = [], 0
        model.answer(users[0], where=rule)
        for user in users:
            begun = time.process_time()
            found = model.answer(user, where=rule).items
            took.append(1e3 * (time.process_time() - begun))
            if way == "index":
                hits += len({*found} & {*exact.answer(user, where=rule).items})
        recall = hits / 10 / len(users) if way == "index" else 1.0
        row = {"way": way, "items": items, "ms": np.median(took)}
        rows.append(row | {"p99 ms": np.quantile(took, 0.99), "recall@10": recall})
    large_catalogue.LARGE = large
    return rows


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
    names = [Vocabulary(pl.Series(range(size)).cast(pl.String)) for size in (USERS, items)]
    user, item = zipf_events(USERS, items, EVENTS_EACH * USERS)
    # every item has an event: the vectors of others would become zero
    user = np.concatenate([user, draw.integers(USERS, size=items).astype(user.dtype)])
    item = np.concatenate([item, np.arange(items, dtype=item.dtype)])
    known = pl.DataFrame({"": names[1].ids, "part": np.arange(items) % PARTS})
    data = Dataset(*names, user, item, pl.DataFrame(), catalogue=known)
    bias = 0.3 * draw.standard_normal(items, np.float32)
    return from_factors(FMPair(factors=FACTORS), data, users, vectors, bias)


if __name__ == "__main__":
    main()
