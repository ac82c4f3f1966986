"""The parent process of a service: it starts the workers and restarts those that die."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from fmpair.bridges.adapter import Requirement
from fmpair.errors import FmpairError, MachineError, ModelFileError, OptionError, named
from fmpair.fitted.file import header_at
from fmpair.serve.metrics import shared_memory
from fmpair.serve.settings import (
    CANDIDATE,
    CURRENT,
    DESCRIPTORS,
    ServiceSettings,
    Stamp,
    WorkerSlot,
    read_keys,
    stamp,
)
from fmpair.serve.shared_tables import shared_tables

BACKLOG = 2_048
START_TIMEOUT = 120.0  # seconds for workers to load the model
STOP_TIMEOUT = 15.0  # seconds for workers to end
PAUSE = 0.5  # seconds before a worker that died soon after its start is restarted
SOON = 5.0
ENDED = "its process ended"
REQUIRED = ("uvicorn", "httptools", "msgspec")  # of the extra


def serve(settings: ServiceSettings, tell: Callable[[str], None]) -> None:
    """Run the service until a stop signal; tell: called with the address and with restarts."""
    for name in REQUIRED:
        Requirement(name, name, "serve").check()
    read_keys(settings.api_key_file)
    _check_model(Path(settings.model))
    listening = _listen(settings)
    counters, kept = shared_memory(settings.workers), _KeptModels(settings)
    files = (settings.model, settings.candidate) if settings.workers > 1 else ()
    with _StopSignals() as stop, shared_tables(_worker_module, *files) as context:
        start = partial(_Worker, context, settings, listening, counters, kept)
        workers = [start(number) for number in range(settings.workers)]
        try:
            _await_ready(workers, stop)
            if not stop.wanted:
                host, port = listening.getsockname()[:2]
                tell(f"http://{f'[{host}]' if ':' in host else host}:{port}/")
            while not stop.wanted:
                wait([worker.process.sentinel for worker in workers], timeout=0.2)
                _restart_dead(workers, partial(start, restarted=True), tell)
        finally:
            _stop(workers)
            listening.close()
            os.close(counters)
            kept.close()


def _check_model(path: Path) -> None:
    """Raise ModelFileError unless a file starts like a model: workers make an event store first."""
    if not path.is_file():
        raise ModelFileError(f"cannot read model {str(path)!r}: no such file")
    try:
        header_at(path)
    except ModelFileError as error:
        right = "a model file is what `save` or `fmpair fit` writes"
        raise ModelFileError(f"{error}: {right}") from None


class _StopSignals:
    """Catches SIGTERM and SIGINT in a block, and restores their handlers after it."""

    def __init__(self) -> None:
        self.wanted = False

    def __enter__(self) -> _StopSignals:
        names = (signal.SIGTERM, signal.SIGINT)
        self._before = {name: signal.signal(name, self._note) for name in names}
        return self

    def __exit__(self, *_: object) -> None:
        for name, handler in self._before.items():
            signal.signal(name, handler)

    def _note(self, *_: Any) -> None:
        self.wanted = True


def _listen(settings: ServiceSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host.strip("[]"), settings.port))
    except OSError as error:
        listening.close()
        raise OptionError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror}; "
            f"{named('port', 0)} takes any free port"
        ) from None
    listening.listen(BACKLOG)
    listening.set_inheritable(True)
    return listening


class _Worker:
    """A worker process, and a pipe that receives None when it is ready, or its error.

    context: how to start it; counters: descriptor of the memory of the metrics; kept: the model
    files in service, updated when the worker reports a new one; restarted: whether it replaces a
    worker that died.
    """

    def __init__(
        self,
        context: ForkContext | SpawnContext,
        settings: ServiceSettings,
        listening: socket.socket,
        counters: int,
        kept: _KeptModels,
        number: int,
        restarted: bool = False,
    ) -> None:
        self._kept = kept
        self.number, self.started = number, time.monotonic()
        self.pipe, child_pipe = context.Pipe(duplex=False)
        slot = WorkerSlot(number, restarted, kept.inherited() if restarted else {})
        self.process: BaseProcess = context.Process(
            target=_run,
            args=(settings, listening, _Inherited(counters), slot, child_pipe),
            name=f"fmpair-{number}",
        )
        self.process.start()
        child_pipe.close()

    def receive(self) -> Any:
        """Return the next message."""
        try:
            return self.pipe.recv()
        except EOFError:
            return ENDED

    def read_messages(self) -> Any:
        """Note the models that the worker has put into service; return its error, or None."""
        error = None
        while error is None and self.pipe.poll():
            message = self.receive()
            if isinstance(message, tuple):
                self._kept.note(*message)
            else:
                error = message
        return error

    def why_ended(self) -> str:
        """Return the error of a worker that ended, or its exit code."""
        message = self.read_messages()
        return f"exit code {self.process.exitcode}" if message in (None, ENDED) else str(message)


def _await_ready(workers: list[_Worker], stop: _StopSignals) -> None:
    """Wait until all workers are ready; raise the error of the first that is not."""
    limit = time.monotonic() + START_TIMEOUT
    waiting = list(workers)
    while waiting and not stop.wanted:
        ready = wait([worker.pipe for worker in waiting], timeout=0.2)
        for worker in [worker for worker in waiting if worker.pipe in ready]:
            waiting.remove(worker)
            message = worker.receive()
            if isinstance(message, FmpairError):
                raise message
            if message is not None:
                raise MachineError(f"a worker could not start: {message}")
        if time.monotonic() > limit:
            raise MachineError(f"the workers did not start within {START_TIMEOUT:.0f} seconds")


def _restart_dead(
    workers: list[_Worker], start: Callable[[int], _Worker], tell: Callable[[str], None]
) -> None:
    for index, worker in enumerate(workers):
        if worker.process.is_alive():
            worker.read_messages()
            continue
        tell(f"worker {worker.number} ended ({worker.why_ended()}), restarting it")
        if time.monotonic() - worker.started < SOON:
            time.sleep(PAUSE)
        worker.pipe.close()
        workers[index] = start(worker.number)


def _stop(workers: list[_Worker]) -> None:
    for worker in workers:
        if worker.process.is_alive():
            worker.process.terminate()
    limit = time.monotonic() + STOP_TIMEOUT
    for worker in workers:
        worker.process.join(max(limit - time.monotonic(), 0.1))
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()


class _KeptModels:
    """The model files in service, kept open for workers that are restarted.

    At the path of a model there may be a newer file, which the other workers have rejected.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        given = {CURRENT: settings.model, CANDIDATE: settings.candidate}
        self._paths = {arm: path for arm, path in given.items() if path is not None}
        self._files: dict[str, int] = {}
        for arm in self._paths if Path(DESCRIPTORS).is_dir() else ():
            self.note(arm)

    def note(self, arm: str, accepted: Stamp | None = None) -> None:
        """Keep the file of a model, if it is still the one that was accepted."""
        try:
            file = os.open(self._paths[arm], os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return
        unused: int | None = file
        if accepted in (None, stamp(file)):
            unused, self._files[arm] = self._files.get(arm), file
        if unused is not None:
            os.close(unused)

    def inherited(self) -> dict[str, _Inherited]:
        """Return the descriptors, to be sent to a process."""
        return {arm: _Inherited(file) for arm, file in self._files.items()}

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            os.close(file)


class _Inherited:
    """A file descriptor that a new process inherits; pickling translates its number."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __reduce__(self) -> tuple[Any, ...]:
        from multiprocessing.reduction import DupFd  # not on Windows

        return _received, (DupFd(self.descriptor),)


def _received(inherited: Any) -> _Inherited:
    return _Inherited(inherited.detach())


def _worker_module() -> Any:
    from fmpair.serve import worker  # heavy, so not before the settings are checked

    return worker


def _run(
    settings: ServiceSettings,
    listening: socket.socket,
    counters: _Inherited,
    slot: WorkerSlot,
    pipe: Connection,
) -> None:
    """Run a worker in its process."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops its workers
    try:
        _worker_module().work(settings, listening, slot, counters.descriptor, pipe.send)
    except FmpairError as error:
        _send(pipe, error)
    except Exception as error:
        _send(pipe, f"{type(error).__name__}: {error}")
        raise


def _send(pipe: Connection, message: Any) -> None:
    try:
        pipe.send(message)
    except OSError:  # the parent is gone
        raise SystemExit(1) from None
