"""How well do the losses, negatives, optimizers and presets rank on MovieLens 100K?

    FMPAIR_DATA=... python benchmarks/recipes.py [--seeds 0 1 2] [--threads N]
    python benchmarks/recipes.py tables

The tables of docs/model.md: NDCG@10 on a validation set, a random tenth of the ratings above the
mean of their user, all items ranked, ids only, mean of the seeds. Options that a row does not name
have their defaults; without a number of negatives the regularisation is chosen in trials.
Results are written to a file, a line per fit; `tables` prints the means over seeds.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from fmpair import Dataset, FMPair, evaluate
from fmpair.data import holdout, public_sets
from fmpair.models import PRFM, ListwiseFM

RESULTS = Path(__file__).parent / "results" / "recipes.jsonl"
METRIC = "ndcg@10"
DISLIKED = 2  # stars up to which a film counts as shown and not chosen

SOFTMAX = {"n_negatives": 32}
L2 = {"regularization": {"user": 0.15, "item": 0.075}}  # the default, without trials
# Table -> row -> recipe.
TABLES: dict[str, dict[str, Any]] = {
    "losses": {
        "`FMPair()`": FMPair(),
        "`FMPair(n_negatives=32)`": FMPair(**SOFTMAX),
        '`FMPair(loss="bpr")`': FMPair(loss="bpr"),
        '`FMPair(loss="hinge")`': FMPair(loss="hinge"),
        '`FMPair(loss="logistic")`': FMPair(loss="logistic"),
        '`FMPair(loss="warp")`': FMPair(loss="warp"),
        "`PRFM()`": PRFM(),
        "`ListwiseFM()`": ListwiseFM(),
    },
    "losses, 60 epochs": {
        '`FMPair(loss="bpr")`': FMPair(loss="bpr", epochs=60),
        '`FMPair(loss="hinge")`': FMPair(loss="hinge", epochs=60),
        '`FMPair(loss="logistic")`': FMPair(loss="logistic", epochs=60),
        '`FMPair(loss="warp")`': FMPair(loss="warp", epochs=60),
    },
    "negatives": {
        "uniform": FMPair(**SOFTMAX),
        "popularity": FMPair(negative_sampler="popularity", **SOFTMAX),
        "batch": FMPair(negative_sampler="batch", **SOFTMAX),
        "batch, `logq_correction`": FMPair(negative_sampler="batch", logq_correction=True,
                                           **SOFTMAX),
    },
    "sgd": {
        "softmax, 25 epochs": FMPair(**SOFTMAX, **L2),
        "softmax, 6 epochs": FMPair(epochs=6, learning_rate=0.2, **SOFTMAX, **L2),
        "BPR, 25 epochs": FMPair(loss="bpr"),
    },
    "adagrad": {
        "softmax, 25 epochs": FMPair(optimizer="adagrad", learning_rate=0.4, **SOFTMAX, **L2),
        "softmax, 6 epochs": FMPair(optimizer="adagrad", epochs=6, learning_rate=0.4, **SOFTMAX,
                                    **L2),
        "BPR, 25 epochs": FMPair(loss="bpr", optimizer="adagrad"),
    },
    "presets": {
        "`FMPair.paper()`": FMPair.paper(),
        "`FMPair.fast()`": FMPair.fast(),
        "`FMPair()`": FMPair(),
        "`FMPair.best()`": FMPair.best(),
    },
    **{
        f"impressions, share {share}": {
            '`FMPair(loss="bpr")`': FMPair(loss="bpr", impression_share=share),
            "`FMPair(n_negatives=32)`": FMPair(impression_share=share, **SOFTMAX),
        }
        for share in (0.0, 0.05, 0.2)
    },
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("question", nargs="?", choices=("tables",))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--threads", type=int)
    parser.add_argument("--into", type=Path, default=RESULTS)
    asked = parser.parse_args()
    if asked.question is None:
        measure(asked)
    print(tables(asked.into))


def measure(asked: argparse.Namespace) -> None:
    """Fit every recipe with every seed; equal recipes are fitted once for each table."""
    asked.into.unlink(missing_ok=True)
    parts = {shown: parts_of(shown) for shown in (False, True)}
    for table, rows in TABLES.items():
        train, test = parts[table.startswith("impressions")]
        for label, recipe in rows.items():
            for seed in asked.seeds:
                model = replace(recipe, seed=seed, threads=asked.threads).fit(train)
                value = evaluate(model, train, test, metrics=[METRIC]).means[METRIC]
                row = {"table": table, "row": label, "seed": seed, METRIC: round(value, 5)}
                with asked.into.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                print(row, flush=True)


def parts_of(shown: bool) -> tuple[Dataset, Dataset]:
    """Return training and test events; with ratings of 1 and 2 as impressions, or without."""
    frame = public_sets.load("ml-100k").frame().select("user", "item", "rating")
    above = frame.filter(pl.col("rating") > pl.col("rating").mean().over("user"))
    data = Dataset.from_frame(above.select("user", "item"))
    train, _, test = holdout(data, test=0.1).parts(data)
    if not shown:
        return train, test
    disliked = frame.filter(pl.col("rating") <= DISLIKED).join(
        above, on=["user", "item"], how="anti"
    )
    return Dataset.from_frame(train.frame(), impressions=disliked.select("user", "item")), test


def tables(file: Path) -> str:
    """Return the mean over seeds of every row, a table for each of TABLES."""
    means = pl.read_ndjson(file).group_by("table", "row", maintain_order=True)
    lines: list[str] = []
    for (name,), rows in means.agg(pl.col(METRIC).mean()).group_by("table", maintain_order=True):
        lines += [f"\n| {name} | NDCG@10 |", "|---|---|"]
        lines += [
            f"| {row} | {value:.4f} |" for row, value in rows.select("row", METRIC).iter_rows()
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
