"""An experiment with cells and with tuning, small enough to be disturbed a hundred times.

FMPAIR_FAULT_CASES: how many faults each test tries; a long search asks for hundreds.
"""

import os
import random
import subprocess
import sys

FILE = """\
data: {generate: {users: 20, items: 15, events: 500}}
split: {kind: folds, count: 2, validation: 0.2}
models:
  - popularity
  - {kind: fm-pair, name: FM, factors: 2, epochs: 2, context: [], history: 0, order: 2,
     times: false}
  - {kind: fm-pair, name: tuned, factors: 2, epochs: 100, history: 0, order: 2, times: false,
     learning_rate: {search: [0.03, 0.1, 0.3]}}
metrics: [ndcg@10, recall@5]
views: [popularity]
seeds: [0, 1]
tune: {trials: 4}
run: {threads: 1}
"""
CELLS, TRIALS = 12, 6
# The command without figures: a report that draws takes as long as all cells together.
COMMAND = "import sys; sys.modules['matplotlib'] = None; from fmpair.cli import main; main()"


def cases(usual):
    """How many faults to try."""
    return int(os.environ.get("FMPAIR_FAULT_CASES", usual))


def chance():
    """The same faults everywhere; FMPAIR_FAULT_SEED tries others."""
    return random.Random(int(os.environ.get("FMPAIR_FAULT_SEED", "0")))


def saved(folder):
    """The experiment file."""
    path = folder / "experiment.yaml"
    path.write_text(FILE)
    return path


def started(file, folder, *flags, **options):
    """The run of a file in a process of its own."""
    command = [sys.executable, "-c", COMMAND, "run", str(file), "--folder", str(folder), *flags]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        start_new_session=True, **options,
    )  # fmt: skip
