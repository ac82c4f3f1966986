"""Connecting to a Ray cluster, checking it, and running tasks on it. Imports ray when needed."""

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

RAY = "ray"
PORT = 6379  # default port of a cluster's head
FORM = re.compile(r"ray(?:://([^:/\s]+)(?::(\d{1,5}))?)?")
PATIENCE = 5.0  # seconds for the head to answer
PROBE = 120.0  # seconds for the machines to report their versions
QUIET = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.ERROR}
RETRIES = 3  # of a task whose process or machine is lost; its own errors are final
AHEAD = 2  # running tasks per core: the next one starts while a result travels

Argument = TypeVar("Argument")
_checked: set[str] = set()  # ids of machines whose versions were checked


# Addresses: `ray`, or `ray://host:port`.


def check_on(on: str) -> None:
    """Raise OptionError if `on` is not the address of a cluster, or Ray is not installed."""
    address_of(on)
    if find_spec(RAY) is None:
        raise OptionError(
            f"{named('on', on)} cannot be used: Ray is not installed: pip install 'fmpair[ray]'"
        )


def address_of(on: str) -> tuple[str, int] | None:
    """Return (host, port) of the cluster's head; None for the connected cluster or a new one."""
    match = FORM.fullmatch(on) if isinstance(on, str) else None
    if match is None or int(match[2] or PORT) > 65_535:
        raise OptionError(f"{named('on')} must be ray or ray://HOST:PORT, not {on!r}")
    return (match[1], int(match[2] or PORT)) if match[1] else None


def library() -> Any:
    """Import and return the module ray."""
    return import_module(RAY)


# Errors.


def is_lost(error: BaseException) -> bool:
    """Return whether a process, a machine or its objects were lost."""
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
    return any(isinstance(cause, lost) for cause in _causes(error))


def as_fmpair_error(error: BaseException) -> FmpairError | None:
    """Return an error of Ray as a one-line error, or the FmpairError it wraps; else None."""
    kinds = library().exceptions
    for cause in _causes(error):
        if isinstance(cause, FmpairError):
            return cause
        if isinstance(cause, kinds.ObjectStoreFullError):
            return MachineError(
                "the object store of the Ray cluster is full: start Ray with a larger "
                "--object-store-memory, on more machines, or give it a disk to spill to"
            )
        if isinstance(cause, kinds.OutOfDiskError):
            return MachineError(
                "the object store of the Ray cluster and the disk it spills to are full: start Ray "
                "with a larger --object-store-memory, or free space in its temporary folder"
            )
        if isinstance(cause, kinds.OutOfMemoryError):
            return MachineError(
                f"a machine of the Ray cluster ran out of memory: {first_line(cause)}"
            )
    if isinstance(error, kinds.RayError) and not isinstance(error, kinds.RayTaskError):
        return MachineError(f"Ray failed: {first_line(error)}")
    return None


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Raise errors of Ray as one-line errors of fmpair."""
    try:
        yield
    except library().exceptions.RayError as error:
        raise as_fmpair_error(error) or error from error


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(".: ")


def _causes(error: BaseException | None) -> list[BaseException]:
    """Return the error and its causes, as given by Ray or Python."""
    causes: list[BaseException] = []
    while error is not None and error not in causes:
        causes.append(error)
        cause: Any = getattr(error, "cause", None)
        error = cause if isinstance(cause, BaseException) else error.__cause__
    return causes


# Connections. Every machine of a cluster must run the same fmpair.


def connect(on: str) -> Any:
    """Return the module ray, connected to the cluster at `on`, or to a new one on this machine.

    An existing connection is kept. A cluster started here ends with this process.
    """
    check_on(on)
    ray, address = library(), address_of(on) or _from_environment()
    if not ray.is_initialized():
        _start(ray, on, address)
    elif address is not None:
        _check_same(ray, on, address)
    _check_versions(ray, on)
    return ray


def _from_environment() -> tuple[str, int] | None:
    """Return the address in RAY_ADDRESS, if any.

    Ray itself would also search this machine, and wait for minutes for a cluster that has ended.
    """
    address = os.environ.get("RAY_ADDRESS", "").strip()
    return address_of(address if "://" in address else f"ray://{address}") if address else None


def cores(ray: Any) -> int:
    """Return the number of cores of the cluster; raise MachineError if there are none."""
    count = int(ray.cluster_resources().get("CPU", 0))
    if count < 1:
        raise MachineError("the Ray cluster offers no cores: start a machine with --num-cpus")
    return count


def _start(ray: Any, on: str, address: tuple[str, int] | None) -> None:
    where = "local" if address is None else f"{address[0]}:{address[1]}"
    if address is not None:
        _reach(on, address)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ray's deprecations
            ray.init(where, **QUIET)
    except RuntimeError as error:
        if "ersion mismatch" in str(error):
            raise OptionError(_mismatch(on, str(error))) from error
        raise _unreachable(on, error) from error
    except (ConnectionError, ValueError, OSError) as error:
        raise _unreachable(on, error) from error


def _reach(on: str, address: tuple[str, int]) -> None:
    """Fail immediately if the address does not answer; Ray itself would wait for minutes."""
    try:
        socket.create_connection(address, PATIENCE).close()
    except OSError as error:
        reason = error.strerror or str(error) or "it does not answer"
        raise OptionError(
            f"cannot reach a Ray cluster with {named('on', on)}: {reason}; start its head with "
            "`ray start --head --port=6379`"
        ) from error


def _unreachable(on: str, error: BaseException) -> OptionError:
    return OptionError(
        f"cannot reach a Ray cluster with {named('on', on)}: {first_line(error)}; this machine "
        "must belong to the cluster: `ray start --address=HOST:PORT`"
    )


def _mismatch(on: str, message: str) -> str:
    """Return the error text for different versions, which Ray's message lists line by line."""
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
            f"this process is already connected to the Ray cluster at {host}:{port}, not to "
            f"{named('on', on)}: call ray.shutdown() first"
        )


def versions() -> tuple[str, str]:
    """Return the versions that must be the same on all machines."""
    package = import_module("fmpair")  # a plain import would be a circle
    return f"fmpair {package.__version__}", f"Python {platform.python_version()}"


def _check_versions(ray: Any, on: str) -> None:
    """Check the versions of every machine that was not checked before."""
    nodes = [n for n in ray.nodes() if n["Alive"] and n["NodeID"] not in _checked]
    if not nodes:
        return
    with one_line_errors():
        from_each = ray.remote(num_cpus=0, max_retries=0)(versions)
        pinned = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        refs = [
            from_each.options(scheduling_strategy=pinned(n["NodeID"], soft=False)).remote()
            for n in nodes
        ]
        ray.wait(refs, num_returns=len(refs), timeout=PROBE)
        answers = [_answer(ray, ref) for ref in refs]
    for node, answer in zip(nodes, answers):
        if answer is not None and answer != versions():
            raise OptionError(
                f"machine {node['NodeManagerAddress']} of {named('on', on)} runs "
                f"{' on '.join(answer)}, this process {' on '.join(versions())}: install the same "
                "version everywhere"
            )
        _checked.add(node["NodeID"])


def _answer(ray: Any, ref: Any) -> tuple[str, str] | None:
    """Return the versions of a machine; None if it is gone."""
    try:
        return ray.get(ref, timeout=1)
    except ray.exceptions.RayTaskError as error:
        missing = isinstance(error.cause, ImportError | AttributeError)
        return ("no fmpair", "its Python") if missing else None
    except ray.exceptions.RayError:
        return None


# Tasks.


def each(
    ray: Any,
    function: Callable[..., Any],
    shared: tuple[Any, ...],
    arguments: Iterable[Argument],
    threads: int = 1,
) -> Iterator[tuple[Argument, Any]]:
    """Yield (argument, function(*shared, argument)) in any order; threads: cores of a task.

    shared: refs or plain values that every task gets. The result is None if a task is lost again
    and again. Only running tasks are held in memory.
    """
    remote = ray.remote(num_cpus=threads, max_retries=RETRIES)(function)
    waiting = iter(arguments)
    running: dict[Any, Argument] = {}
    try:
        while True:
            room = max(AHEAD * (cores(ray) // threads), 1) - len(running)
            for argument in islice(waiting, max(room, 0)):
                running[remote.remote(*shared, argument)] = argument
            if not running:
                return
            done, _ = ray.wait(list(running), num_returns=1)
            yield running.pop(done[0]), _value(ray, done[0])
    finally:
        for ref in running:
            ray.cancel(ref, force=True)


def _value(ray: Any, ref: Any) -> Any:
    with one_line_errors():
        try:
            return ray.get(ref)
        except ray.exceptions.RayError as error:
            if is_lost(error):
                return None
            raise
