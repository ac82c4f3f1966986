"""Threads of an epoch: waiting, staying between epochs, failing, interrupted."""

import _thread
import threading
import time

import numpy as np
import pytest
from engine.problems import parameters_of, problem_of, settings_of

from fmpair.engine import cpu
from fmpair.engine.cpu import epoch as epochs
from fmpair.engine.cpu import worker
from fmpair.engine.cpu.synchronization import (
    GONE,
    LINE,
    barrier,
    call,
    synchronization_for,
    wait_for_cell,
    wait_for_epoch,
)
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


def test_a_cell_waits_for_its_own_user_block_and_for_the_next_one():
    sync = synchronization_for(3)
    sync.done[::LINE] = [2, 1, 2]
    sync.stopped[0] = 1  # so that what would wait says so at once
    assert not wait_for_cell(sync, 0, 2)
    sync.stopped[0] = 0
    assert wait_for_cell(sync, 0, 1) and wait_for_cell(sync, 2, 2)


def test_no_thread_passes_a_barrier_before_all_have_arrived():
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


def threads_end_at(count, seconds=10):
    """Whether at most `count` threads are left soon; closing a training waits for none of them."""
    deadline = time.monotonic() + seconds
    while threading.active_count() > count and time.monotonic() < deadline:
        time.sleep(0.01)
    return threading.active_count() <= count


@pytest.mark.parametrize("sampler", ["uniform", "adaptive"])  # by compiled rounds, and by cells
def test_an_interrupt_ends_an_epoch_and_leaves_no_thread_behind(monkeypatch, sampler):
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
    assert threads_end_at(before)


def test_a_call_reports_the_threads_that_have_ended():
    sync, missing = synchronization_for(1, 2, GONE), np.zeros(2, np.uint8)
    call(sync, 1, missing)
    assert missing.tolist() == [1, 1]
    call(sync, 2, missing)
    assert missing.tolist() == [0, 0]
    assert wait_for_epoch(sync, 0, 1)  # it was called to the second


def test_a_thread_that_is_not_called_again_ends():
    sync, missing = synchronization_for(1, 1, GONE), np.zeros(1, np.uint8)
    call(sync, 1, missing)
    assert not wait_for_epoch(sync, 0, 1)
    assert sync.called[0] == GONE and sync.finished[0] == 1


@pytest.mark.parametrize("features", ["", "c"])
def test_one_thread_pool_runs_the_epochs_of_a_partition_even_after_a_pause(features):
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
def test_threads_that_stay_between_epochs_change_no_bit(features):
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
    assert threads_end_at(before)
