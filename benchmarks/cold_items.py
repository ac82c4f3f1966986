"""How well are articles found that nobody has chosen yet? citeulike-a, Heater's split by item.

    FMPAIR_DATA=... python benchmarks/cold_items.py [--models KIND ...] [--seeds 0 1 2]
        [--content tags vectors both] [--entries N ...] [--epochs N] [--threads N] [--into FILE]
    FMPAIR_DATA=... python benchmarks/cold_items.py --after 0 1 3 10 [--models KIND ...] ...
    python benchmarks/cold_items.py --tables

Fits each model to cold_train.csv with what is known of the articles: their tags, an SVD of these
(300 dimensions) as vectors, or both. Every fit ranks the articles of cold_vali.csv and those of
cold_test.csv, each among themselves for each user, and appends a line per part to a file. --tables
prints the test lines of the entry of each grid that has the best NDCG@20 on the validation
articles. --entries: only these of the grid. --epochs: of fm-pair and lightfm, for a quick look. A
model whose library is not installed is left out.

--after: how soon events take over. Each unseen article with more than GIVEN events gives the first
n of them (in random order) to learn from, and those after GIVEN are ranked, among these articles.
`fm-pair-update` learns the n events by an update of the model without them, `fm-pair-ids` has no
tags.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from tasks import file_of, in_one_line

from fmpair import Dataset, evaluate, read
from fmpair.data.formats.research_sets import read_citeulike
from fmpair.evaluation import Protocol
from fmpair.features import FeatureSpace
from fmpair.models import catalog
from fmpair.models.classic.neighbours import content_of

METRICS = ("recall@20", "recall@100", "ndcg@20")
CHOSEN_BY = "ndcg@20"
RESULTS = Path(__file__).parent / "results" / "cold_items.jsonl"
CONTENT = ("tags", "vectors", "both")
DIMENSIONS = 300  # of the vectors
GIVEN = 10  # the most events of an unseen article that are learned from
FACTORS = 384  # of FMPair() with these tags, so of its peer too
# Kind -> options to choose from on the validation articles; {} are the defaults.
GRIDS: dict[str, list[dict[str, Any]]] = {
    "content-profile": [{"rarity": rarity} for rarity in (1.0, 1.5, 2.0)],
    "content-knn": [{"k": k} for k in (100, 200, 500)],
    "lightfm": [
        {"loss": loss, "epochs": epochs, "settings": {"no_components": FACTORS}}
        for loss in ("warp", "bpr")
        for epochs in (10, 20, 40)
    ],
    "fm-pair": [{}],
}
UPDATED, IDS = "fm-pair-update", "fm-pair-ids"
CURVES = ("content-profile", "content-knn", "fm-pair", UPDATED, IDS)
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", choices=(*GRIDS, UPDATED, IDS))
    parser.add_argument("--content", nargs="+", choices=CONTENT, default=["tags"])
    parser.add_argument("--entries", nargs="+", type=int)
    parser.add_argument("--after", nargs="+", type=int)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--tables", action="store_true")
    parser.add_argument("--into", type=Path, default=RESULTS)
    asked = parser.parse_args()
    if asked.tables:
        print(tables(asked.into))
        return
    folder = file_of("citeulike-a", "cold_train.csv").parent
    for row in curve_rows(folder, asked) if asked.after else unseen_rows(folder, asked):
        with asked.into.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(row, flush=True)


def part_of(folder: Path, name: str, items: pl.DataFrame) -> Dataset:
    """Return the events of a part, with all articles and what is known of them."""
    return read(folder / f"cold_{name}.csv", user="uid", item="iid", items=items)


def articles(folder: Path, content: str) -> pl.DataFrame:
    """Return all articles with their tags, an SVD of these, or both."""
    items = read_citeulike(folder).items
    if content == "tags":
        return items
    table = items.with_columns(pl.Series("text", shortened(folder, items)))
    return table if content == "both" else table.drop("tags")


def shortened(folder: Path, items: pl.DataFrame) -> np.ndarray:
    """Return the TF-IDF vectors of the tags in their leading directions: [articles, DIMENSIONS]."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.linalg import svds

    train = part_of(folder, "train", items)
    space = FeatureSpace.fit(train)
    rows = content_of(space, train, 1.0)
    matrix = csr_matrix((rows.value, rows.column, rows.start), (rows.size, space.item.size))
    left, values, _ = svds(matrix.astype(np.float64), DIMENSIONS, random_state=0)
    # the data set numbers articles in an order of its own
    return (left * values)[train.items.numbers(items["item"])].astype(np.float32)


# Articles without events.


def unseen_rows(folder: Path, asked: argparse.Namespace) -> Iterable[Row]:
    """Yield two rows per model, entry of its grid, content and seed: validation and test."""
    for content in asked.content:
        items = articles(folder, content)
        train, *judged = (part_of(folder, name, items) for name in ("train", "vali", "test"))
        for kind in asked.models or GRIDS:
            if reason := catalog.missing(kind):
                print(f"{kind} is left out: {reason}", flush=True)
                continue
            entries = range(len(GRIDS[kind])) if asked.entries is None else asked.entries
            for entry in entries:
                for seed in asked.seeds if seeded(kind) else asked.seeds[:1]:
                    model, row = fitted(kind, GRIDS[kind][entry], seed, train, asked)
                    row["content"] = content
                    for part, events in zip(("validation", "test"), judged):
                        found = evaluate(model, train, events, "cold", METRICS, asked.threads)
                        yield {**row, "part": part, **means(found)}


def seeded(kind: str) -> bool:
    return "seed" in {field.name for field in fields(catalog.find(kind))}


def fitted(
    kind: str, options: Mapping[str, Any], seed: int, train: Dataset, asked: argparse.Namespace
) -> tuple[Any, Row]:
    """Return a model and the row that tells of it."""
    recipe = catalog.find(kind)
    common = {"seed": seed, "epochs": asked.epochs, "threads": asked.threads}
    known = {field.name for field in fields(recipe)}
    given = {k: v for k, v in common.items() if k in known and v is not None}
    begin, processor = time.perf_counter(), time.process_time()
    model = recipe(**{**options, **given}).fit(train)
    row = {
        "model": kind,
        "options": {**options, **{k: given[k] for k in ("epochs",) if k in given}},
        "seed": seed,
        "seconds": round(time.perf_counter() - begin, 1),
        "processor_seconds": round(time.process_time() - processor, 1),
    }
    return model, row


def means(found: Any) -> dict[str, float]:
    """Return the mean of each metric, without the label of the candidates."""
    return {name.partition("[")[0]: round(value, 4) for name, value in found.means.items()}


# Articles with few events.


def curve_rows(folder: Path, asked: argparse.Namespace) -> Iterable[Row]:
    """Yield a row per model, seed and number of events of an unseen article."""
    items = articles(folder, "tags")
    first, rest = given_and_judged(folder, items)
    old = part_of(folder, "train", items).frame().select("user", "item")
    judged = Dataset.from_frame(rest, items=items)
    most = Dataset.from_frame(pl.concat([old, first.drop("number")]), items=items)
    ranked = sorted(rest["item"].unique())
    protocol = Protocol("user", candidates="file", items=ranked)
    for kind in asked.models or CURVES:
        base = "fm-pair" if kind in (UPDATED, IDS) else kind
        table = None if kind == IDS else items
        for seed in asked.seeds if seeded(base) else asked.seeds[:1]:
            before = None
            for count in asked.after:
                new = first.filter(pl.col("number") < count).drop("number")
                learned = old if kind == UPDATED else pl.concat([old, new])
                if before is None or kind != UPDATED:
                    train = Dataset.from_frame(learned, items=table)
                    before = fitted(base, {}, seed, train, asked)
                model, row = before
                if kind == UPDATED and count:
                    model = model.update(Dataset.from_frame(new, items=items))
                # the same lists for all: without the events that any of them may learn from
                found = evaluate(model, most, judged, protocol, METRICS, asked.threads)
                yield {**row, "model": kind, "part": "curve", "events": count, **means(found)}


def given_and_judged(folder: Path, items: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the events of unseen articles to learn from, numbered by article, and to rank."""
    events = part_of(folder, "test", items).frame().select("user", "item")
    known = part_of(folder, "train", items).frame()["user"].unique()
    events = events.filter(pl.col("user").is_in(known.implode()))
    events = events.sample(fraction=1.0, shuffle=True, seed=0)
    number = pl.int_range(pl.len()).over("item").alias("number")
    events = events.with_columns(number).filter(pl.len().over("item") > GIVEN)
    given = pl.col("number") < GIVEN
    return events.filter(given), events.filter(~given).drop("number")


# Tables of what was measured.


def tables(file: Path) -> str:
    """Return the tables of a file: unseen articles, and the curve."""
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    keys = ("model", "content", "options")
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(json.dumps([row.get(key, "tags") for key in keys]), []).append(row)
    chosen: dict[tuple[str, str], list[Row]] = {}
    for found in groups.values():
        if any(row["part"] == "validation" for row in found):
            pair = (found[0]["model"], found[0].get("content", "tags"))
            if pair not in chosen or _tried(found) > _tried(chosen[pair]):
                chosen[pair] = found
    lines = [f"| model | content | {' | '.join(METRICS)} | validation | seeds |", "|---" * 7 + "|"]
    for (kind, content), found in chosen.items():
        test = [row for row in found if row["part"] == "test"]
        values = " | ".join(_mean(test, metric) for metric in METRICS)
        shown = f"{kind} {found[0]['options'] or ''}"
        lines.append(f"| {shown} | {content} | {values} | {_tried(found):.4f} | {len(test)} |")
    curve = [row for row in rows if row["part"] == "curve"]
    counts = sorted({row["events"] for row in curve})
    lines += ["", f"| {CHOSEN_BY} after | {' | '.join(map(str, counts))} |"]
    lines.append("|---" * (len(counts) + 1) + "|")
    for kind in dict.fromkeys(row["model"] for row in curve):
        own = [[r for r in curve if (r["model"], r["events"]) == (kind, n)] for n in counts]
        lines.append(f"| {kind} | {' | '.join(_mean(found, CHOSEN_BY) for found in own)} |")
    return "\n".join(lines)


def _tried(rows: list[Row]) -> float:
    found = [row[CHOSEN_BY] for row in rows if row["part"] == "validation"]
    return sum(found) / len(found)


def _mean(rows: list[Row], metric: str) -> str:
    return f"{np.mean([row[metric] for row in rows]):.4f}" if rows else ""


if __name__ == "__main__":
    in_one_line(main)
