"""Does `FMPair()` choose the history that ranks best?

    [FMPAIR_DATA=...] python benchmarks/history_choice.py SET ... [--seeds 0 1 2] [--threads N]
    python benchmarks/history_choice.py tables

SET: a generated log (LOGS), or a public set with times, also thinned: `ml-100k`, `ml-100k:half`
(a random half of the events), `ml-100k:fifth` (a fifth of the users), `ml-100k:shuffled` (the times
of each user shuffled). Of sets that only the leaderboard has, the test events are left out. The
last event of each user is held out. FMPair() is fitted as it is (auto) and with `history` 0, 1, 3,
10 and 20, without the trials of times and of order three.
Results are appended to a file, a line per fit; `tables` prints NDCG@10, means over seeds.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from tasks import TASKS, in_one_line

from fmpair import Dataset, FMPair, evaluate, testing
from fmpair.data import leave_last_out, public_sets
from fmpair.evaluation.protocol import default_protocol

RESULTS = Path(__file__).parent / "results" / "history_choice.jsonl"
LOGS = ("shop_log", "session_log", "daytime_log", "purchase_log")
HISTORIES = ("auto", 0, 1, 3, 10, 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--threads", type=int)
    parser.add_argument("--into", type=Path, default=RESULTS)
    given = parser.parse_args()
    if given.sets == ["tables"]:
        print(table(given.into))
        return
    for name in given.sets:
        train, _, test = leave_last_out(data := events_of(name)).parts(data)
        for seed in given.seeds:
            for history in HISTORIES:
                begin = time.process_time()
                recipe = FMPair(
                    history=history, order=2, times=False, seed=seed, threads=given.threads
                )
                model = recipe.fit(train)
                seconds = round(time.process_time() - begin, 1)
                protocol = default_protocol(train, test)
                found = evaluate(model, train, test, protocol, ["ndcg@10"], given.threads)
                row = {"set": name, "history": str(history), "seed": seed, "seconds": seconds}
                used = model.space.history
                row["used"] = "none" if used is None else f"{used.last}, fade {used.fade:g}"
                row["ndcg@10"] = round(found.means["ndcg@10"], 5)
                with given.into.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                print(row, flush=True)


def events_of(name: str) -> Dataset:
    """Return the events of a set, thinned or shuffled as its suffix says."""
    name, _, change = name.partition(":")
    if name in LOGS:
        data = Dataset.from_frame(getattr(testing, name)())
    else:
        public = name in public_sets.names()
        data = public_sets.load(name) if public else TASKS[name](0).known
    data, rng = replace(data, context=()), np.random.default_rng(0)
    if change == "half":
        return data.take(rng.random(len(data)) < 0.5).compact()
    if change == "fifth":
        return data.take((rng.random(len(data.users)) < 0.2)[data.user]).compact()
    if change == "shuffled":
        source = np.empty(len(data), np.int64)
        source[np.argsort(data.user, kind="stable")] = np.lexsort(
            (rng.random(len(data)), data.user)
        )
        times = data.columns["timestamp"].gather(source)
        return replace(data, columns=data.columns.with_columns(times))
    assert not change, f"unknown change {change!r}"
    return data


def table(file: Path) -> str:
    """Return NDCG@10 by set and history, and `auto` as a share of the best of the others."""
    rows = pl.read_ndjson(file)
    means = rows.group_by("set", "history", maintain_order=True).agg(pl.col("ndcg@10").mean())
    wide = means.pivot("history", index="set")
    others = [str(history) for history in HISTORIES if history != "auto"]
    wide = wide.with_columns(share=pl.col("auto") / pl.max_horizontal(others))
    lines = [f"| {' | '.join(wide.columns)} |", "|---" * wide.width + "|"]
    for name, *values in wide.iter_rows():
        lines.append(f"| {name} | {' | '.join(f'{value:.4f}' for value in values)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    in_one_line(main)
