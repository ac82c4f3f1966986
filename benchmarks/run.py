"""Measure fmpair beside its peers on this machine: `make bench`, or this file with options."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import features
import quality
import report
import scale
import speed
import start
import threads
import topn
from environment import HERE, NotInstallableError, peers
from measure import Answer, Bench
from worker import start_all

QUESTIONS = {
    "speed": speed.run,
    "features": features.run,
    "threads": threads.run,
    "scale": scale.run,
    "start": start.run,
    "topn": topn.run,
    "quality": quality.run,
}
REPEATS, QUICK_REPEATS = 5, 1


def main() -> None:
    options = _options()
    out = HERE / "envs" / "quick" if options.quick else HERE / "results"
    (HERE / "envs").mkdir(exist_ok=True)
    workers, missing = start_all()
    for name, why in missing.items():
        print(f"{name} is {why}", file=sys.stderr)
    try:
        with tempfile.TemporaryDirectory() as folder:
            repeats = QUICK_REPEATS if options.quick else REPEATS
            bench = Bench(workers, missing, repeats, Path(folder))
            answers = _answers(options.questions or list(QUESTIONS), bench)
            for name, answer in answers.items():
                report.write_csv(answer, out)
                if not options.quick:
                    report.write_section(name, answer)
    finally:
        for worker in workers.values():
            worker.close()
    _draw(out)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    known = ", ".join(QUESTIONS)
    parser.add_argument("questions", nargs="*", metavar="question", help=f"any of {known}")
    quick = "one repeat, results into envs/quick, README left alone"
    parser.add_argument("--quick", action="store_true", help=quick)
    options = parser.parse_args()
    unknown = [name for name in options.questions if name not in QUESTIONS]
    if unknown:
        parser.error(f"unknown question {unknown[0]!r}: one of {known}")
    return options


def _answers(names: list[str], bench: Bench) -> dict[str, Answer]:
    print(report.machine())
    answers = {}
    for name in names:
        began = time.perf_counter()
        answers[name] = QUESTIONS[name](bench)
        took = time.perf_counter() - began
        print(f"\n{name} ({took:.0f} s)\n\n{report.text(name, answers[name])}", flush=True)
    return answers


def _draw(folder: Path) -> None:
    try:
        subprocess.run([str(peers()), str(HERE / "plot.py"), str(folder)], check=True)
    except (NotInstallableError, subprocess.CalledProcessError) as error:
        print(f"no plots: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
