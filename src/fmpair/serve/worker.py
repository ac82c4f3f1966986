"""A worker process: it loads the models and answers requests on a socket of its parent."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import uvicorn

from fmpair.events.store import beside, open_store
from fmpair.fitted.question import Question
from fmpair.serve.access_control import AccessControl, RateLimit
from fmpair.serve.application import Application, paths, read_pages
from fmpair.serve.live_models import LiveModels, Stamp, stamp
from fmpair.serve.metrics import Metrics
from fmpair.serve.service import Service, is_quick
from fmpair.serve.settings import ServiceSettings, is_loopback, read_keys
from fmpair.threads import all_threads, blas_on

KEEP_ALIVE = 75  # seconds that an idle connection stays open
STOP_TIMEOUT = 10  # seconds for open requests when the service is stopped
MAX_CONNECTIONS = 4_096
HEAD_TIMEOUT = 10.0  # seconds for the head of a request to arrive
CHECK_EVERY = 5  # seconds between two checks of idle connections
WATCH_EVERY = 0.2  # seconds between two checks of the model files


def work(
    settings: ServiceSettings,
    listening: socket.socket,
    number: int,
    counters: Path,
    ready: Callable[[], None],
) -> None:
    """Answer requests until a stop signal.

    number: of this worker, from 0; counters: the file of the metrics; ready: called once requests
    can be answered.
    """
    _log_to_stderr(number)
    store = open_store(settings.events or beside(settings.model))
    models = LiveModels(settings.model, store, settings.candidate, settings.users_share)
    metrics = Metrics(paths(), counters, number)
    service = Service(models, store, settings.candidate is not None, metrics)
    watch = FileWatch(models) if settings.watch else None
    # Each worker gets a share of a client's requests, so it allows that share of the rate.
    rate = RateLimit(settings.rate / settings.workers) if settings.rate else None
    keys = read_keys(settings.api_key_file)
    access = AccessControl(keys, rate, is_loopback(settings.host))
    server = make_server(Application(service, access, read_pages(), metrics))
    _end_with_parent()
    gc.collect()
    gc.freeze()  # models and modules stay: scanning them again and again would delay answers
    ready()
    try:
        with blas_on(_blas_threads(models, settings.workers)):
            server.run(sockets=[listening])
    finally:
        if watch is not None:
            watch.close()
        store.close()


def make_server(application: Application) -> uvicorn.Server:
    """Return a server that also closes connections on which no request arrives."""
    config = uvicorn.Config(
        application,
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=STOP_TIMEOUT,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_notify=CHECK_EVERY,
        ws="none",
    )
    server = uvicorn.Server(config)
    config.callback_notify = IdleConnections(lambda: server.server_state.connections).close_idle
    return server


class IdleConnections:
    """Closes connections whose request does not arrive; uvicorn would keep them open forever.

    connections: returns the open ones.
    """

    def __init__(
        self, connections: Callable[[], Iterable[Any]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connections, self._clock = connections, clock
        self._since: WeakKeyDictionary[Any, float] = WeakKeyDictionary()

    async def close_idle(self) -> None:
        """Close connections that have waited too long for the head of a request."""
        now = self._clock()
        for connection in list(self._connections()):
            # Between two requests uvicorn's own keep-alive timer runs.
            answered = connection.cycle is None or connection.cycle.response_complete
            if not answered or connection.timeout_keep_alive_task is not None:
                self._since.pop(connection, None)
            elif now - self._since.setdefault(connection, now) >= HEAD_TIMEOUT:
                connection.transport.close()


class FileWatch:
    """A thread that puts changed model files into service.

    Replace a file by a rename, at once; one that is still being written is rejected at first and
    accepted when complete. A rejected file is tried again when it changes.
    """

    def __init__(self, models: LiveModels, every: float = WATCH_EVERY):
        self._models, self._every = models, every
        self._tried: dict[str, Stamp | None] = {one.arm: one.stamp for one in models.serving()}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fmpair-watch", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Reload the models whose files have changed."""
        for arm, path in self._models.paths.items():
            current = stamp(path)  # before the read: a later change is seen next time
            if current == self._tried[arm]:
                continue
            self._tried[arm] = current
            if not self._models.reload(arm) and self._models.rejected[arm].temporary:
                self._tried[arm] = None

    def close(self) -> None:
        """Stop, after a reload that is under way."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            self.check()


def _log_to_stderr(number: int) -> None:
    handler = logging.StreamHandler()
    layout = f"%(asctime)s %(levelname)s worker {number}: %(message)s"
    handler.setFormatter(logging.Formatter(layout, "%Y-%m-%d %H:%M:%S"))
    log = logging.getLogger("fmpair")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False


def _blas_threads(models: LiveModels, workers: int) -> int:
    """Return 1 for small catalogs, where more threads do not help; else this worker's share.

    Set it once per process: a limit set in another thread has no effect.
    """
    quick = all(is_quick(served.model, Question()) for served in models.serving())
    return 1 if quick else max(all_threads() // workers, 1)


def _end_with_parent() -> None:
    """Stop when the parent is gone; the port would stay taken otherwise."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def end() -> None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end, name="fmpair-parent", daemon=True).start()
