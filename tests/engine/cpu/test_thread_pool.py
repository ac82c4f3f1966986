"""Threads that stay from epoch to epoch: called, gone, failing, interrupted."""

import _thread
import threading
import time

import numpy as np
import pytest
from engine.problems import parameters_of, problem_of, settings_of

from fmpair.engine import cpu
from fmpair.engine.cpu import epoch as epochs
from fmpair.engine.cpu import worker
from fmpair.engine.cpu.synchronization import GONE, LINE, call, synchronization_for, wait_for_epoch
from fmpair.engine.strata import partition as strata


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    monkeypatch.setattr(worker, "all_threads", lambda: 4)


def begun(threads=4, features="", **options):
    problem = problem_of(features, users=600, items=800, events=2000)
    settings = settings_of(blocks=4, threads=threads, partition_every=3, **options)
    return cpu.begin(problem, parameters_of(problem), settings)


def learned(training, epochs, pause=0.0):
    for number in range(1, epochs + 1):
        training.epoch(number, 0.05 / number)
        time.sleep(pause)
    found = training.snapshot()
    training.close()
    return b"".join(np.ascontiguousarray(table).tobytes() for table in found)


def test_a_thread_that_is_not_there_is_reported_and_one_that_waits_is_not():
    sync, missing = synchronization_for(1, 2, GONE), np.zeros(2, np.uint8)
    call(sync, 1, missing)
    assert missing.tolist() == [1, 1]
    call(sync, 2, missing)
    assert missing.tolist() == [0, 0]
    assert wait_for_epoch(sync, 0, 1)  # it was called to the second


def test_a_thread_that_is_not_called_again_goes_and_says_so():
    sync, missing = synchronization_for(1, 1, GONE), np.zeros(1, np.uint8)
    call(sync, 1, missing)
    assert not wait_for_epoch(sync, 0, 1)
    assert sync.called[0] == GONE and sync.finished[0] == 1


@pytest.mark.parametrize("features", ["", "c"])
def test_one_pool_of_threads_does_the_epochs_of_a_partition_and_comes_back_after_a_pause(features):
    training = begun(features=features)
    training.epoch(1, 0.05)
    pool = training.thread_pool
    training.epoch(2, 0.05)
    deadline = time.monotonic() + 30
    while (pool.sync.called[::LINE] != GONE).any() and time.monotonic() < deadline:
        time.sleep(0.01)
    training.epoch(3, 0.05)
    assert training.thread_pool is pool and pool.epochs == 3
    training.epoch(4, 0.05)  # which has another partition: of contexts, the arrays are others too
    stays = not features
    assert (training.thread_pool is pool) == stays and pool.sync.stopped[0] == (not stays)
    training.close()


@pytest.mark.parametrize("features", ["", "c", "cua"])
def test_staying_changes_no_bit(features):
    one = learned(begun(threads=1, features=features), 4)
    assert learned(begun(features=features), 4) == one
    assert learned(begun(features=features), 4, pause=0.1) == one


def test_a_thread_that_fails_ends_the_epoch_with_its_error(monkeypatch):
    training, made = begun(), epochs.pair_epochs

    def fail(epoch):
        raise MemoryError("no room")

    def failing(*given):
        part = made(*given)
        return lambda own: fail if own.number == 2 else part(own)

    monkeypatch.setattr(epochs, "pair_epochs", failing)
    with pytest.raises(MemoryError, match="no room"):
        training.epoch(1, 0.05)
    training.close()


def test_an_interrupt_ends_an_epoch_of_pairs_and_leaves_no_thread_behind(monkeypatch):
    before = threading.active_count()
    training = begun(positives="bootstrap")
    training.epoch(1, 0.05)  # which compiles
    visits = np.full(2_000, 10_000, np.uint32)
    monkeypatch.setattr(strata, "visits", lambda *_: visits)
    threading.Timer(0.05, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        training.epoch(2, 0.05)
    training.close()
    assert threading.active_count() == before
