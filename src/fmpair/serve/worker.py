"""One process of the service: it loads the model, and answers on a socket that it is given."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from fmpair.events.store import beside, open_store
from fmpair.serve.application import application
from fmpair.serve.models import Models
from fmpair.serve.service import Service
from fmpair.serve.settings import Settings
from fmpair.serve.watch import Watch

KEEP_ALIVE = 75  # seconds that an idle connection stays open
FAREWELL = 10  # seconds that requests under way have when the service is stopped
MOST_CONNECTIONS = 4_096


def work(
    settings: Settings, listening: socket.socket, number: int, ready: Callable[[], None]
) -> None:
    """Answer until a signal says stop. number: of this worker, from 0 on; ready: called once."""
    store = open_store(settings.events or beside(settings.model))
    models = Models(settings.model, store, settings.candidate, settings.users_share)
    service = Service(models, store, recording=settings.candidate is not None)
    watch = Watch(models) if settings.watch else None
    config = uvicorn.Config(
        application(service),
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=FAREWELL,
        limit_concurrency=MOST_CONNECTIONS,
        ws="none",
    )
    server = uvicorn.Server(config)
    ready()
    try:
        server.run(sockets=[listening])
    finally:
        if watch is not None:
            watch.close()
        store.close()
