"""What goes wrong on a cluster: what another try mends, and what is told in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fmpair.cluster.address import library
from fmpair.errors import FmpairError, MachineError


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
