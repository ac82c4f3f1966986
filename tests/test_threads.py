"""Work in parallel, and the number of threads of the BLAS meanwhile and afterwards."""

import subprocess
import sys

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

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
