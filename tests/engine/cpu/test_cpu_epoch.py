"""An epoch of compiled rounds: threads that are stopped, that fail, that are interrupted."""

import _thread
import threading
import time

import numpy as np
import pytest
from engine.problems import parameters_of, problem_of, settings_of

from fmpair.engine import cpu
from fmpair.engine.cpu import worker
from fmpair.engine.cpu.synchronization import LINE, barrier, synchronization_for, wait_for_cell
from fmpair.engine.strata import partition as strata


@pytest.fixture
def four_cores(monkeypatch):
    monkeypatch.setattr(worker, "all_threads", lambda: 4)


def begun(**options):
    problem = problem_of("", users=600, items=800, events=2000)
    return cpu.begin(problem, parameters_of(problem), settings_of(blocks=4, threads=4, **options))


def test_a_cell_waits_for_its_own_user_block_and_for_the_next_one():
    sync = synchronization_for(3)
    sync.done[::LINE] = [2, 1, 2]
    sync.stopped[0] = 1  # so that what would wait says so at once
    assert not wait_for_cell(sync, 0, 2)
    sync.stopped[0] = 0
    assert wait_for_cell(sync, 0, 1) and wait_for_cell(sync, 2, 2)


def test_threads_meet_before_any_of_them_goes_on():
    sync, seen = synchronization_for(1), []

    def come(number):
        time.sleep(0.01 * number)
        seen.append(number)
        assert barrier(sync.arrived, sync.stopped, 3, 1)
        assert len(seen) == 3

    threads = [threading.Thread(target=come, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sync.arrived[0] == 3


@pytest.mark.parametrize("sampler", ["uniform", "adaptive"])  # by compiled rounds, and by cells
def test_an_interrupt_ends_an_epoch_and_leaves_no_thread_behind(four_cores, monkeypatch, sampler):
    options = {"loss": "softmax", "n_negatives": 40, "positives": "bootstrap"}
    before = threading.active_count()
    training = begun(negative_sampler=sampler, **options)
    training.epoch(1, 0.05)  # which compiles
    visits = np.full(2_000, 100_000, np.uint32)  # an epoch of many minutes
    monkeypatch.setattr(strata, "visits", lambda *_: visits)
    threading.Timer(0.2, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        training.epoch(2, 0.05)
    training.close()
    assert threading.active_count() == before
