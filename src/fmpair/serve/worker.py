"""One process of the service: it loads the models, and answers on a socket that it is given."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path

import uvicorn

from fmpair.events.store import beside, open_store
from fmpair.fitted.question import Question
from fmpair.serve.access_control import EVERY, Gate, Patience, Rate
from fmpair.serve.application import Application, page_routes, paths
from fmpair.serve.live_models import Models, Stamp, stamp
from fmpair.serve.metrics import Metrics
from fmpair.serve.service import Service, is_quick
from fmpair.serve.settings import Settings, is_loopback, keys_of
from fmpair.threads import all_threads, blas_on

# Model files watched: a new one is put into service as soon as it is there.


WATCH_INTERVAL = 0.2  # seconds; a look costs no more than asking the system for a time


class Watch:
    """A thread that looks at the files of the models in service and swaps those that changed.

    A file belongs there whole, by a rename; one that is still being written is refused at first,
    and taken when it is done. A refused one is tried again when it has changed.
    """

    def __init__(self, models: Models, every: float = WATCH_INTERVAL):
        self._models, self._every = models, every
        self._tried: dict[str, Stamp | None] = {own.arm: own.stamp for own in models.serving()}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fmpair-watch", daemon=True)
        self._thread.start()

    def look(self) -> None:
        """Swap what has changed since the last look."""
        for arm, path in self._models.paths.items():
            found = stamp(path)  # before it is read: what changes meanwhile differs next time
            if found == self._tried[arm]:
                continue
            self._tried[arm] = found
            if not self._models.reload(arm) and self._models.refused[arm].passing:
                self._tried[arm] = None

    def close(self) -> None:
        """Stop looking; a swap under way is finished."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            self.look()


KEEP_ALIVE = 75  # seconds that an idle connection stays open
FAREWELL = 10  # seconds that requests under way have when the service is stopped
MOST_CONNECTIONS = 4_096


def work(
    settings: Settings,
    listening: socket.socket,
    number: int,
    numbers: Path,
    ready: Callable[[], None],
) -> None:
    """Answer until a signal says stop.

    number: of this worker, from 0 on; numbers: the file of what all workers count; ready: is called
    once questions can be answered.
    """
    _log(number)
    store = open_store(settings.events or beside(settings.model))
    models = Models(settings.model, store, settings.candidate, settings.users_share)
    metrics = Metrics(paths(), numbers, number)
    service = Service(models, store, settings.candidate is not None, metrics)
    watch = Watch(models) if settings.watch else None
    server = _server(Application(service, _gate(settings), page_routes(), metrics))
    _end_with_parent()
    gc.collect()
    gc.freeze()  # models and modules stay: to look through them again and again makes answers late
    ready()
    try:
        with blas_on(_blas_threads(models, settings.workers)):
            server.run(sockets=[listening])
    finally:
        if watch is not None:
            watch.close()
        store.close()


def _log(number: int) -> None:
    """Let swaps, refusals and trouble be told on standard error, with the time and the worker."""
    handler = logging.StreamHandler()
    layout = f"%(asctime)s %(levelname)s worker {number}: %(message)s"
    handler.setFormatter(logging.Formatter(layout, "%Y-%m-%d %H:%M:%S"))
    log = logging.getLogger("fmpair")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False


def _blas_threads(models: Models, workers: int) -> int:
    """One for small catalogues, where a second is only kept busy; for large ones a worker's share.

    It is set once: a limit that another thread sets in a block of its own has no effect there.
    """
    quick = all(is_quick(own.model, Question()) for own in models.serving())
    return 1 if quick else max(all_threads() // workers, 1)


def _gate(settings: Settings) -> Gate:
    """Every worker sees its part of a client's requests, and allows its part of the rate."""
    rate = Rate(settings.rate / settings.workers) if settings.rate else None
    return Gate(keys_of(settings.api_key_file), rate, is_loopback(settings.host))


def _server(application: Application) -> uvicorn.Server:
    config = uvicorn.Config(
        application,
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=FAREWELL,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_notify=EVERY,
        ws="none",
    )
    server = uvicorn.Server(config)
    config.callback_notify = Patience(lambda: server.server_state.connections).look
    return server


def _end_with_parent() -> None:
    """Stop as soon as the process that started this one is gone: it would keep the port."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def end() -> None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end, name="fmpair-parent", daemon=True).start()
