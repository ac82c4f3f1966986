"""A run stopped anywhere goes on by the same command and comes to the same tables."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from multiprocessing import get_context

import pytest
from tiny_run import POPULARITY, TUNED, experiment, same

from fmpair.config.experiment import Output
from fmpair.config.read import read
from fmpair.experiment import pool
from fmpair.experiment.run import run

pytestmark = pytest.mark.faults

KILLS = 20

FILE = """\
data: {generate: {users: 20, items: 15, events: 500}}
split: {kind: folds, count: 3, validation: 0.2}
models:
  - popularity
  - {kind: fm-pair, factors: {grid: [2, 3]}, epochs: 3, context: [], history: 0, order: 2,
     times: false}
  - {kind: fm-pair, name: tuned, factors: 2, epochs: 2, history: 0, order: 2, times: false,
     learning_rate: {search: [0.01, 0.1, 0.3]}}
  - {kind: fm-pair, name: stopping, factors: 2, epochs: 5, history: 0, order: 2, times: false,
     stop: 1}
protocols:
  all: {unit: interaction}
  sampled: {candidates: uniform, n: 5}
metrics: [ndcg@10, recall@5]
seeds: [0, 1]
tune: {trials: 3}
run: {curve: 2, threads: 1}
"""


PRELOADED = [
    "ruamel.yaml", "fmpair.experiment.run", "fmpair.models.fm_pair.fm_pair",
    "fmpair.engine.cpu.pairs", "fmpair.ranking.ranks",
]  # fmt: skip


def started(file, folder):
    command = [sys.executable, "-m", "fmpair", "run", str(file), "--folder", str(folder)]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )


def attempt(file, folder, line):
    """The run of a file in a process of its own, which says when a cell begins."""
    run_cell = pool.run_cell

    def announced(cell, *rest):
        line.send(cell.id)
        return run_cell(cell, *rest)

    pool.run_cell = announced
    run(read(file, [f"output.folder={folder}"]))


def begun(line, cells):
    """Wait for so many cells to begin; how many did before the process was over."""
    for count in range(cells):
        try:
            line.recv()
        except EOFError:
            return count
    return cells


def test_a_run_that_is_killed_comes_to_the_same_tables(tmp_path):
    file, folder = tmp_path / "experiment.yaml", tmp_path / "run"
    file.write_text(FILE)
    processes = get_context("forkserver")  # which imports everything once, before any thread is
    processes.set_forkserver_preload(PRELOADED)
    chance, kept, at_work = random.Random(0), [], 0
    for number in range(KILLS):
        here, there = processes.Pipe(duplex=False)
        process = processes.Process(target=attempt, args=(file, folder, there))
        process.start()
        there.close()
        cells = begun(here, 0 if number % 4 == 0 else chance.choice([1, 2]))
        time.sleep(chance.uniform(0, 0.3 if cells == 0 else 0.03))
        process.kill()
        process.join()
        at_work += cells > 0 or begun(here, 1) > 0
        kept.append(len(list(folder.glob("*/*.json"))))
    assert at_work >= KILLS / 2, "a kill before the first cell begins proves little"
    assert kept == sorted(kept), "nothing finished is lost"
    finished = run(read(file, [f"output.folder={folder}"]))
    uninterrupted = run(read(file, [f"output.folder={tmp_path / 'other'}"]))
    assert same(finished, uninterrupted)
    assert finished.cells["error"].null_count() == len(finished.cells) == 30
    assert not list(folder.rglob("*.part"))


def test_a_crash_at_any_write_costs_at_most_the_work_under_way(tmp_path, monkeypatch):
    options = {**TUNED.options, "history": 0, "order": 2, "times": False}
    plain = replace(TUNED, context=(), options=options)

    def asked(folder):
        return experiment(folder, POPULARITY, plain, output=Output(str(folder), models=True))

    whole, put, crashes = tmp_path / "whole", os.replace, []

    def seen(source, target):
        """What a process that ends now leaves behind, then the write."""
        crashes.append(tmp_path / f"crash-{len(crashes)}")
        shutil.copytree(whole, crashes[-1])
        put(source, target)

    monkeypatch.setattr(os, "replace", seen)
    uninterrupted = run(asked(whole))
    monkeypatch.undo()
    assert len(crashes) > 20
    for folder in crashes:
        before = {path: path.stat().st_mtime_ns for path in folder.glob("*/*.json")}
        assert same(run(asked(folder)), uninterrupted)
        assert all(path.stat().st_mtime_ns == time for path, time in before.items())
        model = (folder / "model.fmpair").read_bytes()
        assert model == (whole / "model.fmpair").read_bytes()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL], ids=["interrupt", "kill"])
def test_a_run_that_ends_early_leaves_no_worker_behind(tmp_path, end):
    file, folder = tmp_path / "experiment.yaml", tmp_path / "run"
    file.write_text(FILE.replace("run: {", "run: {workers: 2, "))
    process = started(file, folder)
    while process.poll() is None and not list(folder.glob("trials/*.json")):
        time.sleep(0.01)
    process.send_signal(end)
    _, said = process.communicate(timeout=60)
    if end == signal.SIGINT:
        last = said.decode().splitlines()[-1]
        assert process.returncode == 130 and last.startswith("stopped: ")
        assert last.endswith(" of 39 cells are done; the same command resumes the run")
    for _ in range(1000):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    pytest.fail("a process of the run is still there")
