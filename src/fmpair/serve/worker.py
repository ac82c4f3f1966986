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
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any

from fmpair.events.store import beside, open_store
from fmpair.fitted.conditions import check_column
from fmpair.fitted.question import Question
from fmpair.serve.access_control import AccessControl, RateLimit
from fmpair.serve.application import Application, paths, read_pages
from fmpair.serve.connections import make_server
from fmpair.serve.live_models import LiveModels
from fmpair.serve.metrics import Metrics
from fmpair.serve.request_batcher import is_quick
from fmpair.serve.request_options import rules_in_service
from fmpair.serve.service import Service
from fmpair.serve.settings import ServiceSettings, Stamp, WorkerSlot, is_loopback, read_keys, stamp
from fmpair.threads import all_threads, blas_on

WATCH_EVERY = 0.2  # seconds between two checks of the model files
PARENT_EVERY = 0.5  # seconds between two checks that the parent is there
# Requests leave few objects in circles, for which Python's default searches every few requests.
GC_THRESHOLDS = (20_000, 10, 10)
RETRY_EVERY = 2.0  # seconds before a file is tried again, if the reason of the failure may pass


def work(
    settings: ServiceSettings,
    listening: socket.socket,
    slot: WorkerSlot,
    counters: int,
    send: Callable[[Any], None],
) -> None:
    """Answer requests until a stop signal.

    counters: descriptor of the memory of the metrics. send: sends a message to the parent: None
    once requests can be answered, and (arm, file) of each new model. A restarted worker starts even
    if the event store does not answer.
    """
    _log_to_stderr(slot.number)
    store = open_store(settings.events or beside(settings.model), later=slot.restarted)
    threads = max(all_threads() // settings.workers, 1)

    def accepted(*new: Any) -> None:
        send(new)

    both, share = (settings.model, settings.candidate), settings.users_share
    models = LiveModels(both[0], store, both[1], share, slot, accepted, settings.index, threads)
    store.watch()
    metrics = Metrics(paths(), counters, slot.number)
    rules = rules_in_service(settings.rules, models)
    strict, images = settings.strict, settings.images
    _check_images(images, slot, models)
    service = Service(models, store, both[1] is not None, metrics, rules, strict, images)
    # Each worker gets a share of a client's requests, so it allows that share of the rate.
    rate = RateLimit(settings.rate / settings.workers) if settings.rate else None
    keys = read_keys(settings.api_key_file)
    access = AccessControl(keys, rate, is_loopback(settings.host), settings.proxy)
    pages = read_pages(images is not None)
    server = make_server(Application(service, access, pages, metrics), settings.proxy)
    _end_with_parent()
    _collect_rarely()
    send(None)
    watch = FileWatch(models) if settings.watch else None
    try:
        with blas_on(_blas_threads(models, threads)):
            server.run(sockets=[listening])
    finally:
        if watch is not None:
            watch.close()
        store.close()


class FileWatch:
    """A thread that puts changed model files into service.

    Replace a file by a rename. A file that is still being written is rejected, and accepted when
    it is complete. A rejected file is tried again when it changes.
    """

    def __init__(self, models: LiveModels, every: float = WATCH_EVERY):
        self._models, self._every = models, every
        self._tried: dict[str, Stamp] = {served.arm: served.stamp for served in models.serving()}
        self._retry_at = dict.fromkeys(self._tried, 0.0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fmpair-watch", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Reload the models whose files have changed."""
        for arm, path in self._models.paths.items():
            current = stamp(path)  # before the read: a later change is seen next time
            if current == self._tried[arm] and not 0 < self._retry_at[arm] <= time.monotonic():
                continue
            self._tried[arm], self._retry_at[arm] = current, 0.0
            if not self._models.reload(arm) and self._models.rejected[arm].temporary:
                self._retry_at[arm] = time.monotonic() + RETRY_EVERY

    def close(self) -> None:
        """Stop, after a reload that is under way."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            self.check()


def _check_images(column: str | None, slot: WorkerSlot, models: LiveModels) -> None:
    """Raise if the first model has no such item column; models that replace it may lack it."""
    if column is not None and not slot.restarted:
        check_column("images", column, models.of(None)[1].catalogue)


def _log_to_stderr(number: int) -> None:
    handler = logging.StreamHandler()
    layout = f"%(asctime)s %(levelname)s worker {number}: %(message)s"
    handler.setFormatter(logging.Formatter(layout, "%Y-%m-%d %H:%M:%S"))
    log = logging.getLogger("fmpair")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False


def _collect_rarely() -> None:
    """Keep the garbage collector from delaying answers: models and modules are not scanned."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def _blas_threads(models: LiveModels, share: int) -> int:
    """Return 1 for small catalogs, where more threads do not help; else this worker's share.

    Set it once per process: a limit set in another thread has no effect.
    """
    quick = all(is_quick(served.model, Question()) for served in models.serving())
    return 1 if quick else share


def _end_with_parent() -> None:
    """Stop when the parent is gone; the port would stay taken otherwise."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def end() -> None:
        # Workers that are forked later keep the sentinel open.
        while not wait([parent.sentinel], PARENT_EVERY) and os.getppid() == parent.pid:
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end, name="fmpair-parent", daemon=True).start()
