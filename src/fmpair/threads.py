"""Threads: how many there are, and work done side by side on them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path

from threadpoolctl import ThreadpoolController

from fmpair.errors import ProcessError


def all_threads() -> int:
    """The number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(run: Callable[[int], None], firsts: Sequence[int], threads: int | None) -> None:
    """Call run(first) for every batch on so many threads (None: all), the BLAS on one each."""
    threads = threads or all_threads()
    if threads == 1:
        for first in firsts:
            run(first)
        return
    with _blas().limit(limits=1, user_api="blas"):
        if len(firsts) <= 1:
            for first in firsts:
                run(first)
            return
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(run, firsts))


def blas_on(threads: int) -> AbstractContextManager[object]:
    """A block in which the BLAS of this process has so many threads; it has them at once."""
    return _blas().limit(limits=threads, user_api="blas")


@cache
def _blas() -> ThreadpoolController:
    """The BLAS of numpy, looked for once: that takes longer than to rank the items of a query."""
    return ThreadpoolController()


# Whether this process can work: a fork has no thread of its parent, and polars needs its own.
#
# What was tried: after a fork polars waits for ever for the threads it had in the parent, and so
# does
# a training under way for those of its pool. Kernels of numba and numpy's linear algebra go on.
# So a
# process is fit for work where polars never ran before the fork.


TASKS = Path("/proc/self/task")  # Linux: one folder per thread
_home: int | None = None  # the process in which polars was last seen to work
_is_fork = False


def check_process() -> None:
    """Raise, instead of waiting for ever, in a process that was forked after polars had run."""
    global _home
    here = os.getpid()
    if _home == here:
        return
    if _threads_are_lost():
        raise ProcessError(
            "this process was forked after fmpair, or polars, was used, and the threads that "
            "polars computes with stayed behind: load models and read data after the fork, or "
            "start processes by spawn"
        )
    _home = here


def _threads_are_lost() -> bool:
    if not TASKS.is_dir():
        return _is_fork and _home is not None
    import polars as pl

    before = _threads()
    size = pl.thread_pool_size()  # starts the threads where they never ran
    found = _threads()
    name = re.compile(re.escape(os.environ.get("POLARS_THREAD_NAME", "polars")[:12]) + r"-\d")
    alive = found.keys() > before.keys() or any(map(name.match, found.values()))
    return not alive and (_is_fork or len(found) <= size)  # there is one beside those of polars


def _threads() -> dict[str, str]:
    """The name of every thread of this process."""
    names = {}
    for task in TASKS.iterdir():
        try:
            names[task.name] = (task / "comm").read_text()
        except OSError:  # it has just ended
            continue
    return names


def _note_fork() -> None:
    global _is_fork
    _is_fork = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
