"""This process as a driver of a Ray cluster whose every machine runs the same fmpair."""

from __future__ import annotations

import logging
import os
import platform
import socket
import warnings
from importlib import import_module
from typing import Any

from fmpair.cluster.address import address_of, check_on, library
from fmpair.cluster.failure import first_line, telling
from fmpair.errors import MachineError, OptionError, named

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
