"""Partitions that threads make: equal to the plan, and the tables follow."""

import numpy as np
import pytest
from engine.problems import parameters_of, problem_of, settings_of

from fmpair.engine import cpu
from fmpair.engine.cpu import worker
from fmpair.engine.cpu.layout import repartition_share
from fmpair.engine.cpu.rounds import ThreadShare
from fmpair.engine.strata import partition as strata


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    monkeypatch.setattr(worker, "all_threads", lambda: 4)


def begun(features="", threads=4, blocks=4, **size):
    problem = problem_of(features, **{"users": 60, "items": 80, "events": 700} | size)
    settings = settings_of(blocks=blocks, threads=threads, partition_every=2)
    return cpu.begin(problem, parameters_of(problem), settings)


def epochs(training, count, rate=0.05):
    for number in range(1, count + 1):
        training.epoch(number, rate)
    return training


@pytest.mark.parametrize("threads", [1, 3, 4])
@pytest.mark.parametrize("blocks", [1, 4, 7])
def test_threads_make_the_partition_of_the_plan(threads, blocks):
    training = epochs(begun(threads=threads, blocks=blocks), 3)
    made = training.repartitioner.repartition.partition
    wanted = strata.partition(training.events, blocks, training.settings.seed, 3)
    training.close()
    for name in ("user_at", "item_at", "item_edge", "cell", "item"):
        np.testing.assert_array_equal(getattr(made, name), getattr(wanted, name), name)
    runs = wanted.cell[-1]
    np.testing.assert_array_equal(made.run_user[:runs], wanted.run_user)
    np.testing.assert_array_equal(made.run_start[: runs + 1], wanted.run_start)


def test_more_blocks_than_users_with_events_leave_some_empty():
    training = epochs(begun(blocks=7, users=5, items=9, events=12), 3)
    made = training.repartitioner.repartition.partition
    wanted = strata.partition(training.events, 7, training.settings.seed, 3)
    training.close()
    np.testing.assert_array_equal(made.cell, wanted.cell)
    np.testing.assert_array_equal(made.item, wanted.item)


@pytest.mark.parametrize("features", ["", "u", "a"])
def test_what_is_learned_goes_with_its_user_and_item(features):
    training = begun(features)
    before = training.snapshot()
    after = epochs(training, 5, rate=0.0).snapshot()
    training.close()
    assert training.partitioned == 5
    for name in ("users", "items", "item_bias"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name), name)


def test_looking_ahead_changes_nothing():
    one, other = begun(), begun()
    one.epoch(1, 0.05)
    one.epoch(2, 0.05)
    assert one.repartitioner.ahead[0] == 3
    one.repartitioner.ahead = (0, None)
    one.epoch(3, 0.05)
    epochs(other, 3)
    for mine, wanted in zip(one.snapshot(), other.snapshot()):
        np.testing.assert_array_equal(mine, wanted)
    one.close()
    other.close()


def test_training_that_was_closed_can_go_on():
    whole, parts = epochs(begun(), 4), begun()
    epochs(parts, 2).close()
    for number in (3, 4):
        parts.epoch(number, 0.05)
    for mine, wanted in zip(parts.snapshot(), whole.snapshot()):
        np.testing.assert_array_equal(mine, wanted)
    whole.close()
    parts.close()


def test_a_thread_that_waits_for_others_to_repartition_ends_when_all_shall_stop():
    training = epochs(begun(), 1)
    training.repartitioner.ask(3)
    repartition, tables = training.repartitioner.repartition, training._state().tables
    repartition_share(ThreadShare(0, 2), np.ones(8, np.int64), repartition, tables)  # alone, of two
    assert repartition.made[0] == 1
    training.close()


def test_events_with_more_than_user_and_item_are_laid_out_by_the_interpreter():
    training = epochs(begun("c"), 3)
    assert training.repartitioner is None and training.partitioned == 3
    training.close()
