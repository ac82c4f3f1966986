"""Threads that stay from epoch to epoch: called, gone, failing, interrupted."""

import _thread
import threading
import time

import numpy as np
import pytest
from engine.problems import parameters_of, problem_of, settings_of

from fmpair.engine import cpu
from fmpair.engine.cpu import epoch as crews
from fmpair.engine.cpu import worker
from fmpair.engine.cpu.synchronization import LEFT, LINE, call, flow_for, goes_on
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
    flow, missing = flow_for(1, 2, LEFT), np.zeros(2, np.uint8)
    call(flow, 1, missing)
    assert missing.tolist() == [1, 1]
    call(flow, 2, missing)
    assert missing.tolist() == [0, 0]
    assert goes_on(flow, 0, 1)  # it was called to the second


def test_a_thread_that_is_not_called_again_goes_and_says_so():
    flow, missing = flow_for(1, 1, LEFT), np.zeros(1, np.uint8)
    call(flow, 1, missing)
    assert not goes_on(flow, 0, 1)
    assert flow.called[0] == LEFT and flow.finished[0] == 1


@pytest.mark.parametrize("features", ["", "c"])
def test_one_crew_does_the_epochs_of_a_partition_and_comes_back_after_a_pause(features):
    training = begun(features=features)
    training.epoch(1, 0.05)
    crew = training.crew
    training.epoch(2, 0.05)
    deadline = time.monotonic() + 30
    while (crew.flow.called[::LINE] != LEFT).any() and time.monotonic() < deadline:
        time.sleep(0.01)
    training.epoch(3, 0.05)
    assert training.crew is crew and crew.epochs == 3
    training.epoch(4, 0.05)  # which has another partition: of contexts, the arrays are others too
    stays = not features
    assert (training.crew is crew) == stays and crew.flow.stopped[0] == (not stays)
    training.close()


@pytest.mark.parametrize("features", ["", "c", "cua"])
def test_staying_changes_no_bit(features):
    one = learned(begun(threads=1, features=features), 4)
    assert learned(begun(features=features), 4) == one
    assert learned(begun(features=features), 4, pause=0.1) == one


def test_a_thread_that_fails_ends_the_epoch_with_its_error(monkeypatch):
    training, made = begun(), crews.pair_epochs

    def fail(epoch):
        raise MemoryError("no room")

    def failing(*given):
        part = made(*given)
        return lambda own: fail if own.number == 2 else part(own)

    monkeypatch.setattr(crews, "pair_epochs", failing)
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
