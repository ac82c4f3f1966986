"""Tasks on a cluster: as many under way as it has cores for, answers as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from fmpair.cluster.connection import cores
from fmpair.cluster.failure import is_lost, telling

Asked = TypeVar("Asked")
RETRIES = 3  # of a task whose process or machine goes away; its own errors are final
AHEAD = 2  # tasks under way for every core: the next begins while an answer travels


def each(
    ray: Any,
    function: Callable[..., Any],
    shared: tuple[Any, ...],
    asked: Iterable[Asked],
    threads: int = 1,
) -> Iterator[tuple[Asked, Any]]:
    """(what was asked, function(*shared, asked)) in any order; a task has so many cores.

    shared: refs of what every task is given, or plain values. None where a task was lost again and
    again. No more is held than what is under way.
    """
    remote = ray.remote(num_cpus=threads, max_retries=RETRIES)(function)
    waiting = iter(asked)
    running: dict[Any, Asked] = {}
    try:
        while True:
            room = max(AHEAD * (cores(ray) // threads), 1) - len(running)
            running |= {remote.remote(*shared, one): one for one in islice(waiting, max(room, 0))}
            if not running:
                return
            done, _ = ray.wait(list(running), num_returns=1)
            yield running.pop(done[0]), _value(ray, done[0])
    finally:
        for ref in running:
            ray.cancel(ref, force=True)


def _value(ray: Any, ref: Any) -> Any:
    with telling():
        try:
            return ray.get(ref)
        except ray.exceptions.RayError as error:
            if is_lost(error):
                return None
            raise
