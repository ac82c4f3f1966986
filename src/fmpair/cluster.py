"""A Ray cluster: reached by its address, checked, given tasks. Nothing here imports ray at once."""

from __future__ import annotations

import logging
import os
import platform
import re
import socket
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from typing import Any, TypeVar

from fmpair.errors import FmpairError, MachineError, OptionError, named

# Where work runs beyond this process: `ray`, or `ray://host:port`. Needs no Ray itself.


RAY = "ray"
PORT = 6379  # of a cluster's head, unless it was started with another
FORM = re.compile(r"ray(?:://([^:/\s]+)(?::(\d{1,5}))?)?")
EXTRA = "Ray is not installed: pip install 'fmpair[ray]'"


def check_on(on: str) -> None:
    """Raise OptionError where `on` is no address of a cluster, or Ray is not installed."""
    address_of(on)
    if find_spec(RAY) is None:
        raise OptionError(f"{named('on', on)} cannot be used: {EXTRA}")


def address_of(on: str) -> tuple[str, int] | None:
    """(host, port) of the cluster's head; None for the one connected, or a new one here."""
    found = FORM.fullmatch(on) if isinstance(on, str) else None
    if found is None or int(found[2] or PORT) > 65_535:
        raise OptionError(f"{named('on')} must be ray or ray://HOST:PORT, not {on!r}")
    return (found[1], int(found[2] or PORT)) if found[1] else None


def library() -> Any:
    """The module ray: imported when first asked for, since few need it."""
    return import_module(RAY)


# What goes wrong on a cluster: what another try mends, and what is told in one line.


def is_lost(error: BaseException) -> bool:
    """Whether a process or a machine went away, with or without what it held."""
    kinds = library().exceptions
    lost = (
        kinds.RayActorError,
        kinds.WorkerCrashedError,
        kinds.NodeDiedError,
        kinds.ObjectLostError,
        kinds.ObjectFetchTimedOutError,
        kinds.ActorUnschedulableError,
        kinds.TaskUnschedulableError,
    )
    return any(isinstance(one, lost) for one in _behind(error))


def told(error: BaseException) -> FmpairError | None:
    """An error of Ray, or of ours that it wraps, in one line; None where it is neither."""
    kinds = library().exceptions
    for one in _behind(error):
        if isinstance(one, FmpairError):
            return one
        if isinstance(one, kinds.ObjectStoreFullError):
            return MachineError(
                "the object store of the Ray cluster is full: start Ray with a larger "
                "--object-store-memory, on more machines, or give it a disk to spill to"
            )
        if isinstance(one, kinds.OutOfDiskError):
            return MachineError(
                "the object store of the Ray cluster is full, and so is the disk it spills to: "
                "start Ray with a larger --object-store-memory, or make room in its temporary "
                "folder"
            )
        if isinstance(one, kinds.OutOfMemoryError):
            return MachineError(
                f"a machine of the Ray cluster ran out of memory: {first_line(one)}"
            )
    if isinstance(error, kinds.RayError) and not isinstance(error, kinds.RayTaskError):
        return MachineError(f"Ray gave up: {first_line(error)}")
    return None


@contextmanager
def telling() -> Iterator[None]:
    """A block in which errors of Ray are told in one line."""
    try:
        yield
    except library().exceptions.RayError as error:
        raise told(error) or error from error


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(".: ")


def _behind(error: BaseException | None) -> list[BaseException]:
    """The error, and the causes that Ray or Python name for it."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        cause: Any = getattr(error, "cause", None)
        error = cause if isinstance(cause, BaseException) else error.__cause__
    return found


# This process as a driver of a Ray cluster whose every machine runs the same fmpair.


PATIENCE = 5.0  # seconds that the head has to answer
PROBE = 120.0  # seconds that the machines have to say what they run
QUIET = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.ERROR}
_checked: set[str] = set()  # ids of machines that were found to run the same versions


def connect(on: str) -> Any:
    """The module ray, connected: to the cluster at an address, or to a new one on this machine.

    What is connected already stays so. A cluster that is started here ends with this process.
    """
    check_on(on)
    ray, address = library(), address_of(on) or _usual()
    if not ray.is_initialized():
        _start(ray, on, address)
    elif address is not None:
        _check_same(ray, on, address)
    _check_versions(ray, on)
    return ray


def _usual() -> tuple[str, int] | None:
    """The cluster that the environment names, as for all programs of Ray; None where it does not.

    Ray itself would look for one on this machine, and wait for minutes for one that has ended.
    """
    given = os.environ.get("RAY_ADDRESS", "").strip()
    return address_of(given if "://" in given else f"ray://{given}") if given else None


def cores(ray: Any) -> int:
    """How many cores the cluster offers; MachineError where there are none."""
    found = int(ray.cluster_resources().get("CPU", 0))
    if found < 1:
        raise MachineError("no machine of the Ray cluster offers a core: start one with --num-cpus")
    return found


def _start(ray: Any, on: str, address: tuple[str, int] | None) -> None:
    where = "local" if address is None else f"{address[0]}:{address[1]}"
    if address is not None:
        _reach(on, address)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Ray about its own future
            ray.init(where, **QUIET)
    except RuntimeError as error:
        if "ersion mismatch" in str(error):
            raise OptionError(_mismatch(on, str(error))) from error
        raise _unreachable(on, error) from error
    except (ConnectionError, ValueError, OSError) as error:
        raise _unreachable(on, error) from error


def _reach(on: str, address: tuple[str, int]) -> None:
    """Ray itself waits for minutes where nobody answers."""
    try:
        socket.create_connection(address, PATIENCE).close()
    except OSError as error:
        reason = error.strerror or str(error) or "it does not answer"
        raise OptionError(
            f"no Ray cluster is reached with {named('on', on)}: {reason}; its head is started with "
            "`ray start --head --port=6379`"
        ) from error


def _unreachable(on: str, error: BaseException) -> OptionError:
    return OptionError(
        f"no Ray cluster is reached with {named('on', on)}: {first_line(error)}; this machine must "
        "be one of the cluster's: `ray start --address=HOST:PORT`"
    )


def _mismatch(on: str, message: str) -> str:
    """Ray names the versions of the cluster and of this process in lines of their own."""
    lines = [" ".join(line.split()) for line in message.splitlines() if line.strip()]
    return (
        f"the cluster of {named('on', on)} runs another Ray or Python than this process: "
        f"{' '.join(lines)}; install the same versions"
    )


def _check_same(ray: Any, on: str, address: tuple[str, int]) -> None:
    host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
    try:
        same = socket.gethostbyname(address[0]) == socket.gethostbyname(host)
    except OSError:
        same = False
    if not same or address[1] != int(port):
        raise OptionError(
            f"this process is connected to the Ray cluster at {host}:{port}, not to that of "
            f"{named('on', on)}: call ray.shutdown() first"
        )


def versions() -> tuple[str, str]:
    """What must be the same everywhere, so that results are."""
    package = import_module("fmpair")  # by name: it names what stands on this
    return f"fmpair {package.__version__}", f"Python {platform.python_version()}"


def _check_versions(ray: Any, on: str) -> None:
    """Ask every machine that was not asked before what it runs."""
    fresh = [n for n in ray.nodes() if n["Alive"] and n["NodeID"] not in _checked]
    if not fresh:
        return
    with telling():
        from_each = ray.remote(num_cpus=0, max_retries=0)(versions)
        pinned = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        asked = [
            from_each.options(scheduling_strategy=pinned(n["NodeID"], soft=False)).remote()
            for n in fresh
        ]
        ray.wait(asked, num_returns=len(asked), timeout=PROBE)
        found = [_answer(ray, one) for one in asked]
    for node, answer in zip(fresh, found):
        if answer is not None and answer != versions():
            raise OptionError(
                f"machine {node['NodeManagerAddress']} of {named('on', on)} runs "
                f"{' on '.join(answer)}, this process {' on '.join(versions())}: install the same "
                "version everywhere"
            )
        _checked.add(node["NodeID"])


def _answer(ray: Any, asked: Any) -> tuple[str, str] | None:
    """What a machine runs; None where it went away before it could say so."""
    try:
        return ray.get(asked, timeout=1)
    except ray.exceptions.RayTaskError as error:
        missing = isinstance(error.cause, ImportError | AttributeError)
        return ("no fmpair", "its Python") if missing else None
    except ray.exceptions.RayError:
        return None


# Tasks on a cluster: as many under way as it has cores for, answers as they come.


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
