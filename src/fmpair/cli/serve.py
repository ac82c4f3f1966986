"""`serve`: a model file as a service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fmpair.cli.model import Model, model_file
from fmpair.cli.show import note

Host = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Where to listen; beyond 127.0.0.1 with a key.")
]
Port = Annotated[int, typer.Option(metavar="PORT", help="0 takes any that is free.")]
Workers = Annotated[int, typer.Option(metavar="N", help="Processes that share the port.")]
Events = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where events are kept: sqlite:PATH or postgresql://...; by default a file beside the "
        "model.",
    ),
]
Keys = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Keys, one a line: every request must bring one."),
]
Rate = Annotated[
    float, typer.Option(metavar="N", help="Most requests a second of one client; 0: any.")
]
Watch = Annotated[
    bool, typer.Option("--watch", help="Take a new model file into service when it is there.")
]
Candidate = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A second model, which answers a share of the users."),
]
Share = Annotated[
    float | None,
    typer.Option(metavar="X", help="The share of the candidate's users; by default 0.1."),
]


def serve(
    model: Model,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    workers: Workers = 1,
    events: Events = None,
    api_key_file: Keys = None,
    rate: Rate = 100.0,
    watch: Watch = False,
    candidate: Candidate = None,
    share: Share = None,
) -> None:
    """Answer over HTTP, with a page to look at."""
    from fmpair.serve.settings import Settings
    from fmpair.serve.supervisor import serve as carry_out

    file = Path(model_file(model))
    settings = Settings(
        file, host, port, workers, events, api_key_file, rate, watch, candidate, share
    )
    carry_out(settings, note)
