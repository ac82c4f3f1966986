"""One process of the service: it loads the model, and answers on a socket that it is given."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from fmpair.events.store import beside, open_store
from fmpair.models.saved import load
from fmpair.serve.application import application
from fmpair.serve.fixed import FixedModel
from fmpair.serve.service import Service
from fmpair.serve.settings import Settings
from fmpair.serve.site import page_routes

KEEP_ALIVE = 75  # seconds that an idle connection stays open
FAREWELL = 10  # seconds that requests under way have when the service is stopped
MOST_CONNECTIONS = 4_096


def work(
    settings: Settings, listening: socket.socket, number: int, ready: Callable[[], None]
) -> None:
    """Answer until a signal says stop. number: of this worker, from 0 on; ready: called once."""
    model = load(settings.model)
    store = open_store(settings.events or beside(settings.model))
    service = Service(FixedModel(model, "model"), store)
    config = uvicorn.Config(
        application(service, page_routes()),
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
        store.close()


def warm_up(model: Any) -> None:
    """Compile and work out what the first question would wait for."""
    model.answer()
