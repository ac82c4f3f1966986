"""Does `FMPair()` choose a better regularisation than the default?

    FMPAIR_DATA=... python benchmarks/regularization_choice.py SET ... [--device cuda] [--seeds 0 1]
    python benchmarks/regularization_choice.py tables

The events of a set have no times and no context here, so the regularisation is the only option that
is tried. A random tenth of the events is held out, another one for each seed. FMPair() is fitted as
it is, and with the default regularisation set, which is then not tried.
Results are appended to a file, a line per fit; `tables` prints NDCG@20 of users, means over seeds.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
from tasks import TASKS, in_one_line

from fmpair import Dataset, FMPair, evaluate
from fmpair.data import holdout, public_sets
from fmpair.evaluation import preset
from fmpair.training import loop
from fmpair.training.trials import without_auto

RESULTS = Path(__file__).parent / "results" / "regularization_choice.jsonl"
TEST = 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--into", type=Path, default=RESULTS)
    given = parser.parse_args()
    if given.sets == ["tables"]:
        print(table(given.into))
        return
    for name in given.sets:
        data = events_of(name)
        for seed in given.seeds:
            train, _, test = holdout(data, test=TEST, seed=10 + seed).parts(data)
            recipe = FMPair(device=given.device, seed=seed)
            for chosen in (None, default_of(recipe, train)):
                row = {"set": name, "device": given.device, "seed": seed, "tried": chosen is None}
                row |= measured(replace(recipe, regularization=chosen), train, test)
                with given.into.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                print(row, flush=True)


def events_of(name: str) -> Dataset:
    """Return users and items: of the training part if the leaderboard has the set, else of all."""
    data = TASKS[name](0).train if name in TASKS else public_sets.load(name)
    return Dataset.from_frame(data.frame().select("user", "item"))


def default_of(recipe: Any, train: Dataset) -> dict[str, float]:
    """Return the regularisation of users and items that a fit without trials has."""
    options = without_auto(recipe)
    run = loop.train(options, options, train)
    settings = run.task.settings
    run.close()
    return {"user": settings.user, "item": settings.positive}


def measured(recipe: Any, train: Dataset, test: Dataset) -> dict[str, Any]:
    """Return the seconds of a fit, its regularisation of users if one was found, and NDCG@20."""
    begin = time.perf_counter()
    model = recipe.fit(train)
    seconds = round(time.perf_counter() - begin, 2)
    found = evaluate(model, train, test, preset("full-user"), ["ndcg@20"])
    chosen = model.recipe.regularization
    user = None if chosen is None else round(chosen["user"], 4)
    return {"seconds": seconds, "user": user, "ndcg@20": round(found.means["ndcg@20"], 5)}


def table(file: Path) -> str:
    """Return NDCG@20 by set and device, with the default and with trials, and the gain."""
    means = (
        pl.read_ndjson(file)
        .group_by("set", "device", maintain_order=True)
        .agg(
            default=pl.col("ndcg@20").filter(~pl.col("tried")).mean(),
            tried=pl.col("ndcg@20").filter(pl.col("tried")).mean(),
        )
        .with_columns(gain=pl.col("tried") / pl.col("default") - 1)
    )
    lines = ["| set | device | default | tried | gain |", "|---|---|---|---|---|"]
    for name, device, default, tried, gain in means.iter_rows():
        lines.append(f"| {name} | {device} | {default:.4f} | {tried:.4f} | {gain:+.1%} |")
    return "\n".join(lines)


if __name__ == "__main__":
    in_one_line(main)
