"""How well is every next click of an anonymous session found?

    FMPAIR_DATA=... python benchmarks/sessions.py [KIND ...] [--set FOLDER] [--validation]

Reads train_full.txt.gz and test.txt.gz of FMPAIR_DATA/FOLDER (yoochoose-100k unless given), as
session-rec writes them; with --validation train_tr.txt.gz and train_valid.txt.gz, to choose
options on. KIND: models by their names in experiment files. Prints one table.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from fmpair import Dataset, evaluate, read
from fmpair.models import catalog

KINDS = ("popularity", "item-knn", "markov-chain", "v-sknn")
METRICS = ("hit@20", "mrr@20")
SET = "yoochoose-100k"
FILES = {False: ("train_full", "test"), True: ("train_tr", "train_valid")}


def main() -> None:
    arguments = sys.argv[1:]
    validation = "--validation" in arguments
    if validation:
        arguments.remove("--validation")
    name = SET
    if "--set" in arguments:
        place = arguments.index("--set")
        name = arguments.pop(place + 1)
        arguments.pop(place)
    train, test = (sessions(name, part) for part in FILES[validation])
    print(f"| {name} | {' | '.join(METRICS)} | fit, s | evaluate, s |")
    print("|---" * (len(METRICS) + 3) + "|")
    for kind in arguments or KINDS:
        begin = time.perf_counter()
        model = catalog.find(kind)().fit(train)
        fitted = time.perf_counter()
        means = evaluate(model, train, test, "sessions", METRICS).means
        seconds = f"{fitted - begin:.1f} | {time.perf_counter() - fitted:.1f}"
        print(f"| {kind} | {' | '.join(f'{means[m]:.4f}' for m in METRICS)} | {seconds} |")


def sessions(name: str, part: str) -> Dataset:
    """Return the clicks of one file; a session is a user."""
    path = Path(os.environ["FMPAIR_DATA"]) / name / f"{part}.txt.gz"
    return read(path, user="SessionId", item="ItemId", timestamp="Time")


if __name__ == "__main__":
    main()
