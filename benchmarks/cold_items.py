"""How well are articles found that nobody has chosen yet? citeulike-a, Heater's split by item.

    FMPAIR_DATA=... python benchmarks/cold_items.py [--models KIND ...] [--seeds 0 1 2]
        [--epochs N] [--threads N] [--into results/cold_items.jsonl]

Fits each model to cold_train.csv with the articles' tags, with every entry of its grid; chooses by
NDCG@20 on the articles of cold_vali.csv, and asks those of cold_test.csv once per seed. Unseen
articles are ranked among themselves for each user. Prints one table, and appends a line per fit to
a file. A model whose library is not installed is left out. --epochs: of fm-pair and lightfm, for
a quick look.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from fmpair import Dataset, evaluate, read
from fmpair.data.formats.research_sets import read_citeulike
from fmpair.models import catalog

METRICS = ("recall@20", "recall@100", "ndcg@20")
CHOSEN_BY = "ndcg@20"
RESULTS = Path(__file__).parent / "results" / "cold_items.jsonl"
# Kind -> options to choose from on the validation articles; {} are the defaults.
GRIDS: dict[str, list[dict[str, Any]]] = {
    "content-profile": [{"rarity": rarity} for rarity in (1.0, 1.5, 2.0)],
    "content-knn": [{"k": k} for k in (100, 200, 500)],
    "lightfm": [
        {"loss": loss, "settings": {"no_components": size}}
        for loss in ("warp", "bpr")
        for size in (32, 128)
    ],
    "fm-pair": [{}],
}
Parts = tuple[Dataset, Dataset, Dataset]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", choices=GRIDS, default=list(GRIDS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--into", type=Path, default=RESULTS)
    asked = parser.parse_args()
    parts = citeulike(Path(os.environ["FMPAIR_DATA"]) / "citeulike-a")
    print(f"| model | {' | '.join(METRICS)} | fit, s |\n{'|---' * (len(METRICS) + 2)}|", flush=True)
    for kind in asked.models:
        if reason := catalog.missing(kind):
            print(f"| {kind} | left out: {reason} |", flush=True)
            continue
        for row in rows_of(kind, parts, asked):
            with asked.into.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            if row["part"] == "test":
                values = " | ".join(f"{row[metric]:.4f}" for metric in METRICS)
                print(f"| {kind} {row['options']} | {values} | {row['seconds']:.1f} |", flush=True)


def citeulike(folder: Path) -> Parts:
    """Return the events to learn, choose and test on, each with all articles and their tags."""
    items = read_citeulike(folder).items

    def part(name: str) -> Dataset:
        return read(folder / f"cold_{name}.csv", user="uid", item="iid", items=items)

    return part("train"), part("vali"), part("test")


def rows_of(kind: str, parts: Parts, asked: argparse.Namespace) -> list[dict[str, Any]]:
    """Return a row per entry of the grid on the validation articles, and per seed on the test."""
    train, validation, test = parts
    grid, rows = GRIDS[kind], []
    if len(grid) > 1:
        rows = [measured(kind, o, asked.seeds[0], train, validation, asked) for o in grid]
    tried = [row[CHOSEN_BY] for row in rows] or [0.0]
    best = grid[tried.index(max(tried))]
    seeded = "seed" in {field.name for field in fields(catalog.find(kind))}
    for seed in asked.seeds if seeded else asked.seeds[:1]:
        rows.append({**measured(kind, best, seed, train, test, asked), "part": "test"})
    return rows


def measured(
    kind: str,
    options: Mapping[str, Any],
    seed: int,
    train: Dataset,
    judged: Dataset,
    asked: argparse.Namespace,
) -> dict[str, Any]:
    """Return one fit as a row."""
    recipe = catalog.find(kind)
    common = {"seed": seed, "epochs": asked.epochs, "threads": asked.threads}
    known = {field.name for field in fields(recipe)}
    given = {k: v for k, v in common.items() if k in known and v is not None}
    begin = time.perf_counter()
    model = recipe(**options, **given).fit(train)
    seconds = time.perf_counter() - begin
    found = evaluate(model, train, judged, "cold", METRICS)
    values = {name.partition("[")[0]: round(value, 4) for name, value in found.means.items()}
    shown = {**options, **{k: given[k] for k in ("epochs",) if k in given}}
    row = {"model": kind, "options": shown, "seed": seed, "part": "validation"}
    return {**row, **values, "seconds": round(seconds, 1)}


if __name__ == "__main__":
    main()
