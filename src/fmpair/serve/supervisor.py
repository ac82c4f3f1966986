"""The processes of the service: as many workers as asked for, one that dies started again."""

from __future__ import annotations

import multiprocessing
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from fmpair.bridges.adapter import Requirement
from fmpair.errors import FmpairError, MachineError, ModelFileError, OptionError, named
from fmpair.serve.metrics import ROW
from fmpair.serve.settings import Settings, keys_of

BACKLOG = 2_048
FIRST = 120.0  # seconds that workers have to load the model
FAREWELL = 15.0  # seconds that they have to end
PAUSE = 0.5  # seconds before one that died soon after its start is started again
SOON = 5.0
ENDED = "its process ended"
NEEDED = ("starlette", "uvicorn", "msgspec")  # of the extra


class _Worker:
    """A process, and the pipe on which it says that it is ready, or why it is not."""

    def __init__(
        self, settings: Settings, listening: socket.socket, numbers: Path, number: int
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self.number, self.started = number, time.monotonic()
        self.pipe, theirs = context.Pipe(duplex=False)
        self.process: SpawnProcess = context.Process(
            target=_run,
            args=(settings, listening, number, numbers, theirs),
            name=f"fmpair-{number}",
        )
        self.process.start()
        theirs.close()


def serve(settings: Settings, tell: Callable[[str], None]) -> None:
    """Run the service until a signal says stop; tell: what is said once it answers."""
    for name in NEEDED:
        Requirement(name, name, "serve").check()
    keys_of(settings.api_key_file)
    if not Path(settings.model).is_file():
        raise ModelFileError(f"cannot read model {str(settings.model)!r}: there is no such file")
    listening = _listen(settings)
    with _StopSignals() as stop, NamedTemporaryFile(prefix="fmpair-") as numbers:
        numbers.truncate(ROW * settings.workers)
        start = partial(_Worker, settings, listening, Path(numbers.name))
        workers = [start(number) for number in range(settings.workers)]
        try:
            _await_ready(workers, stop)
            if not stop.wanted:
                host, port = listening.getsockname()[:2]
                tell(f"http://{f'[{host}]' if ':' in host else host}:{port}/")
            while not stop.wanted:
                wait([worker.process.sentinel for worker in workers], timeout=0.2)
                _start_again(workers, start, tell)
        finally:
            _end(workers)
            listening.close()


class _StopSignals:
    """Whether somebody wants the service to stop; signals mean what they meant after the block."""

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


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host.strip("[]"), settings.port))
    except OSError as error:
        listening.close()
        raise OptionError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror}; "
            f"{named('port', 0)} takes any that is free"
        ) from None
    listening.listen(BACKLOG)
    listening.set_inheritable(True)
    return listening


def _await_ready(workers: list[_Worker], stop: _StopSignals) -> None:
    """Wait for all; the first that cannot work says why."""
    limit = time.monotonic() + FIRST
    waiting = {worker.pipe: worker for worker in workers}
    while waiting and not stop.wanted:
        for pipe in wait(list(waiting), timeout=0.2):
            worker = waiting.pop(pipe)  # type: ignore[call-overload]
            said = _said(worker.pipe)
            if isinstance(said, FmpairError):
                raise said
            if said is not None:
                raise MachineError(f"a worker could not start: {said}")
        if time.monotonic() > limit:
            raise MachineError(f"the workers did not start within {FIRST:.0f} seconds")


def _said(pipe: Connection) -> Any:
    try:
        return pipe.recv()
    except EOFError:
        return ENDED


def _start_again(
    workers: list[_Worker], start: Callable[[int], _Worker], tell: Callable[[str], None]
) -> None:
    """A new worker in place of each that has died; after a pause, where it had just begun."""
    for place, worker in enumerate(workers):
        if worker.process.is_alive():
            continue
        tell(f"worker {worker.number} ended ({_why(worker)}) and is started again")
        if time.monotonic() - worker.started < SOON:
            time.sleep(PAUSE)
        worker.pipe.close()
        workers[place] = start(worker.number)


def _why(worker: _Worker) -> str:
    """What a worker that ended said, or its exit code."""
    said = _said(worker.pipe) if worker.pipe.poll() else None
    if said is None and worker.pipe.poll():  # it was ready, and said more since
        said = _said(worker.pipe)
    return f"exit code {worker.process.exitcode}" if said in (None, ENDED) else str(said)


def _end(workers: list[_Worker]) -> None:
    for worker in workers:
        if worker.process.is_alive():
            worker.process.terminate()
    limit = time.monotonic() + FAREWELL
    for worker in workers:
        worker.process.join(max(limit - time.monotonic(), 0.1))
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()


def _run(
    settings: Settings, listening: socket.socket, number: int, numbers: Path, pipe: Connection
) -> None:
    """What a worker's process does."""
    from fmpair.serve.worker import work  # which the parent has no use for

    try:
        work(settings, listening, number, numbers, lambda: pipe.send(None))
    except FmpairError as error:
        _tell(pipe, error)
    except Exception as error:
        _tell(pipe, f"{type(error).__name__}: {error}")
        raise


def _tell(pipe: Connection, what: Any) -> None:
    try:
        pipe.send(what)
    except OSError:  # it was ready before, and the parent no longer listens
        raise SystemExit(1) from None
