"""Threads: their number, work in parallel, and a check for processes that lost theirs in a fork."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path

from threadpoolctl import ThreadpoolController

from fmpair.errors import ProcessError

TASKS = Path("/proc/self/task")  # Linux: one folder per thread
PAUSES = (0.0, 0.01, 0.1, 0.5, 1.0, 2.0)  # seconds before each look for the threads of polars
_home: int | None = None  # the process in which polars was last seen to work
_is_fork = False


def all_threads() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(run: Callable[[int], None], firsts: Sequence[int], threads: int | None) -> None:
    """Call run(first) for every batch on `threads` threads (None: all), with BLAS on one each."""
    threads = threads or all_threads()
    if threads == 1:
        for first in firsts:
            run(first)
        return
    with blas_on(1):
        if len(firsts) <= 1:
            for first in firsts:
                run(first)
            return
        # A BLAS on OpenMP counts its threads by calling thread, so each thread sets its own limit.
        with ThreadPoolExecutor(threads, initializer=blas_on, initargs=(1,)) as pool:
            list(pool.map(run, firsts))


def blas_on(threads: int) -> AbstractContextManager[object]:
    """Limit every BLAS of this process to `threads` threads, at once and inside the block."""
    return _libraries(len(sys.modules)).limit(limits=threads, user_api="blas")


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """Find the loaded BLAS libraries; again if modules were imported since, which may load more.

    A search takes a millisecond, longer than ranking the items of one query.
    """
    return ThreadpoolController()


def check_process() -> None:
    """Raise in a process that was forked after polars had run, where polars would hang.

    After a fork polars waits forever for the threads it had in the parent, and so does training in
    progress. Numba's kernels and NumPy's linear algebra work.
    """
    global _home
    here = os.getpid()
    if _home == here:
        return
    if _threads_are_lost():
        raise ProcessError(
            "this process was forked after fmpair or polars was used, so the threads of polars are "
            "missing: load models and read data after the fork, or start processes by spawn"
        )
    _home = here


@contextmanager
def polars_at_rest() -> Iterator[None]:
    """Let `check_process` pass in the block without starting the threads of polars.

    A process without them may fork; `polars_has_threads` says whether the block started them.
    """
    global _home
    _home = os.getpid()
    try:
        yield
    finally:
        _home = None


def polars_has_threads() -> bool:
    """Return whether polars has started its threads in this process; Linux."""
    for pause in PAUSES[:2]:
        time.sleep(pause)
        if _has_polars(_threads()):
            return True
    return False


def _has_polars(threads: dict[str, str]) -> bool:
    prefix = os.environ.get("POLARS_THREAD_NAME", "polars")[:12]
    named = re.compile(re.escape(prefix) + r"-\d")
    return any(map(named.match, threads.values()))


def _threads_are_lost() -> bool:
    """Return whether the threads of polars are missing; look again while it may be too early.

    A new thread gives itself its name, so on a busy machine it has none at first. It may also be
    older than this check: polars starts its threads when it is first used.
    """
    if not TASKS.is_dir():
        return _is_fork and _home is not None
    import polars as pl

    before = _threads()
    size = pl.thread_pool_size()  # starts the threads if they never ran
    for pause in PAUSES:
        time.sleep(pause)
        now = _threads()
        if len(now.keys() - before.keys()) >= size or _has_polars(now):
            return False
        few = len(now) <= size  # there is one besides those of polars
        if pause and (few or not _is_fork):
            return few
    return True


def _threads() -> dict[str, str]:
    """Return the name of every thread of this process."""
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
