"""Work in parallel, the threads of the BLAS meanwhile and afterwards, and those lost in a fork."""

import subprocess
import sys
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from fmpair import threads
from fmpair.threads import side_by_side


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture
def two_blas_threads():
    with threadpool_limits(2, user_api="blas"):
        if set(blas_threads()) != {2}:
            pytest.skip("no BLAS whose number of threads can be set")
        yield


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_every_batch_is_worked_on_once(threads):
    done = []
    side_by_side(done.append, range(0, 50, 7), threads)
    assert sorted(done) == list(range(0, 50, 7))


def test_the_blas_has_one_thread_within_and_its_own_again_after(two_blas_threads):
    within = []
    side_by_side(lambda first: within.extend(blas_threads()), [0, 1], 2)
    assert set(within) == {1} and set(blas_threads()) == {2}


def test_a_failure_gives_the_threads_back(two_blas_threads):
    with pytest.raises(ZeroDivisionError):
        side_by_side(lambda first: 1 // first, [0], 2)
    assert set(blas_threads()) == {2}


LATER = """
import numpy
from fmpair.threads import side_by_side
side_by_side(print, [], 2)  # finds the BLAS of NumPy
import scipy.linalg  # which brings its own
from threadpoolctl import threadpool_info, threadpool_limits
threadpool_limits(2, user_api="blas")
def show(first):
    print(sorted(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"))
side_by_side(show, [0], 2)
"""


def test_a_blas_that_is_loaded_after_the_first_use_has_one_thread_too():
    pytest.importorskip("scipy")
    done = subprocess.run([sys.executable, "-c", LATER], capture_output=True, text=True, check=True)
    assert set(done.stdout.strip("[]\n").split(", ")) == {"1"}


MAIN = {"1": "python\n"}
UNNAMED = {"2": "python\n", "3": "python\n"}  # threads take the name of their process at first
NAMED = {"2": "polars-0\n", "3": "python\n"}


def lost_in_a_fork(monkeypatch, *seen):
    """Whether a fork misses threads that sees these, one after the other, the last for good."""
    seen = list(seen)
    monkeypatch.setattr(threads, "TASKS", Path("/"))
    monkeypatch.setattr(threads, "_is_fork", True)
    monkeypatch.setattr(threads, "_threads", lambda: seen.pop(0) if len(seen) > 1 else seen[0])
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr("polars.thread_pool_size", lambda: 2)
    return threads._threads_are_lost()


@pytest.mark.parametrize(
    "seen",
    [
        [MAIN, MAIN | UNNAMED],  # started by this look
        [MAIN | UNNAMED, MAIN | UNNAMED, MAIN | NAMED],  # started just before it, named later
        [MAIN | {"9": "python\n"}, MAIN | UNNAMED],  # another thread has ended meanwhile
        [MAIN | NAMED],
    ],
)
def test_threads_that_have_no_name_yet_are_waited_for(monkeypatch, seen):
    assert not lost_in_a_fork(monkeypatch, *seen)


@pytest.mark.parametrize("more", [{}, {"8": "python\n"}, {str(n): "other\n" for n in range(4, 9)}])
def test_threads_that_never_get_a_name_are_lost(monkeypatch, more):
    assert lost_in_a_fork(monkeypatch, MAIN | more)
    assert lost_in_a_fork(monkeypatch, MAIN | more, MAIN | more | {"99": "python\n"})


def test_a_process_that_may_fork_looks_twice_for_the_threads_of_polars(monkeypatch):
    seen = [MAIN | UNNAMED, MAIN | NAMED]
    monkeypatch.setattr(threads, "_threads", lambda: seen.pop(0))
    assert threads.polars_has_threads()
