"""The defaults beside popularity, pairs and tuned models on every public set.

    FMPAIR_DATA=... python benchmarks/defaults.py [--write]

A tenth of the (training) events is held out at random; the rest is learned from with `FMPair()` as
it stands, with and without context and attributes, and with the best options that a search on the
same part found (so they are a little flattered). NDCG@10, full ranking of the held-out events.
--write puts the table into docs/model.md.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from fmpair import FMPair, Popularity
from fmpair.data import Dataset, public_sets
from fmpair.data.filters import above_mean, core
from fmpair.data.splits import holdout
from fmpair.training.epochs import Validation

PAGE = Path(__file__).parent.parent / "docs" / "model.md"
BEGIN, END = "<!-- defaults -->", "<!-- /defaults -->"
# The best of the settings tried with 64 factors; how many, and which, stands in docs/model.md.
TUNED: dict[str, dict[str, Any]] = {
    "MovieLens 100K, above the user's mean": {
        "n_negatives": 128, "regularization": {"user": 0.1917, "item": 0.0959},
    },
    "MovieLens 1M, above the user's mean": {"learning_rate": 0.05, "epochs": 40},
    "Frappe-CFM, training file": {"learning_rate": 0.05, "epochs": 50},
    "Amazon, four domains, above the user's mean": {
        "regularization": {"user": 0.1449, "item": 0.0725},
    },
}  # fmt: skip


def sets() -> dict[str, Dataset]:
    """Every set of the catalogue as positives; where parts are given, the training part."""
    return {
        "MovieLens 100K, above the user's mean": above_mean(public_sets.load("ml-100k")),
        "MovieLens 1M, above the user's mean": above_mean(public_sets.load("ml-1m")),
        "Frappe-CFM, training file": public_sets.load("frappe-cfm", part="train"),
        "Frappe, all events": public_sets.load("frappe"),
        "Amazon, four domains, above the user's mean": above_mean(public_sets.load("amazon-cdtf")),
        "XING 2016, 5-core": core(public_sets.load("xing-2016"), 5, 5),
        "Yelp2018, training file": public_sets.load("yelp2018", part="train"),
        "DePaulMovie, above the user's mean": above_mean(public_sets.load("depaul-movie")),
    }


def plain(data: Dataset) -> Dataset:
    """Ids only."""
    nothing = pl.DataFrame()
    return replace(data, context=(), user_table=nothing, item_table=nothing)


def row(name: str, data: Dataset) -> dict[str, object]:
    """NDCG@10 of popularity, pairs, the defaults without and with fields, the tuned; seconds."""
    parts = holdout(data, test=0.1, seed=1)
    train, held_out = data.take(parts.train), data.take(parts.test)
    ids = plain(train)
    judge = Validation(ids, plain(held_out), "ndcg@10", 1).judge
    began = time.perf_counter()
    model = FMPair().fit(ids)
    seconds = time.perf_counter() - began
    fields = [*data.context, *data.user_table.columns, *data.item_table.columns]
    found = None
    if fields:
        found = Validation(train, held_out, "ndcg@10", 1).judge(FMPair().fit(train))
    return {
        "set": name, "events": len(train), "popularity": judge(Popularity().fit(ids)),
        "60 epochs of pairs": judge(FMPair(loss="bpr", epochs=60).fit(ids)),
        "FMPair()": judge(model),
        "tuned": judge(FMPair(**TUNED[name]).fit(ids)) if name in TUNED else None,
        "with fields": found, "fields": ", ".join(fields), "seconds": seconds,
    }  # fmt: skip


def table(rows: list[dict[str, object]]) -> str:
    """The rows as a Markdown table."""
    lines = ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    for r in rows:
        cells = [
            f"{v:,}" if isinstance(v, int)
            else f"{v:.1f}" if k == "seconds"
            else f"{v:.4f}" if isinstance(v, float) else "" if v is None else str(v)
            for k, v in r.items()
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    rows = []
    for name, data in sets().items():
        rows.append(row(name, data))
        print(table(rows[-1:]).splitlines()[-1], flush=True)
    if "--write" in sys.argv:
        page = PAGE.read_text()
        before, rest = page.split(BEGIN)
        after = rest.split(END)[1]
        PAGE.write_text(f"{before}{BEGIN}\n{table(rows)}\n{END}{after}")


if __name__ == "__main__":
    main()
