"""Threads: how many there are, and work done side by side on them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


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
