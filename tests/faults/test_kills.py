"""Processes of a run are killed at any moment; the same command still comes to the same tables."""

import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from small_run import CELLS, TRIALS, cases, chance, saved, started
from tiny_run import same

from fmpair.config.read import read
from fmpair.experiment.folder import results as read_results
from fmpair.experiment.run import run

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc"),
]

TARGETS = ("main", "worker", "both")
MAX_ENDED = 0.35  # seconds from a cell's line to the kill


def workers_of(main):
    """The worker processes of a run, as the system knows them."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            command = (place / "cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        if parent == main and b"spawn_main" in command:
            found.append(int(place.name))
    return found


def kill(target, process, dice):
    """Kill the run, one of its workers, or both; what was hit."""
    hit = []
    workers = workers_of(process.pid)
    if target != "main" and workers:
        os.kill(dice.choice(workers), signal.SIGKILL)
        hit.append("worker")
    if target != "worker" and process.poll() is None:
        process.kill()
        hit.append("main")
    return hit


def disturbed(process, target, dice):
    """Let the run go on for some cells, then kill; what was hit, and what it said in the end."""
    said = []
    for _ in range(dice.choice([0, 1, 2, 3, 4, 5, 9])):
        line = process.stderr.readline()
        if not line:
            break
        said.append(line)
    time.sleep(dice.uniform(0, MAX_ENDED))
    hit = kill(target, process, dice)
    said.append(process.communicate(timeout=300)[1])
    return hit, "".join(said)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The experiment file, and the results of a run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    file = saved(folder)
    results = run(read(file, [f"output.folder={folder / 'run'}"]))
    assert len(results.cells) == CELLS and len(results.trials) == TRIALS
    return file, results


def test_a_run_whose_processes_are_killed_comes_to_the_same_tables(whole, tmp_path):
    file, results = whole
    dice, hits, finished, twice, again = chance(), [], 0, 0, {"trial": 0, "cell": 0}
    folder = tmp_path / "run"
    while len(hits) < cases(5):
        process = started(file, folder, "--workers", "2")
        hit, said = disturbed(process, TARGETS[len(hits) % len(TARGETS)], dice)
        hits += hit
        for line in said.splitlines():
            if "retrying it alone" in line:
                again["trial" if ", trial: " in line else "cell"] += 1
        assert "Traceback" not in said, said
        if process.returncode == 0:
            finished += 1
            assert same(read_results(folder), results), said
            shutil.rmtree(folder)
        elif process.returncode == 1:  # the very same cell was hit when it was tried again
            twice += 1
            assert "killed, or out of memory, twice" in said, said
        else:
            assert process.returncode == -signal.SIGKILL, said
    last = started(file, folder, "--workers", "2")
    assert "Traceback" not in last.communicate(timeout=300)[1] and last.returncode == 0
    assert same(read_results(folder), results)
    assert not list(folder.rglob("*.part"))
    print(f"{len(hits)} kills, {hits.count('worker')} of workers: {again['trial']} trials and "
          f"{again['cell']} cells were tried once more, {finished} runs came to their end at once, "
          f"{twice} gave up a cell that died twice")  # fmt: skip
