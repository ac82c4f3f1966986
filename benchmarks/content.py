"""What do attributes and vectors cost and bring, where items have events? And for unseen users?

    FMPAIR_DATA=... python benchmarks/content.py warm SET FIELDS [--seeds 0 1 2]
    FMPAIR_DATA=... python benchmarks/content.py users MODEL [--seeds 0 1 2]
    FMPAIR_DATA=... python benchmarks/content.py cost SET FIELDS
    python benchmarks/content.py tables
    (each with [--epochs N] [--threads N] [--device DEVICE] [--into FILE])

warm: a tenth of the events, held out at random, all items ranked; FIELDS: `ids`, or the item's
fields with commas between, of the set (SETS). users: MovieLens 1M, all events of a fifth of the
users held out, ranked by age, gender and occupation. cost: processor seconds and memory of a whole
fit in this process; SET may be `generated`: 100,000 items, FIELDS `ids` or `text` (384 dimensions).

FMPair() has its defaults, but no history, times or order three, for which it would make more
trials.
Results are appended to a file, a line per fit; `tables` prints the means over seeds.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from tasks import in_one_line

from fmpair import Dataset, evaluate
from fmpair.data import cold_users, core, holdout, public_sets
from fmpair.data.formats.research_sets import read_movielens
from fmpair.models import FMPair, Popularity

RESULTS = Path(__file__).parent / "results" / "content.jsonl"
METRICS = ("recall@20", "ndcg@10")
LIKED = 4  # stars of MovieLens from which a film counts as chosen
GENERATED = (20_000, 100_000, 300_000, 384)  # users, items, events, dimensions
TASTES = 200  # groups of generated users, items and vectors
KNOWN = ("age", "gender", "occupation")
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("question", choices=("warm", "users", "cost", "tables"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--device")
    parser.add_argument("--into", type=Path, default=RESULTS)
    asked = parser.parse_args()
    if asked.question == "tables":
        print(tables(asked.into))
        return
    ask = {"warm": warm_rows, "users": user_rows, "cost": cost_rows}[asked.question]
    for row in ask(*asked.names, asked=asked):
        row = {"question": asked.question, **row}
        with asked.into.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(row, flush=True)


# The sets.


def citeulike() -> tuple[pl.DataFrame, pl.DataFrame]:
    return tables_of(public_sets.load("citeulike-a"))


def xing() -> tuple[pl.DataFrame, pl.DataFrame]:
    """XING's 5-core, with the concepts of the jobs' titles."""
    events, items = tables_of(core(public_sets.load("xing-2016"), 5))
    return events, items


def movies() -> tuple[pl.DataFrame, pl.DataFrame]:
    """The films that users liked, with genres and the words of their titles, without the year."""
    events, _, items = movielens()
    title = pl.col("title").str.replace(r"\s*\(\d{4}\)\s*$", "").str.to_lowercase()
    return events, items.select("item", "genres", words=title.str.extract_all(r"\w+"))


def movielens() -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    file = public_sets.fetch("ml-1m") / "ml-1m.zip"
    read = read_movielens(file, titles=True)
    assert read.users is not None and read.items is not None
    liked = read.events.filter(pl.col("rating") >= LIKED)
    return liked.select("user", "item"), read.users, read.items


def generated() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Users choose items of their taste, whose vectors are alike; every item is chosen."""
    users, items, count, dimensions = GENERATED
    rng = np.random.default_rng(0)
    user = rng.integers(0, users, count)
    item = user % TASTES + TASTES * rng.integers(0, items // TASTES, count)
    item[:items] = np.arange(items)
    user[:items] = item[:items] % TASTES + TASTES * rng.integers(0, users // TASTES, items)
    centre = rng.normal(size=(TASTES, dimensions)).astype(np.float32)
    text = rng.normal(size=(items, dimensions)).astype(np.float32)
    text += centre[np.arange(items) % TASTES]
    events = pl.DataFrame({"user": user, "item": item})
    return events, pl.DataFrame({"item": np.arange(items), "text": text})


def tables_of(data: Dataset) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the pairs of a data set and its items, with an id column."""
    items = data.item_table.with_columns(data.items.ids.alias("item"))
    return data.frame().select("user", "item"), items


SETS: dict[str, Callable[[], tuple[pl.DataFrame, pl.DataFrame]]] = {
    "citeulike-a": citeulike,
    "xing-5-core": xing,
    "ml-1m": movies,
    "generated": generated,
}


def data_of(name: str, given: str) -> Dataset:
    """Return a set with some of its fields, or none."""
    events, items = SETS[name]()
    if given == "ids":
        return Dataset.from_frame(events)
    return Dataset.from_frame(events, items=items.select("item", *given.split(",")))


# What is measured.


def recipe(seed: int, asked: argparse.Namespace, **options: Any) -> FMPair:
    common = {"threads": asked.threads, "epochs": asked.epochs, "device": asked.device}
    given = {name: value for name, value in common.items() if value is not None}
    return FMPair(seed=seed, order=2, times=False, history=0, **given, **options)


def warm_rows(
    name: str, given: str, factors: str = "", *, asked: argparse.Namespace
) -> Iterable[Row]:
    """Yield a row per seed, of the split and of the model; factors: instead of the default."""
    data = data_of(name, given)
    options = {"factors": int(factors)} if factors else {}
    for seed in asked.seeds:
        train, _, test = holdout(data, test=0.1, seed=seed).parts(data)
        begin = time.process_time()
        model = recipe(seed, asked, **options).fit(train)
        seconds = time.process_time() - begin
        found = evaluate(model, train, test, "full-user", METRICS, asked.threads)
        shown = {"set": name, "fields": given, "device": asked.device or "cpu"}
        shown |= {"factors": model.parameters.users.shape[1], "seed": seed}
        yield {**shown, "processor_seconds": round(seconds, 1), **rounded(found)}


def user_rows(kind: str, *, asked: argparse.Namespace) -> Iterable[Row]:
    """Yield a row per seed; kind: fm-pair, popularity, or attributes to count events within."""
    events, users, _ = movielens()
    data = Dataset.from_frame(events, users=users.select("user", *KNOWN))
    for seed in asked.seeds:
        train, _, test = cold_users(data, test=0.2, seed=seed).parts(data)
        begin, model = time.process_time(), None
        if kind == "fm-pair":
            model = recipe(seed, asked).fit(train)
        elif kind == "popularity":
            model = Popularity().fit(train)
        else:
            model = partial(popularity_within, kind.split(","), train, users)
        seconds = time.process_time() - begin
        found = evaluate(model, train, test, "full-user", METRICS, asked.threads)
        yield {
            "model": kind,
            "seed": seed,
            "processor_seconds": round(seconds, 1),
            **rounded(found),
        }


def popularity_within(
    columns: list[str], train: Dataset, users: pl.DataFrame, asked: Dataset
) -> np.ndarray:
    """Score items by their events of users with the same attributes, ties by all events."""
    codes = users.select("user", code=pl.struct(columns).rank("dense") - 1)
    number = {user: int(code) for user, code in codes.iter_rows()}
    code = np.array([number[user] for user in train.users.ids])[train.user]
    size = len(train.items)
    count = np.bincount(code * size + train.item, minlength=size * len(set(number.values())))
    table = count.reshape(-1, size) + np.bincount(train.item, minlength=size) / len(train)
    return table[[number[user] for user in asked.users.ids[asked.user]]].astype(np.float32)


def cost_rows(name: str, given: str, *, asked: argparse.Namespace) -> Iterable[Row]:
    """Yield one row: a whole fit."""
    data = data_of(name, given)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin, clock = time.process_time(), time.perf_counter()
    asked_for = recipe(asked.seeds[0], asked)
    model = asked_for.fit(data)
    seconds, waited = time.process_time() - begin, time.perf_counter() - clock
    yield {
        "set": name,
        "fields": given,
        "device": asked.device or "cpu",
        "epochs": asked_for.epochs,
        "factors": model.parameters.users.shape[1],
        "processor_seconds": round(seconds, 1),
        "seconds": round(waited, 1),
        "data_mb": before // 1024,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def rounded(found: Any) -> dict[str, float]:
    return {name.partition("[")[0]: round(value, 5) for name, value in found.means.items()}


def tables(file: Path) -> str:
    """Return a table per question: the means over seeds."""
    lines_of_file = file.read_text(encoding="utf-8").splitlines()
    rows = [{"device": "cpu", **json.loads(line)} for line in lines_of_file]
    names = ("set", "fields", "device", "epochs", "factors", "model")
    numbers = (*METRICS, "processor_seconds", "seconds", "data_mb", "peak_mb")
    lines: list[str] = []
    for question in dict.fromkeys(row["question"] for row in rows):
        own = pl.DataFrame([row for row in rows if row["question"] == question])
        keys = [name for name in names if name in own.columns]
        shown = [pl.col(name).mean().round(4) for name in numbers if name in own.columns]
        means = own.group_by(keys, maintain_order=True).agg(*shown, runs=pl.len())
        lines += ["", question, f"| {' | '.join(means.columns)} |", "|---" * means.width + "|"]
        lines += [f"| {' | '.join(map(str, row))} |" for row in means.iter_rows()]
    return "\n".join(lines[1:])


if __name__ == "__main__":
    in_one_line(main)
