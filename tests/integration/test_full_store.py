"""An object store that is really full: Ray may neither spill nor take memory from the disk."""

import logging
import time

import numpy as np
import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'fmpair[ray]'")

import ray
from engine.problems import parameters_of, problem_of, settings_of

from fmpair.engine import engine
from fmpair.engine.ray.exchange import Merging
from fmpair.errors import MachineError

pytestmark = [pytest.mark.ray, pytest.mark.faults, pytest.mark.filterwarnings("ignore")]
STORE = 80 << 20  # bytes; Ray wants no less
# a disk counts as full as soon as anything is on it, so that it takes in nothing of the store
NO_DISK = {"local_fs_capacity_threshold": 1e-6, "oom_grace_period_s": 0}
FULL = (
    "the object store of the Ray cluster and the disk it spills to are full: start Ray with "
    "a larger --object-store-memory, or free space in its temporary folder"
)


def numbers(bytes_of_them):
    return np.ones(bytes_of_them // 4, np.float32)


@pytest.fixture(scope="module")
def small():
    """A cluster whose store is small, and has nothing to fall back on."""
    ray.init(
        "local", num_cpus=2, include_dashboard=False, log_to_driver=False,
        logging_level=logging.CRITICAL, object_store_memory=STORE, _system_config=NO_DISK,
    )  # fmt: skip
    try:
        ray.put(numbers(STORE + (1 << 20)))
    except (ray.exceptions.OutOfDiskError, ray.exceptions.ObjectStoreFullError):
        yield
    else:
        pytest.skip("this Ray finds room beside its store")
    finally:
        ray.shutdown()


def epoch_of(factors, users):
    """An epoch of a model whose tables take about 4 x factors x users bytes."""
    problem = problem_of("", users=users, items=40, events=2 * users)
    first = parameters_of(problem, factors)
    training = engine("ray").begin(problem, first, settings_of(blocks=2, on="ray"))
    try:
        return training.epoch(1, 0.05)
    finally:
        training.close()


def epoch_once_there_is_room(factors, users, patience=60):
    """An epoch; Ray lets go of what nobody holds any more a moment after its last holder did."""
    limit = time.monotonic() + patience
    while time.monotonic() < limit:
        try:
            return epoch_of(factors, users)
        except MachineError:
            time.sleep(0.1)
    return epoch_of(factors, users)


def test_tables_that_have_no_room_are_told_in_one_line(small):
    with pytest.raises(MachineError) as e:
        epoch_of(factors=256, users=180_000)  # the half of one of two workers has no room
    assert str(e.value) == FULL


def test_a_worker_that_finds_the_store_full_is_told_in_the_same_line(small, monkeypatch):
    held, turn = [], Merging.round

    def filling(merging, number, keep):
        """Somebody else fills the store while training is under way."""
        if not held:
            held.append(ray.put(numbers(STORE - (4 << 20))))
        return turn(merging, number, keep)

    monkeypatch.setattr(Merging, "round", filling)
    with pytest.raises(MachineError) as e:
        epoch_of(factors=5, users=200_000)
    assert str(e.value) == FULL
    monkeypatch.undo()
    held.clear()
    assert epoch_once_there_is_room(factors=5, users=200_000) > 0
